package finished

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
)

// Interpreter reads the state of an object; an interpret.Chained does.
type Interpreter interface {
	Finished(ctx context.Context, obj *unstructured.Unstructured) (bool, error)
	Reflect(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error)
	Health(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error)
}

// Runs are the runs that members ended.
type Runs struct {
	interpreter Interpreter
	mu          sync.Mutex
	gone        map[types.NamespacedName]map[object]workv1alpha1.ManifestStatus // by Work
}

// object identifies one of a Work.
type object struct {
	kind schema.GroupKind
	name types.NamespacedName
}

// New returns what follows the changes of members. Changed has to receive a change before apply and observe do.
func New(interpreter Interpreter) *Runs {
	return &Runs{interpreter: interpreter, gone: map[types.NamespacedName]map[object]workv1alpha1.ManifestStatus{}}
}

// Changed keeps the last state of a finished object that is gone.
func (r *Runs) Changed(ctx context.Context, change objectcache.Change) {
	if !change.Gone || change.Work.Name == "" || change.Last == nil {
		return
	}
	obj, ok := change.Last()
	if !ok {
		return
	}
	run, err := r.Of(ctx, obj)
	if err != nil || run == "" {
		return
	}
	status := workv1alpha1.ManifestStatus{Finished: run, Removed: true, Health: workv1alpha1.ResourceUnknown}
	if reflected, err := r.interpreter.Reflect(ctx, obj); err == nil {
		status.Status = reflected
	}
	if health, err := r.interpreter.Health(ctx, obj); err == nil {
		status.Health = workv1alpha1.ResourceHealth(health)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone[change.Work] == nil {
		r.gone[change.Work] = map[object]workv1alpha1.ManifestStatus{}
	}
	r.gone[change.Work][identify(obj)] = status
}

// Of returns the run that an object in a member ended; empty if it has not ended or its kind has no end.
func (r *Runs) Of(ctx context.Context, obj *unstructured.Unstructured) (string, error) {
	if finished, err := r.interpreter.Finished(ctx, obj); err != nil || !finished {
		return "", err
	}
	return workv1alpha1.RunOfCopy(obj.GroupVersionKind().GroupKind(), obj.GetAnnotations()), nil
}

// Status returns what is known of the run of a manifest that the member ended, as of a removed object; nil if it did not.
func (r *Runs) Status(work *workv1alpha1.Work, manifest *unstructured.Unstructured) *workv1alpha1.ManifestStatus {
	id := identify(manifest)
	run := workv1alpha1.RunOfCopy(id.kind, manifest.GetAnnotations())
	if run == "" {
		return nil
	}
	for i := range work.Status.ManifestStatuses {
		reported := work.Status.ManifestStatuses[i]
		of := reported.Identifier
		if reported.Finished == run && of.Group == id.kind.Group && of.Kind == id.kind.Kind && of.Namespace == id.name.Namespace && of.Name == id.name.Name {
			reported.Removed = true
			r.drop(client.ObjectKeyFromObject(work), id) // from now on the Work has it
			return &reported
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if status, ok := r.gone[client.ObjectKeyFromObject(work)][id]; ok && status.Finished == run {
		return &status
	}
	if work.Annotations[workv1alpha1.FinishedAnnotation] == run {
		return &workv1alpha1.ManifestStatus{Finished: run, Removed: true, Health: workv1alpha1.ResourceUnknown}
	}
	return nil
}

// drop drops what is kept of one object of a Work.
func (r *Runs) drop(work types.NamespacedName, of object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.gone[work], of); len(r.gone[work]) == 0 {
		delete(r.gone, work)
	}
}

// Forget drops what is kept of a Work.
func (r *Runs) Forget(work types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gone, work)
}

func identify(obj *unstructured.Unstructured) object {
	return object{obj.GroupVersionKind().GroupKind(), types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
}
