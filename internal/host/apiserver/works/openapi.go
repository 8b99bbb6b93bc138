package works

import (
	"fmt"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// definitionsOf are the OpenAPI definitions of the kinds and their lists, made from the schemas as that version of OpenAPI
// expresses them. The second has no word for values of several types: with one such schema, the document of all
// kinds could not be written as protobuf, which is what kubectl requests.
func definitionsOf(kinds []kind, expressed func(*structuralschema.Structural) *structuralschema.Structural) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		definitions := map[string]common.OpenAPIDefinition{}
		for _, kind := range withFormer(kinds) {
			meta, listMeta := util.GetCanonicalTypeName(&metav1.ObjectMeta{}), util.GetCanonicalTypeName(&metav1.ListMeta{})
			name := util.GetCanonicalTypeName(kind.object())

			object := expressed(kind.structural).ToKubeOpenAPI()
			object.Properties["metadata"] = described(ref(meta), "Standard object metadata.")
			definitions[name] = common.OpenAPIDefinition{Schema: *object, Dependencies: []string{meta}}

			list := new(spec.Schema).Typed("object", "").
				WithDescription(fmt.Sprintf("%s is a list of %s.", kind.names.ListKind, kind.names.Kind)).
				WithRequired("items").
				SetProperty("apiVersion", object.Properties["apiVersion"]).
				SetProperty("kind", object.Properties["kind"]).
				SetProperty("metadata", described(ref(listMeta), "Standard list metadata.")).
				SetProperty("items", *spec.ArrayProperty(&spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(name)}}))
			definitions[util.GetCanonicalTypeName(kind.list())] = common.OpenAPIDefinition{
				Schema: *list, Dependencies: []string{listMeta, name},
			}
		}
		return definitions
	}
}

// withFormer are the kinds and their earlier versions.
func withFormer(kinds []kind) []kind {
	var all []kind
	for _, k := range kinds {
		all = append(all, k)
		if k.former != nil {
			all = append(all, *k.former)
		}
	}
	return all
}

func described(ref spec.Ref, description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Description: description, Default: map[string]any{}, AllOf: []spec.Schema{{SchemaProps: spec.SchemaProps{Ref: ref}}},
	}}
}

func inV3(schema *structuralschema.Structural) *structuralschema.Structural { return schema }
