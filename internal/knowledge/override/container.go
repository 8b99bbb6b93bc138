package override

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// container is one entry of a container list with the JSON pointer to it.
type container struct {
	path   string
	fields map[string]any
}

// podPaths has where the pod is that an object of a kind is or makes. Kinds of other groups that have the name of one of these have it there, too.
var podPaths = map[string]string{
	"Pod":                   "/spec",
	"ReplicaSet":            "/spec/template/spec",
	"ReplicationController": "/spec/template/spec",
	"Deployment":            "/spec/template/spec",
	"DaemonSet":             "/spec/template/spec",
	"StatefulSet":           "/spec/template/spec",
	"Job":                   "/spec/template/spec",
	"CronJob":               "/spec/jobTemplate/spec/template/spec",
	"PodTemplate":           "/template/spec",
}

// FindsContainers returns whether overriders find the containers of a kind without the path of a field.
func FindsContainers(kind string) bool { return podPaths[kind] != "" }

// containers returns the containers and init containers of the pod that an object is or makes; ephemeral ones are of a person who debugs.
// Kinds whose pod is elsewhere have none: their images are reached with a predicate.
func containers(object map[string]any) []container {
	kind, _ := object["kind"].(string)
	path := podPaths[kind]
	if path == "" {
		return nil
	}
	var found []container
	for _, name := range []string{"containers", "initContainers"} {
		value, err := lookup(object, path+"/"+name)
		if err != nil {
			continue // no pod template, or no such list: nothing to edit
		}
		entries, _ := value.([]any)
		for i, entry := range entries {
			if fields, ok := entry.(map[string]any); ok {
				found = append(found, container{path + "/" + name + "/" + strconv.Itoa(i), fields})
			}
		}
	}
	return found
}

// overrideWords edits the command or args of the container that the overrider names. An object without such a container is left
// alone: one policy may cover many objects.
func (b *budget) overrideWords(object map[string]any, field string, o policyv1alpha1.CommandArgsOverrider) error {
	all := containers(object)
	if err := b.step(len(all) + len(o.Value)); err != nil {
		return err
	}
	values := sets.New(o.Value...)
	for _, container := range all {
		if container.fields["name"] != o.ContainerName {
			continue
		}
		words, ok := container.fields[field].([]any)
		before := len(words)
		if !ok && container.fields[field] != nil {
			return fmt.Errorf("%s/%s is no list", container.path, field)
		}
		if err := b.step(len(words)); err != nil {
			return err
		}
		if o.Operator == policyv1alpha1.OverriderOpRemove {
			words = slices.DeleteFunc(words, func(word any) bool {
				text, ok := word.(string)
				return ok && values.Has(text)
			})
		} else {
			for _, word := range o.Value {
				if err := b.write(1 + len(word)); err != nil {
					return err
				}
				words = append(words, word)
			}
		}
		b.changes = b.changes || len(words) != before
		if len(words) == 0 {
			delete(container.fields, field)
		} else {
			container.fields[field] = words
		}
	}
	return nil
}
