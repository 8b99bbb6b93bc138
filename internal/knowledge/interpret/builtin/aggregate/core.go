package aggregate

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// failedPhase is a phase of Pods and of PersistentVolumes.
const failedPhase = "Failed"

type phaseReport struct {
	Phase   string `json:"phase"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// worst returns the first phase of the order that some report has. A cluster that has not reported counts with the phase missing.
func worst(list []report[phaseReport], missing string, order ...string) string {
	best := len(order)
	for i := range list {
		phase := list[i].status.Phase
		if phase == "" {
			phase = missing
		}
		if at := slices.Index(order, phase); at >= 0 {
			best = min(best, at)
		}
	}
	if best == len(order) {
		return ""
	}
	return order[best]
}

// phase returns the template with the worst phase of its copies.
func phase(template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem, order ...string) (*unstructured.Unstructured, error) {
	list := reportsOf[phaseReport](items)
	result := worst(list, string(corev1.ClaimPending), order...)
	if result == "" {
		return template, nil
	}
	status := statusCopy(template)
	status["phase"] = result
	explainFailure(status, list)
	return interpret.WithStatus(template, status), nil
}

// explainFailure writes why a copy failed, and in which cluster.
func explainFailure(status map[string]any, list []report[phaseReport]) {
	delete(status, "reason")
	delete(status, "message")
	if status["phase"] != failedPhase {
		return
	}
	for i := range list {
		r := &list[i]
		if r.status.Phase != failedPhase || r.status.Reason+r.status.Message == "" {
			continue
		}
		if r.status.Reason != "" {
			status["reason"] = bounds.Cut(r.status.Reason, maxCauseBytes)
		}
		status["message"] = cause(r.cluster, "", r.status.Message)
		return
	}
}

// Claim is lost if one copy is, and bound if all are.
func (a Aggregation) Claim(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	return phase(template, items,
		string(corev1.ClaimLost), string(corev1.ClaimPending), string(corev1.ClaimBound))
}

func (a Aggregation) Volume(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	return phase(template, items,
		string(corev1.VolumeFailed), string(corev1.VolumePending), string(corev1.VolumeAvailable),
		string(corev1.VolumeBound), string(corev1.VolumeReleased))
}

// Pod takes the worst phase and lists the containers of all copies.
func (a Aggregation) Pod(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	result, err := phase(template, items,
		string(corev1.PodFailed), string(corev1.PodUnknown), string(corev1.PodPending),
		string(corev1.PodRunning), string(corev1.PodSucceeded))
	if err != nil || len(items) == 0 {
		return result, err
	}
	list := reportsOf[podReport](items)
	status := statusCopy(result)
	var containers, initContainers []any
	for i := range list {
		containers = append(containers, bounded(list[i].status.ContainerStatuses)...)
		initContainers = append(initContainers, bounded(list[i].status.InitContainerStatuses)...)
	}
	setList(status, "containerStatuses", withoutRestarted(template, "containerStatuses", containers))
	setList(status, "initContainerStatuses", withoutRestarted(template, "initContainerStatuses", initContainers))
	return interpret.WithStatus(template, status), nil
}

// bounded returns a limited number of the statuses of containers. What is none is left out: an API server would refuse all.
func bounded(statuses []any) []any {
	statuses = slices.DeleteFunc(statuses, func(entry any) bool { _, is := entry.(map[string]any); return !is })
	return statuses[:min(len(statuses), bounds.MaxContainers)]
}

// podReport keeps container statuses as they are: newer members may have fields that are not in our types.
type podReport struct {
	ContainerStatuses     plainList `json:"containerStatuses"`
	InitContainerStatuses plainList `json:"initContainerStatuses"`
}

// plainList is a list of JSON values with whole numbers as int64, as in objects read from an API server.
type plainList []any

// UnmarshalJSON implements json.Unmarshaler.
func (l *plainList) UnmarshalJSON(data []byte) error {
	return utiljson.Unmarshal(data, (*[]any)(l))
}

// withoutRestarted leaves out containers that run while the template has one of the same name as terminated, unless its pods
// restart: an API server refuses a terminated container that runs again.
func withoutRestarted(template *unstructured.Unstructured, name string, statuses []any) []any {
	if policy, _, _ := unstructured.NestedString(template.Object, "spec", "restartPolicy"); policy == "Always" || policy == "" {
		return statuses
	}
	value, _, _ := unstructured.NestedFieldNoCopy(template.Object, "status", name)
	present, _ := value.([]any)
	ended := map[any]bool{}
	for _, entry := range present {
		if container, terminated := terminatedContainer(entry); terminated {
			ended[container] = true
		}
	}
	return slices.DeleteFunc(statuses, func(entry any) bool {
		container, terminated := terminatedContainer(entry)
		return !terminated && ended[container]
	})
}

func terminatedContainer(status any) (name any, terminated bool) {
	fields, _ := status.(map[string]any)
	state, _ := fields["state"].(map[string]any)
	return fields["name"], state["terminated"] != nil
}

// setList writes a list into the status; an empty one is left out, as an API server does.
func setList(status map[string]any, name string, list []any) {
	if len(list) == 0 {
		delete(status, name)
		return
	}
	status[name] = list
}
