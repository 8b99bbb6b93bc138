package render

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

// grace is how long a deleted Work waits for a binding that does not exist: one that was deleted at the same moment is
// created again within it.
const grace = 5 * time.Second

// Keeper decides whether the objects of a Work that is being deleted stay in their member.
type Keeper struct {
	// Reader reads bindings from the cache. Required.
	Reader client.Reader
	// Templates reads templates. Required.
	Templates hubstore.Reader
	// Wanted is Deps.Wanted, and a function for the same reason. Required.
	Wanted func(ctx context.Context, binding workv1alpha2.Binding) (bool, error)
	// Clock is compared with the time of deletion. Required.
	Clock clock.PassiveClock
}

// Keeps returns whether render would write the Work again once it is gone: then its objects must stay. If that is not known yet, again is
// the pause before the next call.
func (k Keeper) Keeps(ctx context.Context, work *workv1alpha1.Work) (keeps bool, again time.Duration, err error) {
	binding, key := bindingFor(work)
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	if binding == nil || !ok {
		return false, 0, nil
	}
	err = k.Reader.Get(ctx, key, binding.(client.Object), client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		if work.DeletionTimestamp != nil && k.Clock.Since(work.DeletionTimestamp.Time) < grace {
			return false, returning, nil
		}
		return false, 0, nil
	case err != nil:
		return false, 0, fmt.Errorf("reading the binding of the Work: %w", err)
	case !isWorkOf(work, binding.BindingSpec()): // a copy that a user made
		return false, 0, nil
	case binding.GetDeletionTimestamp() != nil:
		if wanted, err := k.Wanted(ctx, binding); err != nil || !wanted {
			return false, 0, err
		}
	default: // without its template the binding is about to be deleted
		if meta, err := hubstore.Present(ctx, k.Templates, hubstore.TemplateOf(binding.BindingSpec())); err != nil || meta == nil {
			return false, 0, err
		}
	}
	p := compose.PlanFor(binding)
	return p.Keeps(cluster) || !p.MayDelete, 0, nil
}

// HasWorks returns whether Works of a binding exist that are not being deleted, whether or not the binding does. It needs the indexes that
// Setup adds.
func HasWorks(reader client.Reader) func(ctx context.Context, binding client.ObjectKey) (bool, error) {
	return func(ctx context.Context, binding client.ObjectKey) (bool, error) {
		works, err := hubclient.ListWorks(ctx, reader, client.MatchingFields{workOwnerIndex: binding.Namespace + "/" + binding.Name})
		return slices.ContainsFunc(works, func(w *workv1alpha1.Work) bool { return w.DeletionTimestamp == nil }), err
	}
}

// bindingFor returns an empty binding of the kind that a Work was made for, and its name; nil if it was made for none.
func bindingFor(work metav1.Object) (workv1alpha2.Binding, client.ObjectKey) {
	annotations := work.GetAnnotations()
	if name := annotations[workv1alpha2.ClusterResourceBindingNameAnnotation]; name != "" {
		return &workv1alpha2.ClusterResourceBinding{}, client.ObjectKey{Name: name}
	}
	if name := annotations[workv1alpha2.ResourceBindingNameAnnotation]; name != "" {
		return &workv1alpha2.ResourceBinding{}, client.ObjectKey{
			Namespace: annotations[workv1alpha2.ResourceBindingNamespaceAnnotation], Name: name,
		}
	}
	return nil, client.ObjectKey{}
}

// isWorkOf returns whether a Work has the name under which a binding's Work is written.
func isWorkOf(work metav1.Object, spec *workv1alpha2.ResourceBindingSpec) bool {
	return work.GetName() == compose.WorkName(spec) || work.GetName() == compose.AlternativeWorkName(spec)
}
