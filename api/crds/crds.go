// Package crds carries the custom resource definitions of the project's kinds, as
// generated from the Go types beside it.
package crds

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// All returns the definitions of every kind, in the order of their names, as new
// objects that the caller may change. An error means that the binary was built
// from broken files.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing custom resource definitions: %w", err)
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading custom resource definition: %w", err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			return nil, fmt.Errorf("decoding custom resource definition %s: %w", name, err)
		}
		relaxPortErrors(definition)
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

// relaxPortErrors makes the error of a load balancer's port optional. Upstream's
// types mark the field both optional and required; the generator takes the
// latter, and a status of a healthy port would be refused.
func relaxPortErrors(definition *apiextensionsv1.CustomResourceDefinition) {
	for _, version := range definition.Spec.Versions {
		schema := version.Schema.OpenAPIV3Schema
		for _, step := range []string{"status", "loadBalancer", "ingress", "ports"} {
			property, ok := schema.Properties[step]
			if !ok {
				schema = nil
				break
			}
			schema = &property
			if property.Items != nil {
				schema = property.Items.Schema
			}
		}
		if schema != nil {
			schema.Required = slices.DeleteFunc(schema.Required, func(name string) bool { return name == "error" })
		}
	}
}
