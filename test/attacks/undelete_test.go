package attacks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// moreObjects are so many that what is brought back has more than one page.
const moreObjects = 60

// identities are the uid and the generation of each object in a namespace of the member. Deployments have their spec instead of a generation:
// for these, Kubernetes counts annotations, too, and one is the uid of the template, which is another one.
func (b *braked) identities(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for kind, list := range map[string]client.ObjectList{
		"configmap": &corev1.ConfigMapList{}, "deployment": &appsv1.DeploymentList{}, "statefulset": &appsv1.StatefulSetList{},
	} {
		if err := b.member.List(t.Context(), list, client.InNamespace(b.ns)); err != nil {
			t.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			o := o.(client.Object)
			if o.GetLabels()[workv1alpha1.ManagedLabel] == "" || o.GetDeletionTimestamp() != nil {
				continue
			}
			all[kind+"/"+o.GetName()] = fmt.Sprintf("%s, generation %d", o.GetUID(), o.GetGeneration())
			if d, ok := o.(*appsv1.Deployment); ok {
				spec, err := json.Marshal(d.Spec)
				if err != nil {
					t.Fatal(err)
				}
				all[kind+"/"+o.GetName()] = fmt.Sprintf("%s, %s", o.GetUID(), spec)
			}
		}
	}
	return all
}

// expectDeleted waits until so many objects can be brought back.
func (b *braked) expectDeleted(t *testing.T, want int) {
	t.Helper()
	found, last := 0, error(nil)
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		q := &fleetv1alpha1.Undeletion{Spec: fleetv1alpha1.UndeletionSpec{Namespace: b.ns}}
		last = b.hub.Create(ctx, q)
		found = len(q.Status.Objects)
		return last == nil && found == want, nil
	})
	if err != nil {
		t.Fatalf("%d objects can be brought back, want %d: %v", found, want, last)
	}
}

// TestUndeleteAfterAMassDeletion takes the three steps of docs/history.md: what the brake held in the member runs on as it was, and belongs
// to the templates that came back. It takes a minute beside other tests, for objects that go and come back.
func TestUndeleteAfterAMassDeletion(t *testing.T) {
	t.Parallel()
	b := newBraked(t)
	var more []client.Object
	for i := range moreObjects {
		more = append(more, fleettest.ConfigMap(b.ns, fmt.Sprintf("more-%d", i), nil))
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "set"}}
	set.Spec.Selector, set.Spec.Template = fleettest.Deployment(b.ns, "set", 1).Spec.Selector, fleettest.Deployment(b.ns, "set", 1).Spec.Template
	more = append(more, set)
	policy := fleettest.Policy(b.ns, "more", fleettest.To("east"), more...)
	fleettest.Create(t, b.hub.Cluster, append(more, policy)...)
	const all = manyObjects + moreObjects + fewObjects + 1
	fleettest.ExpectListed(t, b.member.Cluster, &corev1.ConfigMapList{}, b.ns, func(*corev1.ConfigMapList) error {
		if n := len(b.identities(t)); n != all {
			return fmt.Errorf("the member has %d objects, want %d", n, all)
		}
		return nil
	})

	// The mistake: everything is deleted, a policy first. The brake holds what is left when it engages, and all that is deleted later.
	fleettest.Delete(t, b.hub.Cluster, policy)
	if err := b.hub.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(b.ns)); err != nil {
		t.Fatal(err)
	}
	b.expectEngaged(t, metav1.ConditionTrue)
	fleettest.Delete(t, b.hub.Cluster, set)
	if err := b.hub.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace(b.ns)); err != nil {
		t.Fatal(err)
	}
	b.expectDeleted(t, all)
	fleettest.ExpectListed(t, b.hub.Cluster, &workv1alpha1.WorkList{}, workv1alpha1.ExecutionNamespace("east"), func(l *workv1alpha1.WorkList) error {
		for i := range l.Items {
			if w := &l.Items[i]; w.DeletionTimestamp != nil && !meta.IsStatusConditionFalse(w.Status.Conditions, workv1alpha1.WorkApplied) {
				return fmt.Errorf("%s is being deleted, and does not wait for the brake", w.Name)
			}
		}
		return nil
	})
	held := b.identities(t)
	if !strings.HasSuffix(held["statefulset/set"], ", generation 1") {
		t.Fatalf("the StatefulSet was removed or changed although the brake was engaged: %s", held["statefulset/set"])
	}
	for i := range fewObjects {
		if held[fmt.Sprintf("deployment/few-%d", i)] == "" {
			t.Fatalf("deployment few-%d was removed although the brake was engaged", i)
		}
	}
	if len(held) < all/3 {
		t.Fatalf("the brake held %d of %d objects", len(held), all)
	}

	if r := fleettest.Flagship(t, "release-brake", "east", "--keep-objects", "--kubeconfig", b.hub.Kubeconfig); r.Code != 0 {
		t.Fatalf("releasing: %s%s", r.Stdout, r.Stderr)
	}
	r := fleettest.Flagship(t, "undelete", "-n", b.ns, "--all", "--kubeconfig", b.hub.Kubeconfig)
	if created := strings.Count(r.Stdout, " created\n"); r.Code != 0 || created != all+1 || !strings.Contains(r.Stdout, "propagationpolicy/more created") {
		t.Fatalf("undelete created %d objects, want %d with the policy: code %d\n%s%s", created, all+1, r.Code, r.Stdout, r.Stderr)
	}

	names := map[string]bool{workv1alpha1.WorkName("StatefulSet", b.ns, "set"): true}
	for i := range manyObjects {
		names[workv1alpha1.WorkName("ConfigMap", b.ns, fmt.Sprintf("many-%d", i))] = true
	}
	for i := range moreObjects {
		names[workv1alpha1.WorkName("ConfigMap", b.ns, fmt.Sprintf("more-%d", i))] = true
	}
	for i := range fewObjects {
		names[workv1alpha1.WorkName("Deployment", b.ns, fmt.Sprintf("few-%d", i))] = true
	}
	fleettest.ExpectListed(t, b.hub.Cluster, &workv1alpha1.WorkList{}, workv1alpha1.ExecutionNamespace("east"), func(l *workv1alpha1.WorkList) error {
		applied := 0
		for i := range l.Items {
			if w := &l.Items[i]; names[w.Name] && w.DeletionTimestamp == nil && meta.IsStatusConditionTrue(w.Status.Conditions, workv1alpha1.WorkApplied) {
				applied++
			}
		}
		if applied != all {
			return fmt.Errorf("%d of %d Works are applied", applied, all)
		}
		return nil
	})
	now := b.identities(t)
	if len(now) != all {
		t.Errorf("the member has %d objects, want %d", len(now), all)
	}
	for name, identity := range held {
		if now[name] != identity {
			t.Errorf("%s was %s, and is %s", name, identity, now[name])
		}
	}
}
