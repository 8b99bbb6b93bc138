package works

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/utils/lru"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// specStrategy governs writes to a kind: everything but status.
type specStrategy struct {
	runtime.ObjectTyper
	names.NameGenerator

	kind kind
	// warnings are those about a custom resource.
	warnings rest.RESTCreateUpdateStrategy
	// same compares specs and statuses by meaning.
	same conversion.Equalities
	// defaulted is true if the schema has defaults for the spec.
	defaulted bool
	// fields are the fields of the spec that the schema has rules for.
	fields []specField
	// valid has the contents of fields that were validated: mostly the placement of one policy is in thousands of bindings.
	valid *lru.Cache
}

var (
	_ rest.CreateUpdateResetFieldsStrategy = specStrategy{}
	_ rest.UpdateResetFieldsStrategy       = statusStrategy{}
	_ rest.UpdateResetFieldsStrategy       = scheduleStrategy{}
	_ rest.CreateUpdateResetFieldsStrategy = withStatusStrategy{}
)

func newStrategy(scheme *runtime.Scheme, k kind) (specStrategy, error) {
	same := apiequality.Semantic.Copy()
	if err := same.AddFunc(sameRaw); err != nil {
		return specStrategy{}, err
	}
	structural := k.structural.Properties["spec"]
	fields, err := specFields(k)
	if err != nil {
		return specStrategy{}, err
	}
	return specStrategy{
		ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, kind: k, same: same,
		defaulted: anywhere(&structural, isDefaulted), fields: fields, valid: lru.New(maxValid),
		warnings: customresource.NewStrategy(scheme, k.namespaced, k.kind(), nil, nil, nil, nil, nil, nil),
	}, nil
}

// sameRaw compares embedded objects by meaning: writers order their fields as they like.
func sameRaw(a, b runtime.RawExtension) bool {
	if bytes.Equal(a.Raw, b.Raw) {
		return true
	}
	var left, right any
	if json.Unmarshal(a.Raw, &left) != nil || json.Unmarshal(b.Raw, &right) != nil {
		return false
	}
	return reflect.DeepEqual(left, right)
}

// NamespaceScoped is that of the definition.
func (s specStrategy) NamespaceScoped() bool { return s.kind.namespaced }

// AllowCreateOnUpdate is false: a PUT to a name that is not there is a mistake.
func (specStrategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is false, as for custom resources: a PUT names the version that it replaces.
func (specStrategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// GetResetFields returns the fields that a write to the main resource does not change.
func (s specStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resets("status")
}

func (s specStrategy) resets(names ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	all := map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.kind.gv.String()): set}
	if s.kind.former != nil {
		all[fieldpath.APIVersion(s.kind.former.gv.String())] = set
	}
	return all
}

// PrepareForCreate fills in what the schema defaults.
func (s specStrategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	reset(s.kind.status(object))
	s.prepare(object)
}

// prepare completes a new object.
func (s specStrategy) prepare(object runtime.Object) {
	forgetManagers(object.(metav1.Object))
	object.(metav1.Object).SetGeneration(1)
	s.setDefaults(object)
}

// PrepareForUpdate keeps the status and counts changes of the spec.
func (s specStrategy) PrepareForUpdate(ctx context.Context, object, old runtime.Object) {
	keepOmitted(ctx, object, old)
	assign(s.kind.status(object), s.kind.status(old))
	s.countGeneration(object, old)
}

// countGeneration defaults the spec, keeps the old one if it means the same, and else counts a generation.
func (s specStrategy) countGeneration(object, old runtime.Object) {
	generation := old.(metav1.Object).GetGeneration()
	unchanged := s.same.DeepEqual(s.kind.spec(object), s.kind.spec(old))
	if !unchanged && s.defaulted {
		s.setDefaults(object)
		unchanged = s.same.DeepEqual(s.kind.spec(object), s.kind.spec(old))
	}
	if unchanged {
		assign(s.kind.spec(object), s.kind.spec(old))
	} else {
		generation++
	}
	object.(metav1.Object).SetGeneration(generation)
}

