package ssa

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// podSpecs are where kinds of Kubernetes have the spec of a pod.
var podSpecs = map[string][]string{
	"v1/Pod": {"spec"}, "v1/PodTemplate": {"template", "spec"}, "v1/ReplicationController": {"spec", "template", "spec"},
	"apps/v1/Deployment": {"spec", "template", "spec"}, "apps/v1/StatefulSet": {"spec", "template", "spec"}, "apps/v1/DaemonSet": {"spec", "template", "spec"},
	"apps/v1/ReplicaSet": {"spec", "template", "spec"}, "batch/v1/Job": {"spec", "template", "spec"}, "batch/v1/CronJob": {"spec", "jobTemplate", "spec", "template", "spec"},
}

// foldRepeats writes lists with keys without items of one key where that means the same to the member. A create or update takes such
// lists and a server-side apply refuses them. What means something else is left as it is, and the refusal names it.
func foldRepeats(obj *unstructured.Unstructured) {
	if kind := obj.GetAPIVersion() + "/" + obj.GetKind(); kind == "v1/ServiceAccount" {
		fold(obj.Object, "secrets", unique)
	} else if path, ok := podSpecs[kind]; ok {
		found, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
		spec, _ := found.(map[string]any)
		fold(spec, "imagePullSecrets", unique)
		fold(spec, "hostAliases", oneAliasPerAddress)
		for _, name := range []string{"initContainers", "containers"} {
			containers, _ := spec[name].([]any)
			for _, item := range containers {
				container, _ := item.(map[string]any)
				fold(container, "env", lastOfEachName)
				fold(container, "ports", unique)
			}
		}
	}
}

func fold(fields map[string]any, name string, to func([]any) []any) {
	if list, ok := fields[name].([]any); ok && len(list) > 1 {
		fields[name] = to(list)
	}
}

// unique leaves out items that equal an earlier one.
func unique(list []any) []any {
	var kept []any
	for _, item := range list {
		if !slices.ContainsFunc(kept, func(other any) bool { return SameValue(item, other) }) {
			kept = append(kept, item)
		}
	}
	return kept
}

// oneAliasPerAddress gives the first item of each address the names of the others.
func oneAliasPerAddress(list []any) []any {
	var kept []any
	first := map[any]map[string]any{}
	for _, item := range list {
		alias, isMap := item.(map[string]any)
		ip, isText := alias["ip"].(string)
		names, isList := alias["hostnames"].([]any)
		if !isMap || !isText || !isList || len(alias) > 2 {
			return list
		}
		if before, repeated := first[ip]; repeated {
			before["hostnames"] = unique(append(before["hostnames"].([]any), names...))
			continue
		}
		first[ip] = alias
		kept = append(kept, item)
	}
	return kept
}

// lastOfEachName leaves out variables that a later one of the same name replaces, unless a variable up to that one refers to the name, or the
// later one may have no value.
func lastOfEachName(list []any) []any {
	kept := slices.Clone(list)
	for i := 0; i < len(kept); i++ {
		variable, _ := kept[i].(map[string]any)
		name, ok := variable["name"].(string)
		next := -1
		if ok {
			next = slices.IndexFunc(kept[i+1:], func(item any) bool { return nameOf(item) == name })
		}
		if next >= 0 && replaces(kept[i+1:i+2+next], name) {
			kept = slices.Delete(kept, i, i+1)
			i--
		}
	}
	return kept
}

// replaces returns whether the last of some variables replaces one of its name before them.
func replaces(variables []any, name string) bool {
	for i, item := range variables {
		variable, isMap := item.(map[string]any)
		value, _ := variable["value"].(string)
		if !isMap || strings.Contains(value, "$("+name+")") || i == len(variables)-1 && isOptional(variable) {
			return false
		}
	}
	return true
}

// isOptional returns whether a variable is not set if what its value is read from does not exist.
func isOptional(variable map[string]any) bool {
	from, _ := variable["valueFrom"].(map[string]any)
	for _, source := range from {
		if fields, _ := source.(map[string]any); fields["optional"] == true {
			return true
		}
	}
	return false
}

func nameOf(item any) string {
	fields, _ := item.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// Repeated is an error for items of one key in a list, which a server-side apply cannot write; nil if there are none. To write only one of them
// would be another object.
func (m unknownFields) Repeated() error {
	if len(m.duplicates) == 0 {
		return nil
	}
	var lists []string
	for _, d := range m.duplicates {
		lists = append(lists, d[0]+" has more than one item "+d[1])
	}
	return fmt.Errorf("%s: an object is applied to members by server-side apply, which cannot write it: give the items different keys, or leave one of them out", strings.Join(lists, "; "))
}
