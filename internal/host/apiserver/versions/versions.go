package versions

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// Converter converts objects between the versions of their kinds, as the API server does for its readers.
type Converter struct {
	custom *conversion.CRConverterFactory
}

// NewConverter returns a Converter that calls conversion webhooks as the API server does.
func NewConverter(services webhook.ServiceResolver, authentication webhook.AuthenticationInfoResolverWrapper) (*Converter, error) {
	custom, err := conversion.NewCRConverterFactory(services, authentication)
	if err != nil {
		return nil, fmt.Errorf("preparing conversions: %w", err)
	}
	return &Converter{custom}, nil
}

// BuiltInVersions lists the versions in which a built-in kind can be written, also those that are not served any more, the
// best first; none for other kinds. An alpha version is as good as any: only a server that is configured to serves one.
func (*Converter) BuiltInVersions(kind schema.GroupKind) []string {
	var versions []string
	for _, gv := range legacyscheme.Scheme.PrioritizedVersionsForGroup(kind.Group) {
		if legacyscheme.Scheme.Recognizes(gv.WithKind(kind.Kind)) {
			versions = append(versions, gv.Version)
		}
	}
	return versions
}

// ConvertBuiltIn writes an object of a built-in kind in another version, as the server itself would. The argument stays as
// it is.
func (*Converter) ConvertBuiltIn(obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	scheme, kind := legacyscheme.Scheme, obj.GroupVersionKind()
	from, err := scheme.New(kind)
	if err != nil {
		return nil, fmt.Errorf("%s is no built-in kind: %w", kind, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, from); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, obj.GetName(), err)
	}
	internal, err := scheme.UnsafeConvertToVersion(from, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return nil, fmt.Errorf("converting from %s: %w", kind.Version, err)
	}
	to, err := scheme.UnsafeConvertToVersion(internal, schema.GroupVersion{Group: kind.Group, Version: version})
	if err != nil {
		return nil, fmt.Errorf("converting to %s: %w", version, err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(to)
	if err != nil {
		return nil, fmt.Errorf("writing %s %s: %w", kind.Kind, obj.GetName(), err)
	}
	converted := &unstructured.Unstructured{Object: content}
	converted.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: version, Kind: kind.Kind})
	return converted, nil
}

// ConvertCustom writes a custom resource in another version of its definition, by the definition's own conversion: a
// webhook is called as it is for the server's own readers. Both versions have to be in the definition; served they need not
// be. The argument stays as it is.
func (c *Converter) ConvertCustom(definition *apiextensionsv1.CustomResourceDefinition, obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	converter, _, err := c.custom.NewConverter(definition)
	if err != nil {
		return nil, fmt.Errorf("preparing the conversion of %s: %w", definition.Name, err)
	}
	target := schema.GroupVersion{Group: definition.Spec.Group, Version: version}
	converted, err := converter.ConvertToVersion(obj, target)
	if err != nil {
		return nil, fmt.Errorf("converting to %s: %w", version, err)
	}
	result, ok := converted.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("converting to %s gave a %T", version, converted)
	}
	return result, nil
}
