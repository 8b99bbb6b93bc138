package works

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

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
	// rules check an object as if it were a custom resource.
	rules rest.RESTCreateUpdateStrategy
	// same compares specs and statuses by meaning.
	same conversion.Equalities
	// defaulted says that the schema has defaults for the spec, ruled that it asks more of the spec than its Go type does.
	defaulted, ruled bool
	// parts are the fields of the spec that can be checked one by one, by their place in the Go type.
	parts []int
	// right remembers parts that were checked and found right: mostly one policy's placement is in thousands of bindings.
	right *lru.Cache
}

// remembered bounds the parts that are remembered; a placement is half a kilobyte.
const remembered = 1024

var (
	_ rest.CreateUpdateResetFieldsStrategy = specStrategy{}
	_ rest.UpdateResetFieldsStrategy       = statusStrategy{}
	_ rest.UpdateResetFieldsStrategy       = scheduleStrategy{}
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
		defaulted: anywhere(&structural, isDefaulted), ruled: anywhere(&structural, isRuled), parts: partsOf(k, &structural),
		right: lru.New(remembered),
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

// partsOf finds the fields of a spec that may be left out of it without making it wrong. There are none if a rule speaks
// of the spec as a whole.
func partsOf(k kind, spec *structuralschema.Structural) []int {
	var required []string
	if v := spec.ValueValidation; v != nil {
		required = v.Required
		whole := *v
		whole.Required = nil
		if !reflect.DeepEqual(whole, structuralschema.ValueValidation{}) {
			return nil
		}
	}
	if len(spec.XValidations) > 0 {
		return nil
	}
	var parts []int
	goType := reflect.TypeOf(k.spec(k.object())).Elem()
	for i := range goType.NumField() {
		name, options, _ := strings.Cut(goType.Field(i).Tag.Get("json"), ",")
		if name != "" && strings.Contains(options, "omitempty") && !slices.Contains(required, name) {
			parts = append(parts, i)
		}
	}
	return parts
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
func (s specStrategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	forgetManagers(object.(metav1.Object))
	reset(s.kind.status(object))
	object.(metav1.Object).SetGeneration(1)
	s.setDefaults(object)
}

// PrepareForUpdate keeps the status and counts changes of the spec.
func (s specStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
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

// forgetManagers leaves a new object without managed fields unless it is applied. Upstream then records none until somebody applies
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

// Validate checks a new object.
func (s specStrategy) Validate(ctx context.Context, object runtime.Object) field.ErrorList {
	if !s.ruled {
		return validation.ValidateObjectMetaAccessor(object.(metav1.Object), s.kind.namespaced, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	}
	object, fresh := s.unchecked(object)
	untyped, err := s.untyped(object)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	errs := s.rules.Validate(ctx, untyped)
	if len(errs) == 0 {
		for _, part := range fresh {
			s.right.Add(part, nil)
		}
	}
	return errs
}

// unchecked is a new object without the parts that are known to be right, and what there is of others.
func (s specStrategy) unchecked(object runtime.Object) (rest runtime.Object, fresh []checkedPart) {
	rest = shallow(object)
	spec := reflect.ValueOf(s.kind.spec(rest)).Elem()
	for _, part := range s.parts {
		value := spec.Field(part)
		if value.IsZero() {
			continue
		}
		content, err := json.Marshal(value.Interface())
		if err != nil {
			continue // and the conversion to come says why
		}
		key := checkedPart{part, string(content)}
		if _, known := s.right.Get(key); known {
			value.SetZero()
		} else {
			fresh = append(fresh, key)
		}
	}
	return rest, fresh
}

// checkedPart is the content of a field of a spec.
type checkedPart struct {
	place   int
	content string
}

// ValidateUpdate checks what changed of an object. What was stored before a rule existed can still lose its finalizers and
// labels, and the rules about a placement are not worked through each time a result is written beside it. What the control plane
// itself writes is made of Go types and of parts that were validated elsewhere: the validator allocates 100 KB for such a write.
func (s specStrategy) ValidateUpdate(ctx context.Context, object, old runtime.Object) field.ErrorList {
	if caller, ok := request.UserFrom(ctx); ok && caller.GetName() == user.APIServerUser {
		return nil
	}
	// The generation says whether PrepareForUpdate found the spec changed.
	if !s.ruled || object.(metav1.Object).GetGeneration() == old.(metav1.Object).GetGeneration() {
		return nil
	}
	object, old = s.changed(object, old)
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

// changed is the object and what it was before, both without the parts of their specs that are the same.
func (s specStrategy) changed(object, old runtime.Object) (after, before runtime.Object) {
	after, before = shallow(object), shallow(old)
	a, b := reflect.ValueOf(s.kind.spec(after)).Elem(), reflect.ValueOf(s.kind.spec(before)).Elem()
	for _, part := range s.parts {
		if s.same.DeepEqual(a.Field(part).Interface(), b.Field(part).Interface()) {
			a.Field(part).SetZero()
			b.Field(part).SetZero()
		}
	}
	return after, before
}

// shallow is a copy that shares with its original everything that pointers lead to.
func shallow(object runtime.Object) runtime.Object {
	twin := reflect.New(reflect.TypeOf(object).Elem())
	twin.Elem().Set(reflect.ValueOf(object).Elem())
	return twin.Interface().(runtime.Object)
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
