// Package crds carries the custom resource definitions of the project's kinds, as
// generated from the Go types beside it.
package crds

import (
	"embed"
	"fmt"
	"io/fs"

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
		definitions = append(definitions, definition)
	}
	return definitions, nil
}
