package works

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// specStrategy governs writes to a kind: everything but status.
type specStrategy struct {
	runtime.ObjectTyper
	names.NameGenerator

	kind kind
	// rules check an object as if it were a custom resource.
	rules rest.RESTCreateUpdateStrategy
	// same compares specs and statuses by meaning.
	same conversion.Equalities
	// defaulted says that the schema has defaults for the spec, ruled that it asks more of the spec than its Go type does.
	defaulted, ruled bool
}

var (
	_ rest.CreateUpdateResetFieldsStrategy = specStrategy{}
	_ rest.UpdateResetFieldsStrategy       = statusStrategy{}
)

func newStrategy(scheme *runtime.Scheme, k kind) (specStrategy, error) {
	strict := k.schema.DeepCopy()
	spec := strict.Properties["spec"]
	insist(&spec)
	strict.Properties["spec"] = spec
	validator, _, err := schemavalidation.NewSchemaValidator(strict)
	if err != nil {
		return specStrategy{}, fmt.Errorf("reading the schema of %s: %w", k.resource(), err)
	}
	same := apiequality.Semantic.Copy()
	if err := same.AddFunc(sameRaw); err != nil {
		return specStrategy{}, err
	}
	structural := k.structural.Properties["spec"]
	withStatus := &apiextensions.CustomResourceSubresourceStatus{}
	return specStrategy{
		ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, kind: k, same: same,
		defaulted: anywhere(&structural, isDefaulted), ruled: anywhere(&structural, isRuled),
		rules: customresource.NewStrategy(scheme, k.namespaced, k.kind(), validator, nil, k.structural, withStatus, nil, nil),
	}, nil
}

// insist makes what is required have a value. A Go type cannot tell a text that is missing from an empty one.
func insist(schema *apiextensions.JSONSchemaProps) {
	for _, name := range schema.Required {
		property, ok := schema.Properties[name]
		if ok && property.Type == "string" && property.MinLength == nil && len(property.Enum) == 0 {
			one := int64(1)
			property.MinLength = &one
			schema.Properties[name] = property
		}
	}
	for name, property := range schema.Properties {
		insist(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		insist(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		insist(schema.AdditionalProperties.Schema)
	}
}

// anywhere tells whether something holds for a schema or a part of it.
func anywhere(schema *structuralschema.Structural, holds func(*structuralschema.Structural) bool) bool {
	if schema == nil {
		return false
	}
	if holds(schema) || anywhere(schema.Items, holds) {
		return true
	}
	for _, property := range schema.Properties {
		if anywhere(&property, holds) {
			return true
		}
	}
	return schema.AdditionalProperties != nil && anywhere(schema.AdditionalProperties.Structural, holds)
}

func isDefaulted(schema *structuralschema.Structural) bool { return schema.Default.Object != nil }

func isRuled(schema *structuralschema.Structural) bool {
	return len(schema.XValidations) > 0 || schema.XEmbeddedResource || schema.XListType != nil && *schema.XListType != "atomic" ||
		schema.ValueValidation != nil && !reflect.DeepEqual(*schema.ValueValidation, structuralschema.ValueValidation{})
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

// NamespaceScoped is what the definition says.
func (s specStrategy) NamespaceScoped() bool { return s.kind.namespaced }

// AllowCreateOnUpdate is false: a PUT to a name that is not there is a mistake.
func (specStrategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is false, as for custom resources: a PUT says which version it replaces.
func (specStrategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// GetResetFields says what a write to the main resource leaves alone.
func (s specStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resets("status")
}

func (s specStrategy) resets(names ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.kind.gv.String()): set}
}

// PrepareForCreate fills in what the schema defaults.
func (s specStrategy) PrepareForCreate(ctx context.Context, object runtime.Object) {
	forgetManagers(ctx, object.(metav1.Object))
	reset(s.kind.status(object))
	object.(metav1.Object).SetGeneration(1)
	s.setDefaults(object)
}

// PrepareForUpdate keeps status and counts changes of the spec.
func (s specStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	assign(s.kind.status(object), s.kind.status(old))
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

// forgetManagers leaves an object that the control plane itself creates without managed fields; upstream then keeps none
// until somebody applies it. Which loop writes which field is known, and the record of it was a third of such an object and
// a tenth of the cost of every write. Who else creates one, or applies it, finds all managers recorded.
func forgetManagers(ctx context.Context, object metav1.Object) {
	caller, ok := request.UserFrom(ctx)
	if !ok || caller.GetName() != user.APIServerUser {
		return
	}
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

// Validate checks a new object.
func (s specStrategy) Validate(ctx context.Context, object runtime.Object) field.ErrorList {
	if !s.ruled {
		return validation.ValidateObjectMetaAccessor(object.(metav1.Object), s.kind.namespaced, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	}
	untyped, err := s.untyped(object)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return s.rules.Validate(ctx, untyped)
}

// ValidateUpdate checks a changed object. What was stored before a rule existed can still lose its finalizers and labels.
func (s specStrategy) ValidateUpdate(ctx context.Context, object, old runtime.Object) field.ErrorList {
	// The generation says whether PrepareForUpdate found the spec changed.
	if !s.ruled || object.(metav1.Object).GetGeneration() == old.(metav1.Object).GetGeneration() {
		return nil
	}
	untyped, err := s.untyped(object)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	before, err := s.untyped(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return s.rules.ValidateUpdate(ctx, untyped, before)
}

// untyped is the object as a custom resource, without status, which is checked where it is written.
func (s specStrategy) untyped(object runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("converting %s for its checks: %w", s.kind.names.Kind, err)
	}
	delete(content, "status")
	untyped := &unstructured.Unstructured{Object: content}
	untyped.SetGroupVersionKind(s.kind.kind())
	return untyped, nil
}

// WarningsOnCreate warns of what is legal and unwise.
func (s specStrategy) WarningsOnCreate(ctx context.Context, object runtime.Object) []string {
	return s.rules.WarningsOnCreate(ctx, object)
}

// WarningsOnUpdate warns of what is new, legal and unwise.
func (s specStrategy) WarningsOnUpdate(ctx context.Context, object, old runtime.Object) []string {
	return s.rules.WarningsOnUpdate(ctx, object, old)
}

// statusStrategy governs writes to a kind's status.
type statusStrategy struct{ specStrategy }

// GetResetFields says what a write to status leaves alone.
func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resets("spec", "metadata")
}

// PrepareForUpdate keeps everything but status.
func (s statusStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	assign(s.kind.spec(object), s.kind.spec(old))
	metav1.ResetObjectMetaForStatus(object.(metav1.Object), old.(metav1.Object))
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
