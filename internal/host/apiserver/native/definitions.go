// Package native holds what the servers of our native groups have in common.
//
// In: upstream's OpenAPI definitions and those of a group, and what its server shares with that of the built-in kinds.
// Out: the group's server, its definitions, how it stores, its tables, and its subresources status.
// Owns: nothing.
// Never: contains anything of one group.
package native

import (
	"maps"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Definitions are a group's own definitions and those of upstream that they and every API refer to. Upstream's
// hundreds of others would stay in memory once more for each group.
func Definitions(upstream, own common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		all := upstream(ref)
		needed := byModelName(own)(ref)
		pending := []string{}
		for name := range all {
			if strings.HasPrefix(name, "io.k8s.apimachinery.") {
				pending = append(pending, name)
			}
		}
		for _, definition := range needed {
			pending = append(pending, definition.Dependencies...)
		}
		for len(pending) > 0 {
			name := pending[len(pending)-1]
			pending = pending[:len(pending)-1]
			definition, known := all[name]
			if _, have := needed[name]; have || !known {
				continue
			}
			needed[name] = definition
			pending = append(pending, definition.Dependencies...)
		}
		return needed
	}
}

// byModelName makes definitions refer to upstream's as upstream files them. Generated ones refer to them by Go path.
func byModelName(own common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		definitions := maps.Clone(own(func(path string) spec.Ref { return ref(modelName(path)) }))
		for name, definition := range definitions {
			for i, path := range definition.Dependencies {
				definition.Dependencies[i] = modelName(path)
			}
			definitions[name] = definition
		}
		return definitions
	}
}

func modelName(path string) string {
	if !strings.Contains(path, "/") {
		return path
	}
	return util.ToRESTFriendlyName(path)
}
