package memberevents

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

const (
	// maxCached is how many objects of a member are cached, some 200 bytes each.
	maxCached = 4096
	// cacheFor is how long: an object that belongs to no Work may be adopted.
	cacheFor = 10 * time.Minute
	// maxLevels is how many owners there may be above an object: a pod of a CronJob has two.
	maxLevels = 5
	// readsPerSecond and readsAtOnce bound the reads of metadata in a member.
	readsPerSecond, readsAtOnce = 50, 100
)

// origin is the Work that an object belongs to, and the name of the object in that Work. Both are empty for an object of no Work.
type origin struct{ work, root string }

// owners finds the Works to which objects of a member belong.
type owners struct {
	cluster string
	control ownership.ControlPlane
	works   client.Reader
	// metadata reads an object in the member. It is a function so that tests need no server.
	metadata func(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*metav1.PartialObjectMetadata, error)
	clock    clock.PassiveClock
	limiter  *rate.Limiter
	known    *lru.Cache // of cachedOrigin, by UID
}

type cachedOrigin struct {
	origin
	until time.Time
}

func newOwners(cluster string, control ownership.ControlPlane, works client.Reader, clock clock.PassiveClock) *owners {
	return &owners{
		cluster: cluster, control: control, works: works, clock: clock,
		limiter: rate.NewLimiter(readsPerSecond, readsAtOnce), known: lru.New(maxCached),
	}
}

// of returns the Work to which an object belongs.
func (o *owners) of(ctx context.Context, object corev1.ObjectReference, levels int) (origin, error) {
	if object.UID == "" || levels == 0 {
		return origin{}, nil
	}
	now := o.clock.Now()
	if found, ok := o.known.Get(object.UID); ok && now.Before(found.(cachedOrigin).until) {
		return found.(cachedOrigin).origin, nil
	}
	found, err := o.read(ctx, object, levels)
	if err != nil {
		return origin{}, err
	}
	o.known.Add(object.UID, cachedOrigin{found, now.Add(cacheFor)})
	return found, nil
}

func (o *owners) read(ctx context.Context, object corev1.ObjectReference, levels int) (origin, error) {
	if err := o.limiter.Wait(ctx); err != nil {
		return origin{}, fmt.Errorf("waiting to read from the member: %w", err)
	}
	kind := schema.FromAPIVersionAndKind(cmp.Or(object.APIVersion, "v1"), object.Kind)
	key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	head, err := o.metadata(ctx, kind, key)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return origin{}, nil
	case err != nil:
		return origin{}, fmt.Errorf("reading %s %s in the member: %w", object.Kind, key, err)
	case head.UID != object.UID:
		return origin{}, nil
	}
	if found, err := o.workOf(ctx, kind, head); err != nil || found.work != "" {
		return found, err
	}
	owner := metav1.GetControllerOf(head)
	if owner == nil {
		return origin{}, nil
	}
	return o.of(ctx, corev1.ObjectReference{
		APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: object.Namespace, Name: owner.Name, UID: owner.UID,
	}, levels-1)
}

// workOf returns the Work whose manifest an object is. Annotations alone prove nothing: anyone who may write in the member copies them.
func (o *owners) workOf(ctx context.Context, kind schema.GroupVersionKind, head *metav1.PartialObjectMetadata) (origin, error) {
	marked := &unstructured.Unstructured{}
	marked.SetAnnotations(head.Annotations)
	key := o.control.WorkOf(marked)
	if key.Namespace != workv1alpha1.ExecutionNamespace(o.cluster) || head.Labels[workv1alpha1.ManagedLabel] != workv1alpha1.ManagedLabelValue {
		return origin{}, nil
	}
	work, err := hubclient.GetWork(ctx, o.works, key)
	if err != nil || work == nil {
		return origin{}, err
	}
	for _, manifest := range work.Spec.Workload.Manifests {
		var object metav1.PartialObjectMetadata
		if json.Unmarshal(manifest.Raw, &object) == nil && object.GroupVersionKind().GroupKind() == kind.GroupKind() &&
			object.Namespace == head.Namespace && object.Name == head.Name {
			return origin{work: work.Name, root: head.Name}, nil
		}
	}
	return origin{}, nil
}
