package crds

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

// judge tells what would become of objects under a new schema, as the member's API server would see it.
type judge struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// fate is what would become of one object. The zero value is: nothing.
type fate struct {
	// loses are the fields that would be pruned.
	loses []string
	// invalid is why it would not be accepted; empty if it would.
	invalid string
}

func newJudge(version *apiextensionsv1.CustomResourceDefinitionVersion) (*judge, error) {
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
	return &judge{structural: structural, validator: validator, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// judge looks at an object, which it may change.
func (j *judge) judge(ctx context.Context, obj map[string]any) fate {
	var f fate
	f.loses = pruning.PruneWithOptions(obj, j.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, j.structural)
	defaulting.Default(obj, j.structural)
	errs := validation.ValidateCustomResource(nil, runtime.DeepCopyJSON(obj), j.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, j.structural, obj)...)
	if j.rules != nil && len(errs) == 0 {
		broken, _ := j.rules.Validate(ctx, nil, j.structural, obj, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	f.invalid = summary(errs)
	return f
}

// summary is the first error, on one line.
func summary(errs field.ErrorList) string {
	if len(errs) == 0 {
		return ""
	}
	return strings.Join(strings.Fields(errs[0].Error()), " ")
}
