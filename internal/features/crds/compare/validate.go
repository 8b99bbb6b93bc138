package compare

import (
	"context"
	"fmt"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Validator checks objects against a new schema as the member's API server does.
type Validator struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// Outcome is what the schema means for one object. Its zero value: nothing.
type Outcome struct {
	// Loses are the fields that are pruned.
	Loses []string
	// Invalid is why the object is not accepted; empty if it is.
	Invalid string
}

// NewValidator returns the Validator for the schema of a version.
func NewValidator(version *apiextensionsv1.CustomResourceDefinitionVersion) (*Validator, error) {
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("version %s has no schema", version.Name)
	}
	internal := &apiextensions.JSONSchemaProps{}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of version %s: %w", version.Name, err)
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of version %s: %w", version.Name, err)
	}
	validator, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of version %s: %w", version.Name, err)
	}
	return &Validator{structural: structural, validator: validator, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Validate checks an object, which it may change.
func (v *Validator) Validate(ctx context.Context, obj map[string]any) Outcome {
	var f Outcome
	f.Loses = pruning.PruneWithOptions(obj, v.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, v.structural)
	defaulting.Default(obj, v.structural)
	errs := validation.ValidateCustomResource(nil, runtime.DeepCopyJSON(obj), v.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, obj)...)
	if v.rules != nil && len(errs) == 0 {
		broken, _ := v.rules.Validate(ctx, nil, v.structural, obj, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	f.Invalid = summary(errs)
	return f
}

// summary is the first error, on one line.
func summary(errs field.ErrorList) string {
	if len(errs) == 0 {
		return ""
	}
	return strings.Join(strings.Fields(errs[0].Error()), " ")
}
