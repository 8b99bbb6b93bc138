package override

import (
	"fmt"
	"slices"
	"strconv"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// container is one entry of a container list with the JSON pointer to it.
type container struct {
	path   string
	fields map[string]any
}

type containerList struct{ items []container }

// containerLists finds the named lists ("containers", "initContainers") of the pod that an object is or makes. Kinds
// whose pod is elsewhere have none: their images are reached with a predicate.
func containerLists(object map[string]any, names ...string) []containerList {
	var path string
	switch object["kind"] {
	case "Pod":
		path = "/spec"
	case "ReplicaSet", "Deployment", "DaemonSet", "StatefulSet", "Job":
		path = "/spec/template/spec"
	default:
		return nil
	}
	var lists []containerList
	for _, name := range names {
		value, err := lookup(object, path+"/"+name)
		if err != nil {
			continue
		}
		entries, _ := value.([]any)
		var list containerList
		for i, entry := range entries {
			if fields, ok := entry.(map[string]any); ok {
				list.items = append(list.items, container{path + "/" + name + "/" + strconv.Itoa(i), fields})
			}
		}
		lists = append(lists, list)
	}
	return lists
}

// overrideWords edits the command or args of the container that the overrider names. An object without such a
// container is left alone: one policy may cover many objects.
func overrideWords(object map[string]any, field string, o policyv1alpha1.CommandArgsOverrider) error {
	for _, list := range containerLists(object, "containers", "initContainers") {
		for _, container := range list.items {
			if container.fields["name"] != o.ContainerName {
				continue
			}
			words, ok := container.fields[field].([]any)
			if !ok && container.fields[field] != nil {
				return fmt.Errorf("%s/%s is no list", container.path, field)
			}
			words = changeWords(words, o)
			if len(words) == 0 {
				delete(container.fields, field)
			} else {
				container.fields[field] = words
			}
		}
	}
	return nil
}

func changeWords(words []any, o policyv1alpha1.CommandArgsOverrider) []any {
	if o.Operator == policyv1alpha1.OverriderOpRemove {
		return slices.DeleteFunc(words, func(word any) bool {
			text, ok := word.(string)
			return ok && slices.Contains(o.Value, text)
		})
	}
	for _, word := range o.Value {
		words = append(words, word)
	}
	return words
}
