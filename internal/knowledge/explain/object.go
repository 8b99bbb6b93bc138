package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

const (
	// maxFields is how many fields of one manager are in an answer.
	maxFields = 50
	// maxTroubles is how many pods that fail are in an answer, each with a reason of its own.
	maxTroubles = 5
)

// Object returns what an object in a member has about itself: to whom it belongs, and which manager owns which of its fields. Its steps
// need no right: who may get the object may read all of it.
func Object(obj *unstructured.Unstructured, cluster string, own ownership.ControlPlane) []Step {
	created := obj.GetCreationTimestamp()
	step := done(fleetv1alpha1.StageMember, "no control plane manages it")
	step.Cluster, step.Object, step.Time = cluster, IdentityOf(obj), &created
	managed := obj.GetLabels()[workv1alpha1.ManagedLabel] == workv1alpha1.ManagedLabelValue
	switch other := own.Other(obj); {
	case managed && other != "":
		step.Message = "belongs to the control plane " + other
	case managed:
		step.Message = "belongs to this control plane"
	}
	if _, adopted := obj.GetAnnotations()[workv1alpha1.AdoptedAnnotation]; managed && adopted {
		step.Message += ", and was in the member before"
	}
	if controller := metav1.GetControllerOf(obj); controller != nil {
		step.Message += fmt.Sprintf("; its controller is %s %s", controller.Kind, controller.Name)
	}
	if deleted := obj.GetDeletionTimestamp(); deleted != nil {
		step.Outcome, step.Time = fleetv1alpha1.OutcomeWaiting, deleted
		step.Message += "; it is being deleted, and awaits the finalizers " + strings.Join(obj.GetFinalizers(), ", ")
	}
	steps := []Step{step}
	if of := own.WorkOf(obj); managed && of.Name != "" {
		step := done(fleetv1alpha1.StageWork, "the object is written from this Work")
		step.Cluster, step.Actor = cluster, actorApply
		step.Object = &fleetv1alpha1.ObjectIdentity{APIVersion: workv1alpha1.GroupVersion.String(), Kind: workv1alpha1.KindWork, Namespace: of.Namespace, Name: of.Name}
		steps = append(steps, step)
	}
	for _, entry := range obj.GetManagedFields() {
		steps = append(steps, managerStep(cluster, own, entry))
	}
	return steps
}

// managerStep has the fields of one manager.
func managerStep(cluster string, own ownership.ControlPlane, entry metav1.ManagedFieldsEntry) Step {
	step := done(fleetv1alpha1.StageMember, "")
	step.Cluster, step.Actor, step.Time, step.Reason = cluster, entry.Manager, entry.Time, string(entry.Operation)
	var fields fieldpath.Set
	if entry.FieldsV1 == nil || fields.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
		step.Message = "its fields cannot be read"
		return step
	}
	leaves := fields.Leaves()
	step.Message = fmt.Sprintf("owns %d fields", leaves.Size())
	if entry.Subresource != "" {
		step.Message += ", written through " + entry.Subresource
	}
	if entry.Manager == own.Manager() {
		step.Message = "this control plane " + step.Message
	}
	if leaves.Size() > maxFields {
		step.Message += fmt.Sprintf("; the first %d are", maxFields)
	}
	leaves.Iterate(func(path fieldpath.Path) { // All panics when its loop ends early
		if len(step.Fields) < maxFields {
			step.Fields = append(step.Fields, fleetv1alpha1.FieldEdit{Path: path.String()})
		}
	})
	return step
}

// PodSelector returns the labels of the pods of a workload, "" if it has none.
func PodSelector(obj *unstructured.Unstructured) string {
	raw, found, err := unstructured.NestedMap(obj.Object, "spec", "selector")
	if !found || err != nil {
		return ""
	}
	if _, ok := raw["matchLabels"]; !ok && raw["matchExpressions"] == nil {
		return "" // the selector of another kind, such as a Service
	}
	var selector metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &selector) != nil {
		return ""
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil || parsed.Empty() {
		return ""
	}
	return parsed.String()
}

// HasPods returns whether an object is a workload: it has a template of pods or of Jobs, or a selector of pods.
func HasPods(obj *unstructured.Unstructured) bool {
	for _, name := range []string{"template", "jobTemplate"} {
		if _, found, err := unstructured.NestedMap(obj.Object, "spec", name); found && err == nil {
			return true
		}
	}
	return PodSelector(obj) != ""
}

// Warnings returns one step for each reason of the warnings of a member about an object, the newest of it. They name what no pod can: that none is
// created, as by a quota.
func Warnings(cluster string, of *unstructured.Unstructured, warnings []corev1.Event) []Step {
	newest := map[string]*corev1.Event{}
	for i := range warnings {
		e := &warnings[i]
		if seen := newest[e.Reason]; seen == nil || seen.LastTimestamp.Before(&e.LastTimestamp) {
			newest[e.Reason] = e
		}
	}
	var steps []Step
	for _, reason := range slices.Sorted(maps.Keys(newest)) {
		if len(steps) == maxTroubles {
			break
		}
		e := newest[reason]
		step := done(fleetv1alpha1.StageMember, bounds.Cut(e.Message, maxComplaint))
		step.Outcome, step.Cluster, step.Reason, step.Time, step.Actor = fleetv1alpha1.OutcomeFailed, cluster, e.Reason, &e.LastTimestamp, e.Source.Component
		if e.LastTimestamp.IsZero() {
			step.Time = nil
		}
		step.Object = IdentityOf(of)
		steps = append(steps, step)
	}
	return steps
}

// Pods returns one step for each reason for which pods in a member are not ready, with the first such pod and how many there are.
func Pods(cluster string, pods []corev1.Pod) []Step {
	var steps []Step
	counts := map[string]int{}
	for i := range pods {
		pod := &pods[i]
		reason, message, since := trouble(pod)
		if reason == "" {
			continue
		}
		if counts[reason]++; counts[reason] > 1 || len(steps) == maxTroubles {
			continue
		}
		step := done(fleetv1alpha1.StageMember, message)
		step.Outcome, step.Cluster, step.Reason, step.Time, step.Actor = fleetv1alpha1.OutcomeFailed, cluster, reason, since, "kubelet"
		if reason == corev1.PodReasonUnschedulable {
			step.Actor = "kube-scheduler"
		}
		step.Object = &fleetv1alpha1.ObjectIdentity{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
		steps = append(steps, step)
	}
	for i := range steps {
		if n := counts[steps[i].Reason]; n > 1 {
			steps[i].Message += fmt.Sprintf(" (and %d more pods)", n-1)
		}
	}
	return steps
}

// trouble is why a pod is not ready, "" if it is, or if it only starts.
func trouble(pod *corev1.Pod) (reason, message string, since *metav1.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason, c.Message, &c.LastTransitionTime
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch waiting, ended := s.State.Waiting, s.State.Terminated; {
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing":
			return waiting.Reason, "container " + s.Name + ": " + waiting.Message, pod.Status.StartTime
		case ended != nil && ended.ExitCode != 0:
			return ended.Reason, strings.TrimSuffix(fmt.Sprintf("container %s ended with exit code %d: %s", s.Name, ended.ExitCode, ended.Message), ": "), &ended.FinishedAt
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return string(corev1.PodFailed), strings.TrimPrefix(pod.Status.Reason+": "+pod.Status.Message, ": "), pod.Status.StartTime
	}
	return "", "", nil
}
