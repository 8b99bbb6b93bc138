package api_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// TestDefinitionsAreValid runs the API server's own validation, which also compiles
// every CEL rule and refuses those that could cost too much.
func TestDefinitionsAreValid(t *testing.T) {
	for _, definition := range allDefinitions(t) {
		t.Run(definition.Name, func(t *testing.T) {
			internal := internalDefinition(t, definition)
			for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal) {
				if err.Field == "status.storedVersions" { // the server fills it in
					continue
				}
				t.Error(err)
			}
		})
	}
}

func internalDefinition(t *testing.T, definition *apiextensionsv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	t.Helper()
	definition = definition.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(definition)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(definition, internal, nil); err != nil {
		t.Fatal(err)
	}
	return internal
}

// kindServer does to an object of one kind what the API server does.
type kindServer struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

func newKindServer(t *testing.T, kind string) kindServer {
	t.Helper()
	definitions := allDefinitions(t)
	i := slices.IndexFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Spec.Names.Kind == kind })
	if i < 0 {
		t.Fatalf("%s is not served", kind)
	}
	definition := internalDefinition(t, definitions[i])
	schema, err := apiextensions.GetSchemaForVersion(definition, definition.Spec.Versions[slices.IndexFunc(definition.Spec.Versions,
		func(v apiextensions.CustomResourceDefinitionVersion) bool { return v.Storage })].Name)
	if err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	schemaValidator, _, err := validation.NewSchemaValidator(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	return kindServer{
		structural: structural,
		schema:     schemaValidator,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}
}

// admit defaults and validates an object that is being created or, if old is given, updated.
func (s kindServer) admit(t *testing.T, object, old map[string]any) field.ErrorList {
	t.Helper()
	pruned := pruning.PruneWithOptions(object, s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(pruned) > 0 {
		t.Fatalf("unknown fields: %v", pruned)
	}
	defaulting.Default(object, s.structural)
	errs := validation.ValidateCustomResource(nil, object, s.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	var oldObject any
	if old != nil {
		defaulting.Default(old, s.structural)
		oldObject = old
	}
	ruleErrs, _ := s.rules.Validate(t.Context(), nil, s.structural, object, oldObject, celconfig.RuntimeCELCostBudget)
	return append(errs, ruleErrs...)
}

// decode reads a YAML object and gives it what the server would ask for.
func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	encoded, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	object := map[string]any{}
	if err := json.Unmarshal(encoded, &object); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	object["apiVersion"], object["metadata"] = "test/v1", map[string]any{"name": "test"}
	return object
}

// admission is an object and what becomes of it: want is part of the error, or
// empty if there is none.
type admission struct {
	object, old string
	want        string
}

func testAdmissions(t *testing.T, kind string, cases map[string]admission) {
	t.Helper()
	server := newKindServer(t, kind)
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			errs := server.admit(t, decode(t, c.object), decode(t, c.old))
			switch {
			case c.want == "" && len(errs) > 0:
				t.Errorf("unexpected errors: %v", errs.ToAggregate())
			case c.want != "" && len(errs) == 0:
				t.Errorf("accepted; want error %q", c.want)
			case c.want != "" && !strings.Contains(errs.ToAggregate().Error(), c.want):
				t.Errorf("got errors %v, want %q", errs.ToAggregate(), c.want)
			}
		})
	}
}
