package crds

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// definitionKind and definitions are what a definition itself is.
var (
	definitionKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	definitions    = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
)

func isDefinitionKind(kind runtimeschema.GroupVersionKind) bool {
	return kind.GroupKind() == definitionKind.GroupKind()
}

func isDefinition(obj *unstructured.Unstructured) bool {
	return isDefinitionKind(obj.GroupVersionKind())
}

// read gives a definition its Go type, with defaults filled in.
func read(obj *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	typed := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, typed); err != nil {
		return nil, fmt.Errorf("reading definition %s: %w", obj.GetName(), err)
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(typed)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&typed.Spec)
	return typed, nil
}

// landing is what is known of a definition in a member.
type landing struct {
	// present is false if there is none, or none that the control plane manages.
	present     bool
	established bool
	// reason is why it is not established, if the member reports it.
	reason string
}

func landingOf(obj *unstructured.Unstructured) landing {
	l := landing{present: true}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		message, _ := condition["message"].(string)
		switch {
		case condition["type"] == string(apiextensionsv1.Established):
			l.established = condition["status"] == string(apiextensionsv1.ConditionTrue)
		case condition["type"] == string(apiextensionsv1.NamesAccepted) && condition["status"] == string(apiextensionsv1.ConditionFalse):
			l.reason = message
		}
	}
	return l
}

// nameOf is the name of the definition behind a resource.
func nameOf(resource runtimeschema.GroupVersionResource) string {
	return resource.Resource + "." + resource.Group
}
