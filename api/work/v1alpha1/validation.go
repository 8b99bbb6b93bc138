package v1alpha1

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxManifestBytes bounds the manifests of one Work, in bytes of JSON. Storage takes
// a million and a half for the whole object, and its own refusal names neither
// object nor field.
const MaxManifestBytes = 1_400_000

// Validate returns what is wrong with a Work beyond what its schema refuses: it
// must be in an execution namespace, and every manifest must be a single, named
// object, and no two of them the same one.
func Validate(work *Work) field.ErrorList {
	var errs field.ErrorList
	if _, ok := ClusterOfExecutionNamespace(work.Namespace); !ok {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "namespace"), work.Namespace,
			fmt.Sprintf("must be the execution namespace of a cluster, %s<cluster>", executionNamespacePrefix)))
	}
	path := field.NewPath("spec", "workload", "manifests")
	first := map[identity]int{}
	for i, manifest := range work.Spec.Workload.Manifests {
		h, found := readHead(manifest.Raw, path.Index(i))
		if len(found) == 0 {
			found = validateManifest(h, path.Index(i))
		}
		errs = append(errs, found...)
		if len(found) > 0 {
			continue
		}
		if before, taken := first[h.identity()]; taken {
			duplicate := field.Duplicate(path.Index(i), h.String())
			duplicate.Detail = fmt.Sprintf("the same object as %s: it can be ordered once only", path.Index(before))
			errs = append(errs, duplicate)
			continue
		}
		first[h.identity()] = i
	}
	return errs
}

// head is what is read of a manifest.
type head struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Namespace   string            `json:"namespace"`
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Items json.RawMessage `json:"items"`
}

// readHead reads a manifest and returns which field of it is of a type that it
// cannot have.
func readHead(raw []byte, path *field.Path) (head, field.ErrorList) {
	var h head
	if len(raw) == 0 { // where null stood
		return h, field.ErrorList{field.TypeInvalid(path, field.OmitValueType{}, "must be an object")}
	}
	err := utiljson.Unmarshal(raw, &h)
	wrong, isType := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case err == nil:
		return h, nil
	case !isType:
		return h, field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("must be an object: %v", err))}
	case wrong.Field == "":
		return h, field.ErrorList{field.TypeInvalid(path, field.OmitValueType{}, "must be an object, is of type "+wrong.Value)}
	}
	return h, field.ErrorList{field.TypeInvalid(path.Child(wrong.Field), field.OmitValueType{}, "cannot be or hold a value of type "+wrong.Value)}
}

// identity identifies an object in one member. The version of its kind is no part of it.
type identity struct{ group, kind, namespace, name string }

func (h head) identity() identity {
	kind := h.GroupVersionKind()
	// An object without a namespace goes into this one, if its kind has namespaces.
	return identity{kind.Group, kind.Kind, cmp.Or(h.Metadata.Namespace, metav1.NamespaceDefault), h.Metadata.Name}
}

// String is the object as messages name it.
func (h head) String() string {
	if h.Metadata.Namespace == "" {
		return h.Kind + " " + h.Metadata.Name
	}
	return h.Kind + " " + h.Metadata.Namespace + "/" + h.Metadata.Name
}

func validateManifest(manifest head, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if manifest.APIVersion == "" {
		errs = append(errs, field.Required(path.Child("apiVersion"), "the group and version of the object"))
	} else if _, err := schema.ParseGroupVersion(manifest.APIVersion); err != nil {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), manifest.APIVersion, "must be <version> or <group>/<version>"))
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
	// Which names are fit depends on the kind; these are fit for none.
	for _, fault := range content.IsPathSegmentName(manifest.Metadata.Name) {
		errs = append(errs, field.Invalid(path.Child("metadata", "name"), manifest.Metadata.Name, fault))
	}
	if namespace := manifest.Metadata.Namespace; namespace != "" {
		for _, fault := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(path.Child("metadata", "namespace"), namespace, fault))
		}
	}
	return errs
}
