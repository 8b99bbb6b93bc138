package works

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// A spec is validated field by field, with the schema that a custom resource would have: of an update only the fields that changed,
// and no content twice. Upstream's validator builds itself anew for every value that it visits: with the whole object, an update of
// replicas took 78 KB and 775 allocations, and one of the placement 107 KB and 1,095; now they take 4 KB and 64, and 6 KB and 92
// (BenchmarkUpdate). So it holds for every caller, the control plane's own loops too.

// maxValid bounds the contents that are cached; a placement is half a kilobyte.
const maxValid = 1024

// specField is a field of a spec that the schema has rules for.
type specField struct {
	index    int // in the Go type
	name     string
	required bool
	// schema is that of a spec with this field only; values checks it but for the rules in CEL, which are nil without any.
	schema *structuralschema.Structural
	values schemavalidation.SchemaValidator
	rules  *cel.Validator
}

// specFields finds the fields that the schema has rules for. It fails if a rule is about more than one field, or of a type that no
// field of these kinds has.
func specFields(k kind) ([]specField, error) {
	schema, spec := k.schema.DeepCopy().Properties["spec"], k.structural.Properties["spec"]
	requireNonEmpty(&schema)
	whole := structuralschema.ValueValidation{Required: schema.Required}
	if len(spec.XValidations) > 0 || spec.ValueValidation != nil && !reflect.DeepEqual(*spec.ValueValidation, whole) || anywhere(&spec, isUnsupported) {
		return nil, fmt.Errorf("the schema of %s has a rule that cannot be validated field by field", k.resource())
	}
	var fields []specField
	goType := reflect.TypeOf(k.spec(k.object())).Elem()
	for i := range goType.NumField() {
		name, _, _ := strings.Cut(goType.Field(i).Tag.Get("json"), ",")
		property, structural := schema.Properties[name], spec.Properties[name]
		if !anywhere(&structural, isRuled) {
			continue
		}
		values, _, err := schemavalidation.NewSchemaValidator(&apiextensions.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{name: property},
		})
		if err != nil {
			return nil, fmt.Errorf("reading the schema of spec.%s of %s: %w", name, k.resource(), err)
		}
		alone := &structuralschema.Structural{
			Generic: structuralschema.Generic{Type: "object"}, Properties: map[string]structuralschema.Structural{name: structural},
		}
		fields = append(fields, specField{
			index: i, name: name, required: slices.Contains(schema.Required, name),
			schema: alone, values: values, rules: cel.NewValidator(alone, false, celconfig.PerCallLimit),
		})
	}
	return fields, nil
}

// requireNonEmpty adds to required strings that they are not empty: a Go type has no difference between missing and empty.
func requireNonEmpty(schema *apiextensions.JSONSchemaProps) {
	for _, name := range schema.Required {
		property, ok := schema.Properties[name]
		if ok && property.Type == "string" && property.MinLength == nil && len(property.Enum) == 0 {
			one := int64(1)
			property.MinLength = &one
			schema.Properties[name] = property
		}
	}
	for name, property := range schema.Properties {
		requireNonEmpty(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		requireNonEmpty(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		requireNonEmpty(schema.AdditionalProperties.Schema)
	}
}

// anywhere returns whether something holds for a schema or a part of it.
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

// isRuled is true for rules that the Go type does not keep by itself.
func isRuled(schema *structuralschema.Structural) bool {
	values := structuralschema.ValueValidation{}
	if schema.ValueValidation != nil {
		values = *schema.ValueValidation
	}
	if slices.Contains([]string{"int32", "int64", "date-time"}, values.Format) {
		values.Format = ""
	}
	return len(schema.XValidations) > 0 || !reflect.DeepEqual(values, structuralschema.ValueValidation{})
}

// isUnsupported is true for rules about embedded objects and lists of a type, and for those that compare with the old value.
func isUnsupported(schema *structuralschema.Structural) bool {
	return schema.XEmbeddedResource || schema.XListType != nil && *schema.XListType != "atomic" ||
		slices.ContainsFunc(schema.XValidations, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, "oldSelf") })
}

// Validate checks a new object.
func (s specStrategy) Validate(ctx context.Context, object runtime.Object) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessor(object.(metav1.Object), s.kind.namespaced, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, s.validateSpec(ctx, object, nil)...)
}

// ValidateUpdate checks what changed of an object. What was stored before a rule existed can still lose its finalizers and labels,
// and a field beside it can change.
func (s specStrategy) ValidateUpdate(ctx context.Context, object, old runtime.Object) field.ErrorList {
	// The generation shows whether PrepareForUpdate found the spec changed.
	if object.(metav1.Object).GetGeneration() == old.(metav1.Object).GetGeneration() {
		return nil
	}
	return s.validateSpec(ctx, object, old)
}

// validateSpec checks the fields that differ from those of the old object, or all of them without one.
func (s specStrategy) validateSpec(ctx context.Context, object, old runtime.Object) field.ErrorList {
	var errs field.ErrorList
	spec := reflect.ValueOf(s.kind.spec(object)).Elem()
	for _, f := range s.fields {
		value := spec.Field(f.index)
		if !f.required && value.IsZero() {
			continue
		}
		var before any
		if old != nil {
			was := reflect.ValueOf(s.kind.spec(old)).Elem().Field(f.index)
			if s.same.DeepEqual(value.Interface(), was.Interface()) {
				continue
			}
			before = was.Interface()
		}
		errs = append(errs, s.validateField(ctx, f, value.Interface(), before)...)
	}
	return errs
}

// validContent is the content of a field of a spec that was validated.
type validContent struct{ field, content string }

// validateField checks one field. If its old value is given, errors about parts that did not change do not count, as upstream
// ratchets those of custom resources.
func (s specStrategy) validateField(ctx context.Context, f specField, value, old any) field.ErrorList {
	content, err := json.Marshal(value)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec", f.name), err)}
	}
	key := validContent{f.name, string(content)}
	if _, ok := s.valid.Get(key); ok {
		return nil
	}
	untyped, err := f.untyped(content)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec", f.name), err)}
	}
	errs := f.validate(ctx, untyped, nil)
	if len(errs) == 0 {
		if !f.required { // the reference to the template, which differs for every object
			s.valid.Add(key, nil)
		}
		return nil
	}
	if old == nil {
		return errs
	}
	if content, err = json.Marshal(old); err != nil {
		return errs
	}
	before, err := f.untyped(content)
	if err != nil {
		return errs
	}
	return f.validate(ctx, untyped, before)
}

// untyped is a spec with this field only.
func (f specField) untyped(content []byte) (map[string]any, error) {
	var value any
	err := utiljson.Unmarshal(content, &value)
	return map[string]any{f.name: value}, err
}

// validate checks a spec with this field only, against the schema and then, unless it is too wrong for that, against the rules in CEL.
func (f specField) validate(ctx context.Context, spec, old map[string]any) (errs field.ErrorList) {
	path := field.NewPath("spec")
	var options []cel.Option
	if old == nil {
		errs = schemavalidation.ValidateCustomResource(path, spec, f.values)
	} else {
		correlated := common.NewCorrelatedObject(spec, old, &model.Structural{Structural: f.schema})
		errs = schemavalidation.ValidateCustomResourceUpdate(path, spec, old, f.values, schemavalidation.WithRatcheting(correlated))
		options = append(options, cel.WithRatcheting(correlated))
	}
	if f.rules == nil {
		return errs
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
		}
	}
	failed, _ := f.rules.Validate(ctx, path, f.schema, spec, old, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, failed...)
}
