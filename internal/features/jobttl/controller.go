package jobttl

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Deps is what the loop needs. All fields are required.
type Deps struct {
	Client client.Client
	// Templates reads Jobs.
	Templates hubstore.VersionReader
	Clock     clock.PassiveClock
}

// Setup adds the loop. It does nothing for bindings without the record of an end.
func Setup(mgr ctrl.Manager, deps Deps) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("job-ttl").
		For(&workv1alpha2.ResourceBinding{}, builder.WithPredicates(ends())).
		WithOptions(controller.Options{SkipNameValidation: new(true)}). // several control planes may live in one process
		Complete(controlloop.Track(mgr, &cleaner{deps}))
	if err != nil {
		return fmt.Errorf("adding the loop job-ttl: %w", err)
	}
	return nil
}

// ends passes bindings of Jobs that have the record of an end, when that or the Job changes.
func ends() predicate.Predicate {
	concerns := func(obj client.Object) bool {
		binding, ok := obj.(*workv1alpha2.ResourceBinding)
		return ok && binding.Annotations[workv1alpha2.FinishedAnnotation] != "" && isJob(binding)
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return concerns(e.Object) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return concerns(e.ObjectNew) && (e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				!equality.Semantic.DeepEqual(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()))
		},
	}
}

func isJob(binding *workv1alpha2.ResourceBinding) bool {
	kind := binding.Spec.Resource.GroupVersionKind()
	return kind.Group == "batch" && kind.Kind == "Job"
}

// everywhere returns whether all clusters ended the run: those that the Job was scheduled to, and those of objects that need it.
func everywhere(finished workv1alpha2.Finished, spec *workv1alpha2.ResourceBindingSpec) bool {
	return finished.Everywhere(spec.Clusters) && !slices.ContainsFunc(spec.RequiredBy, func(dependant workv1alpha2.BindingSnapshot) bool {
		return !finished.Everywhere(dependant.Clusters)
	})
}

// cleaner deletes one Job at a time.
type cleaner struct{ Deps }

// Reconcile implements reconcile.Reconciler.
func (c *cleaner) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	binding := &workv1alpha2.ResourceBinding{}
	if err := c.Client.Get(ctx, q.NamespacedName, binding, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	finished := workv1alpha2.FinishedOf(binding)
	if binding.DeletionTimestamp != nil || !isJob(binding) || finished.Time.IsZero() || !everywhere(finished, &binding.Spec) {
		return reconcile.Result{}, nil
	}
	resource := binding.Spec.Resource
	job, err := c.Templates.Read(ctx, hubstore.TemplateOf(&binding.Spec), resource.ResourceVersion)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ttl, limited, err := unstructured.NestedInt64(job.Object, "spec", "ttlSecondsAfterFinished")
	if err != nil || !limited || job.GetUID() != resource.UID || job.GetNamespace() != binding.Namespace || job.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil //nolint:nilerr // The API server has checked the field.
	}
	if left := finished.Time.Add(time.Duration(ttl) * time.Second).Sub(c.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	uid, version := job.GetUID(), job.GetResourceVersion()
	err = c.Client.Delete(ctx, &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: job.GetAPIVersion(), Kind: job.GetKind()},
		ObjectMeta: metav1.ObjectMeta{Namespace: job.GetNamespace(), Name: job.GetName()},
	}, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err): // a new version of it may have another time to live; its status alone does not reach the binding
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("deleting Job %s/%s: %w", job.GetNamespace(), job.GetName(), err)
	}
	return reconcile.Result{}, nil
}
