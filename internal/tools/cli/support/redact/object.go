package redact

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object returns what may be shown of an object of our kinds or an Event. With manifests, Works have the shape of their manifests.
func Object(o *unstructured.Unstructured, manifests bool) map[string]any {
	out := map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": metadata(o.Object["metadata"])}
	switch o.GetKind() {
	case "Cluster":
		out["spec"] = texts(only(o.Object["spec"], "syncMode", "id", "apiEndpoint", "secretRef", "impersonatorSecretRef", "insecureSkipTLSVerification",
			"proxyURL", "provider", "region", "zone", "zones", "taints", "resourceModels"))
		out["status"] = texts(o.Object["status"])
	case "PropagationPolicy", "ClusterPropagationPolicy":
		out["spec"] = texts(only(o.Object["spec"], "resourceSelectors", "association", "propagateDeps", "placement", "priority", "preemption", "dependentOverrides",
			"schedulerName", "failover", "conflictResolution", "activationPreference", "suspension", "preserveResourcesOnDeletion", "schedulePriority"))
	case "OverridePolicy", "ClusterOverridePolicy":
		spec := texts(only(o.Object["spec"], "resourceSelectors", "targetCluster"))
		source, _ := o.Object["spec"].(map[string]any)
		for _, key := range []string{"overrideRules", "overriders"} {
			if rules, has := source[key]; has {
				spec.(map[string]any)[key] = shape(rules, safeInRules)
			}
		}
		out["spec"] = spec
	case "ResourceBinding", "ClusterResourceBinding":
		out["spec"] = texts(only(o.Object["spec"], "resource", "replicas", "clusters", "placement", "gracefulEvictionTasks", "requiredBy", "failover", "conflictResolution",
			"rescheduleTriggeredAt", "suspension", "propagateDeps", "preserveResourcesOnDeletion", "schedulerName", "schedulePriority"))
		dropKeys(out["spec"], "preservedLabelState")
		status := texts(only(o.Object["status"], "conditions", "aggregatedStatus", "schedulerObservedGeneration", "schedulerObservingAffinityName", "lastScheduledTime"))
		out["status"] = withoutRaw(status, "aggregatedStatus")
	case "Work":
		out["spec"] = work(o.Object["spec"], manifests)
		out["status"] = withoutRaw(texts(only(o.Object["status"], "conditions", "manifestStatuses")), "manifestStatuses")
	case "Event":
		for _, key := range []string{"involvedObject", "reason", "message", "type", "count", "firstTimestamp", "lastTimestamp", "eventTime", "reportingComponent", "source"} {
			if value, has := o.Object[key]; has {
				out[key] = texts(value)
			}
		}
	default:
		out["spec"] = shape(o.Object["spec"], nil)
	}
	return out
}

// shownAnnotations are those whose values are names, times and switches. Others that the control plane writes have parts of objects.
var shownAnnotations = []string{
	"propagationpolicy.karmada.io/namespace", "propagationpolicy.karmada.io/name", "clusterpropagationpolicy.karmada.io/name",
	"resourcebinding.karmada.io/namespace", "resourcebinding.karmada.io/name", "clusterresourcebinding.karmada.io/name",
	"work.karmada.io/namespace", "work.karmada.io/name", "work.karmada.io/conflict-resolution",
	"resourcetemplate.karmada.io/generation", "resourcetemplate.karmada.io/uid", "namespace.karmada.io/name",
	"flagship.io/partial-placement", "flagship.io/failback", "flagship.io/purge-mode", "flagship.io/deschedule", "flagship.io/drift", "flagship.io/drift-ignore", "flagship.io/handover",
	"flagship.io/cluster-failback", "flagship.io/drift-acknowledged", "flagship.io/autoscaled", "flagship.io/awaits-claims", "flagship.io/replica-limits",
	"flagship.io/returns-to", "flagship.io/failed-over-from", "flagship.io/control-plane", "flagship.io/adopted", "flagship.io/taken-from",
	"flagship.io/brake-released-until", "flagship.io/brake-keep-objects-before", "flagship.io/evictions-released-until", "flagship.io/fenced",
	"flagship.io/resume-dispatching", "flagship.io/apply-as", "flagship.io/on-removal", "flagship.io/spread-static-weights",
}