// forgetManagers leaves a new object without managed fields unless it is applied. Upstream then records none until a client applies
// the object, and what is there by then belongs to the manager before-first-apply. Managed fields were a third of such an object and
// a tenth of the cost of every write.
func forgetManagers(object metav1.Object) {
	for _, entry := range object.GetManagedFields() {
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			return
		}
	}
	object.SetManagedFields(nil)
}

// setDefaults applies the schema's defaults to the spec. What cannot be converted is left for validation to refuse.
func (s specStrategy) setDefaults(object runtime.Object) {
	if !s.defaulted {
		return
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.kind.spec(object))
	if err != nil {
		return
	}
	schema := s.kind.structural.Properties["spec"]
	defaulting.Default(spec, &schema)
	filled := reflect.New(reflect.TypeOf(s.kind.spec(object)).Elem()).Interface()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, filled); err == nil {
		assign(s.kind.spec(object), filled)
	}
}

// assign makes what one pointer points to that of the other.
func assign(to, from any) { reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem()) }

// reset makes what a pointer points to empty.
func reset(what any) { reflect.ValueOf(what).Elem().SetZero() }

// Canonicalize has nothing to do that the write has not done.
func (specStrategy) Canonicalize(runtime.Object) {}

// WarningsOnCreate warns of what is legal and unwise.
func (s specStrategy) WarningsOnCreate(ctx context.Context, object runtime.Object) []string {
	return s.warnings.WarningsOnCreate(ctx, object)
}

// WarningsOnUpdate warns of what is new, legal and unwise.
func (s specStrategy) WarningsOnUpdate(ctx context.Context, object, old runtime.Object) []string {
	return s.warnings.WarningsOnUpdate(ctx, object, old)
}

// statusStrategy governs writes to a kind's status.
type statusStrategy struct{ specStrategy }

// GetResetFields returns the fields that a write to status does not change.
func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resets("spec", "metadata")
}

// PrepareForUpdate keeps everything but status.
func (s statusStrategy) PrepareForUpdate(ctx context.Context, object, old runtime.Object) {
	keepOmitted(ctx, object, old)
	assign(s.kind.spec(object), s.kind.spec(old))
	metav1.ResetObjectMetaForStatus(object.(metav1.Object), old.(metav1.Object))
	s.keepStatus(object, old)
}

// keepStatus keeps the old status if the new one means the same.
func (s specStrategy) keepStatus(object, old runtime.Object) {
	if s.same.DeepEqual(s.kind.status(object), s.kind.status(old)) {
		assign(s.kind.status(object), s.kind.status(old))
	}
}

// ValidateUpdate checks what other writers build on: conditions and healths.
func (s statusStrategy) ValidateUpdate(_ context.Context, object, _ runtime.Object) field.ErrorList {
	path := field.NewPath("status")
	errs := metav1validation.ValidateConditions(s.kind.conditions(object), path.Child("conditions"))
	switch typed := object.(type) {
	case *workv1alpha1.Work:
		for i, manifest := range typed.Status.ManifestStatuses {
			errs = append(errs, checkHealth(string(manifest.Health), path.Child("manifestStatuses").Index(i))...)
		}
	case workv1alpha2.Binding:
		for i, item := range typed.BindingStatus().AggregatedStatus {
			at := path.Child("aggregatedStatus").Index(i)
			errs = append(errs, checkHealth(string(item.Health), at)...)
			if item.ClusterName == "" {
				errs = append(errs, field.Required(at.Child("clusterName"), ""))
			}
		}
	}
	return errs
}

func checkHealth(health string, path *field.Path) field.ErrorList {
	known := []workv1alpha1.ResourceHealth{workv1alpha1.ResourceHealthy, workv1alpha1.ResourceUnhealthy, workv1alpha1.ResourceUnknown}
	for _, value := range known {
		if health == "" || health == string(value) {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path.Child("health"), health, known)}
}
