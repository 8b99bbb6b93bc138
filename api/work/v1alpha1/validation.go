package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns what is wrong with a Work beyond what its schema refuses: it
// must be in an execution namespace, and every manifest must be a single, named
// object.
func Validate(work *Work) field.ErrorList {
	var errs field.ErrorList
	if _, ok := ClusterOfExecutionNamespace(work.Namespace); !ok {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "namespace"), work.Namespace,
			fmt.Sprintf("must be the execution namespace of a cluster, %s<cluster>", executionNamespacePrefix)))
	}
	path := field.NewPath("spec", "workload", "manifests")
	for i, manifest := range work.Spec.Workload.Manifests {
		errs = append(errs, validateManifest(manifest.Raw, path.Index(i))...)
	}
	return errs
}

func validateManifest(raw []byte, path *field.Path) field.ErrorList {
	var manifest struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Items json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("must be an object: %v", err))}
	}
	var errs field.ErrorList
	if manifest.APIVersion == "" {
		errs = append(errs, field.Required(path.Child("apiVersion"), "the group and version of the object"))
	}
	switch {
	case manifest.Kind == "":
		errs = append(errs, field.Required(path.Child("kind"), "the kind of the object"))
	case manifest.Kind == "List" || strings.HasSuffix(manifest.Kind, "List") && manifest.Items != nil:
		return append(errs, field.Forbidden(path.Child("kind"), "a list is no manifest: give each object its own"))
	}
	if manifest.Metadata.Name == "" {
		errs = append(errs, field.Required(path.Child("metadata", "name"), "the name of the object"))
	}
	return errs
}