// metadata keeps what identifies an object and its life, labels, and the values of known annotations.
func metadata(from any) any {
	kept := only(from, "name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp", "finalizers", "ownerReferences", "labels").(map[string]any)
	source, _ := from.(map[string]any)
	annotations, _ := source["annotations"].(map[string]any)
	if len(annotations) == 0 {
		return texts(kept)
	}
	shown := map[string]any{}
	for key, value := range annotations {
		shown[key] = Removed
		if slices.Contains(shownAnnotations, key) {
			shown[key] = value
		}
	}
	kept["annotations"] = shown
	return texts(kept)
}

// work is the spec of a Work: of its manifests what they are, and with manifests their shape.
func work(from any, manifests bool) any {
	kept := only(from, "suspendDispatching", "preserveResourcesOnDeletion").(map[string]any)
	source, _ := from.(map[string]any)
	carried, _, _ := unstructured.NestedSlice(source, "workload", "manifests")
	list := make([]any, 0, len(carried))
	for _, m := range carried {
		manifest, _ := m.(map[string]any)
		object := &unstructured.Unstructured{Object: manifest}
		shown := map[string]any{"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "metadata": metadata(manifest["metadata"])}
		if manifests {
			safe := safeInManifests
			if group, _, _ := strings.Cut(object.GetAPIVersion(), "/"); strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") {
				safe = nil // a custom resource may have anything under any name
			}
			if object.GetKind() == "Secret" {
				safe = nil // so may a Secret
			}
			for key, value := range manifest {
				if _, has := shown[key]; !has {
					shown[key] = shape(value, safe)
				}
			}
		}
		list = append(list, shown)
	}
	kept["workload"] = map[string]any{"manifests": list}
	return kept
}

var (
	// safeInManifests are the fields of built-in kinds whose values are no secrets.
	safeInManifests = []string{"image", "imagePullPolicy", "replicas", "protocol", "port", "targetPort", "containerPort", "restartPolicy", "cpu", "memory", "clusterIP"}
	// safeInRules are those of override policies.
	safeInRules = []string{"targetCluster", "clusterNames", "operator", "component", "containerName", "path", "fieldPath"}
)

// shape keeps the names of fields and the number of elements. Values are kept below the fields that are safe, and true and false.
func shape(from any, safe []string) any {
	switch value := from.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range value {
			if slices.Contains(safe, key) {
				out[key] = texts(inner)
			} else {
				out[key] = shape(inner, safe)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(value))
		for _, inner := range value {
			out = append(out, shape(inner, safe))
		}
		return out
	case bool, nil:
		return value
	case string:
		return fmt.Sprintf("<%d bytes>", len(value))
	default:
		return "<number>"
	}
}

// only keeps some fields of an object.
func only(from any, keys ...string) any {
	out := map[string]any{}
	source, _ := from.(map[string]any)
	for key, value := range source {
		if slices.Contains(keys, key) {
			out[key] = value
		}
	}
	return out
}

// withoutRaw takes the status of kinds of users out of a list.
func withoutRaw(from any, list string) any {
	source, _ := from.(map[string]any)
	items, _ := source[list].([]any)
	for _, item := range items {
		if entry, is := item.(map[string]any); is {
			delete(entry, "status")
		}
	}
	return from
}

// dropKeys removes a field at any depth.
func dropKeys(from any, key string) {
	switch value := from.(type) {
	case map[string]any:
		delete(value, key)
		for _, inner := range value {
			dropKeys(inner, key)
		}
	case []any:
		for _, inner := range value {
			dropKeys(inner, key)
		}
	}
}

// texts copies a value with every text in it redacted.
func texts(from any) any {
	switch value := from.(type) {
	case map[string]any:
		out := maps.Clone(value)
		for key, inner := range out {
			out[key] = texts(inner)
		}
		return out
	case []any:
		out := make([]any, 0, len(value))
		for _, inner := range value {
			out = append(out, texts(inner))
		}
		return out
	case string:
		return Text(value)
	default:
		return value
	}
}
