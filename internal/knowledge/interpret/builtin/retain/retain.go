package retain

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// kept is a field of the member's object that goes into the desired one.
type kept struct {
	path  []string
	value any
}

// Retain writes what the rule keeps to a copy of desired, or returns desired itself if there is nothing to keep.
func Retain(rule func(desired, observed *unstructured.Unstructured) ([]kept, error)) func(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return func(_ context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		fields, err := rule(desired, observed)
		if err != nil || len(fields) == 0 {
			return desired, err
		}
		result := desired.DeepCopy()
		for _, field := range fields {
			value := runtime.DeepCopyJSONValue(field.value)
			if err := unstructured.SetNestedField(result.Object, value, field.path...); err != nil {
				return nil, fmt.Errorf("keeping the member's %s: %w", strings.Join(field.path, "."), err)
			}
		}
		return result, nil
	}
}

// keepFields lists those of the paths that observed has.
func keepFields(observed *unstructured.Unstructured, paths ...[]string) ([]kept, error) {
	var fields []kept
	for _, path := range paths {
		value, found, err := unstructured.NestedFieldNoCopy(observed.Object, path...)
		if err != nil {
			return nil, fmt.Errorf("reading the member's %s: %w", strings.Join(path, "."), err)
		}
		if found && value != nil {
			fields = append(fields, kept{path: path, value: value})
		}
	}
	return fields, nil
}

// Replicas leaves the number of replicas to the member if the template has the label for that, usually because of an autoscaler
// there.
func Replicas(desired, observed *unstructured.Unstructured) ([]kept, error) {
	if desired.GetLabels()[policyv1alpha1.RetainReplicasLabel] != "true" {
		return nil, nil
	}
	return keepFields(observed, []string{"spec", "replicas"})
}

// Job keeps the selector and labels that the member generated: both are immutable there.
func Job(desired, observed *unstructured.Unstructured) ([]kept, error) {
	if manual, _, _ := unstructured.NestedBool(desired.Object, "spec", "manualSelector"); manual {
		return nil, nil
	}
	return keepFields(observed,
		[]string{"spec", "selector", "matchLabels"}, []string{"spec", "template", "metadata", "labels"})
}

func Service(desired, observed *unstructured.Unstructured) ([]kept, error) {
	return keepFields(observed,
		[]string{"spec", "healthCheckNodePort"}, []string{"spec", "clusterIP"}, []string{"spec", "clusterIPs"})
}

func Claim(_, observed *unstructured.Unstructured) ([]kept, error) {
	return keepFields(observed, []string{"spec", "volumeName"})
}

func Volume(_, observed *unstructured.Unstructured) ([]kept, error) {
	return keepFields(observed, []string{"spec", "claimRef"})
}

// Secret keeps the token that the member issued.
func Secret(desired, observed *unstructured.Unstructured) ([]kept, error) {
	if !isTokenSecret(desired) {
		return nil, nil
	}
	fields, err := keepFields(observed, []string{"data"})
	if uid, ok := observed.GetAnnotations()[serviceAccountUID]; ok {
		fields = append(fields, kept{path: []string{"metadata", "annotations", serviceAccountUID}, value: uid})
	}
	return fields, err
}

// ServiceAccount keeps the references that the member's controllers added, after those of the template.
func ServiceAccount(desired, observed *unstructured.Unstructured) ([]kept, error) {
	var fields []kept
	for _, name := range []string{"secrets", "imagePullSecrets"} {
		theirs, _ := observed.Object[name].([]any)
		if len(theirs) == 0 {
			continue
		}
		ours, _ := desired.Object[name].([]any)
		if merged := appendMissing(ours, theirs); len(merged) != len(ours) {
			fields = append(fields, kept{path: []string{name}, value: merged})
		}
	}
	return fields, nil
}

// appendMissing returns list with those of more whose name it does not have.
func appendMissing(list, more []any) []any {
	merged := make([]any, 0, len(list)+len(more))
	seen := make(map[any]bool, len(list)+len(more))
	for _, entries := range [][]any{list, more} {
		for _, entry := range entries {
			reference, _ := entry.(map[string]any)
			name, _ := reference["name"].(string)
			if !seen[name] {
				seen[name] = true
				merged = append(merged, entry)
			}
		}
	}
	return merged
}

// Pod keeps what the member's scheduler and admission decided; a pod's spec cannot change afterwards.
func Pod(desired, observed *unstructured.Unstructured) ([]kept, error) {
	fields, err := keepFields(observed,
		[]string{"spec", "nodeName"}, []string{"spec", "serviceAccountName"}, []string{"spec", "volumes"})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"containers", "initContainers"} {
		containers, changed := withMounts(desired, observed, name)
		if changed {
			fields = append(fields, kept{path: []string{"spec", name}, value: containers})
		}
	}
	return fields, nil
}

// withMounts returns desired's containers with the volume mounts that the containers of the same name have in the member.
func withMounts(desired, observed *unstructured.Unstructured, name string) ([]any, bool) {
	wanted, _, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", name)
	found, _, _ := unstructured.NestedFieldNoCopy(observed.Object, "spec", name)
	containers, _ := wanted.([]any)
	observedContainers, _ := found.([]any)
	mounts := map[any]any{}
	for _, entry := range observedContainers {
		if container, ok := entry.(map[string]any); ok && container["volumeMounts"] != nil {
			mounts[container["name"]] = container["volumeMounts"]
		}
	}
	changed := false
	result := make([]any, len(containers))
	for i, entry := range containers {
		result[i] = entry
		container, ok := entry.(map[string]any)
		if !ok || mounts[container["name"]] == nil {
			continue
		}
		changed = true
		merged := maps.Clone(container)
		merged["volumeMounts"] = mounts[container["name"]]
		result[i] = merged
	}
	return result, changed
}
