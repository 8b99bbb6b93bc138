package offline

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OneVersion is for a preview without a control plane: every object stays in the version that it has.
type OneVersion struct{}

// BuiltInVersions implements crds.Converter.
func (OneVersion) BuiltInVersions(schema.GroupKind) []string { return nil }

// ConvertBuiltIn implements crds.Converter.
func (OneVersion) ConvertBuiltIn(obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	return nil, fmt.Errorf("converting a %s to %s needs a control plane", obj.GetKind(), version)
}

// ConvertCustom implements crds.Converter.
func (OneVersion) ConvertCustom(_ *apiextensionsv1.CustomResourceDefinition, obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	return nil, fmt.Errorf("converting a %s to %s needs a control plane", obj.GetKind(), version)
}
