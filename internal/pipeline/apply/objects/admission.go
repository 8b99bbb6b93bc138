package objects

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// brakedError means that a removal or a shrinkage waits for the brake.
type brakedError struct{ what string }

func (e brakedError) Error() string {
	return e.what + " waits: too many objects of the cluster are to be removed or scaled down at once; see the condition " +
		clusterv1alpha1.ClusterConditionBrakeEngaged + " of the Cluster"
}

func IsBraked(err error) bool {
	_, is := errors.AsType[brakedError](err)
	return is
}

// admitRemoval has the brake admit the deletion of an object in a member, with all objects that are deleted with it.
func (w *Writer) admitRemoval(ctx context.Context, conn *member.Conn, key types.NamespacedName, live *unstructured.Unstructured) error {
	cluster, work := &clusterv1alpha1.Cluster{}, &workv1alpha1.Work{}
	err := w.Hub.Get(ctx, types.NamespacedName{Name: conn.Name()}, cluster, client.UnsafeDisableDeepCopy)
	if err == nil && cluster.DeletionTimestamp != nil {
		return nil // a person has ordered the deletion of everything in the cluster
	} // else, also when the Cluster cannot be read, the brake decides
	q := brake.Request{Cluster: conn.Name(), Work: key}
	err = w.Hub.Get(ctx, key, work, client.UnsafeDisableDeepCopy)
	if q.Removal = err == nil && work.DeletionTimestamp != nil; !q.Removal {
		q.Extra = 1 // also when the Work cannot be read: the brake counts rather too many
	}
	q.Extra += w.goesWith(ctx, conn, live)
	if w.Brake.Admit(q) {
		return nil
	}
	return brakedError{"the deletion of " + ssa.IdentityOf(live).String()}
}

// goesWith is how many managed objects a member deletes together with an object: those in a namespace, and those of a kind.
// Objects that are to be removed anyway are not counted twice; those of a Work that cannot be read count.
func (w *Writer) goesWith(ctx context.Context, conn *member.Conn, live *unstructured.Unstructured) int {
	var within func(objectcache.Place) bool
	switch {
	case ssa.IsNamespace(live):
		within = func(p objectcache.Place) bool { return p.Object.Namespace == live.GetName() }
	case live.GetKind() == "CustomResourceDefinition":
		group, _, _ := unstructured.NestedString(live.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(live.Object, "spec", "names", "plural")
		within = func(p objectcache.Place) bool { return p.Resource.Group == group && p.Resource.Resource == plural }
	default:
		return 0
	}
	n := 0
	conn.Managed(func(p objectcache.Place, key types.NamespacedName) {
		work := &workv1alpha1.Work{}
		if within(p) && (w.Hub.Get(ctx, key, work, client.UnsafeDisableDeepCopy) != nil || work.DeletionTimestamp == nil) {
			n++
		}
	})
	return n
}

// admitShrinkage has the brake admit an object that is to have fewer replicas than it has.
func (w *Writer) admitShrinkage(try attempt, body, live *unstructured.Unstructured) error {
	desired, isSet, _ := unstructured.NestedInt64(body.Object, "spec", "replicas")
	current, has, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if !isSet || !has || desired == current {
		return nil
	}
	scaling := &brake.Scaling{Object: brake.Object(ssa.IdentityOf(live).String()), From: current, To: desired}
	if w.Brake.Admit(brake.Request{Cluster: try.Cluster, Work: try.work, Scaling: scaling}) {
		return nil
	}
	return brakedError{fmt.Sprintf("scaling %s from %d to %d replicas", ssa.IdentityOf(live), current, desired)}
}
