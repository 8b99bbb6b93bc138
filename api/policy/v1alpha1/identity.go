package v1alpha1

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	identityMessage = "an override cannot change apiVersion, kind, metadata.name or metadata.namespace of an object"
	metadataMessage = "an override cannot replace or remove metadata as a whole: edit its fields one by one"
	ownerMessage    = "only the control plane writes this key: it names the owner of an object in a member"
)

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// validateEdited refuses a JSON pointer to the identity or the owner of an object.
func validateEdited(pointer string, path *field.Path) field.ErrorList {
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range tokens {
		tokens[i] = unescapePointer.Replace(tokens[i])
	}
	switch {
	case tokens[0] == "apiVersion", tokens[0] == "kind":
		return field.ErrorList{field.Forbidden(path, identityMessage)}
	case tokens[0] != "metadata":
		return nil
	case len(tokens) == 1:
		return field.ErrorList{field.Forbidden(path, metadataMessage)}
	case tokens[1] == "name", tokens[1] == "namespace":
		return field.ErrorList{field.Forbidden(path, identityMessage)}
	case len(tokens) > 2 && (tokens[1] == "labels" || tokens[1] == "annotations") && workv1alpha1.IsOwnershipKey(tokens[2]):
		return field.ErrorList{field.Forbidden(path, ownerMessage)}
	}
	return nil
}

// validateEntries refuses ownership keys in labels or annotations that an override sets, changes or removes.
func validateEntries[V any](entries map[string]V, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if workv1alpha1.IsOwnershipKey(key) {
			errs = append(errs, field.Forbidden(path.Key(key), ownerMessage))
		}
	}
	return errs
}

// validatePlaintext refuses what a JSON patch must not reach, also by the value for all labels or annotations at once.
func validatePlaintext(overrider *PlaintextOverrider, path *field.Path) field.ErrorList {
	if errs := validatePointer(overrider.Path, path.Child("path")); len(errs) > 0 {
		return errs
	}
	if errs := validateEdited(overrider.Path, path.Child("path")); len(errs) > 0 {
		return errs
	}
	if overrider.Path != "/metadata/labels" && overrider.Path != "/metadata/annotations" {
		return nil
	}
	return validateEntries(entriesOf(overrider.Value), path.Child("value"))
}

// entriesOf reads the value of an edit as labels or annotations; what is no map has none.
func entriesOf(value apiextensionsv1.JSON) map[string]json.RawMessage {
	var entries map[string]json.RawMessage
	if json.Unmarshal(value.Raw, &entries) != nil {
		return nil
	}
	return entries
}
