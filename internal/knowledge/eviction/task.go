package eviction

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// maxMessage is the length of a task's message in the schema, in characters; cut in bytes, of which there are no fewer.
const maxMessage = 1024

// Order has an object leave a cluster.
type Order struct {
	// Cluster is the cluster to leave.
	Cluster string
	// Reason and Producer are constants of the binding API; Message is for people.
	Reason, Message, Producer string
	// PurgeMode is Gracefully if empty. Never sets suppressDeletion: a person removes the copy.
	PurgeMode policyv1alpha1.PurgeMode
	// GracePeriodSeconds counts with Gracefully only; nil is the default of the control plane.
	GracePeriodSeconds *int32
	// PreservedLabelState are labels for the copy that takes over.
	PreservedLabelState map[string]string
}

// Append adds a task for the order to the spec of a binding. It returns false, and changes nothing, if the cluster has a task already
// or is not among spec.clusters.
func Append(spec *workv1alpha2.ResourceBindingSpec, o Order, now time.Time) bool {
	at := slices.IndexFunc(spec.Clusters, func(t workv1alpha2.TargetCluster) bool { return t.Name == o.Cluster })
	if at < 0 || Find(spec, o.Cluster) != nil {
		return false
	}
	created := metav1.NewTime(now).Rfc3339Copy()
	task := workv1alpha2.GracefulEvictionTask{
		FromCluster: o.Cluster, PurgeMode: o.PurgeMode, Reason: o.Reason, Message: cut(o.Message, maxMessage), Producer: o.Producer,
		PreservedLabelState: o.PreservedLabelState, CreationTimestamp: &created,
	}
	if n := spec.Clusters[at].Replicas; n > 0 {
		task.Replicas = ptr.To(n)
	}
	switch o.PurgeMode {
	case "":
		task.PurgeMode = policyv1alpha1.PurgeModeGracefully
	case policyv1alpha1.PurgeModeNever:
		task.SuppressDeletion = ptr.To(true)
	}
	if task.PurgeMode == policyv1alpha1.PurgeModeGracefully {
		task.GracePeriodSeconds = o.GracePeriodSeconds
	}
	for _, t := range spec.Clusters {
		task.ClustersBeforeFailover = append(task.ClustersBeforeFailover, t.Name)
	}
	spec.GracefulEvictionTasks = append(spec.GracefulEvictionTasks, task)
	return true
}

// Find returns the task of a cluster, nil if it has none.
func Find(spec *workv1alpha2.ResourceBindingSpec, cluster string) *workv1alpha2.GracefulEvictionTask {
	for i := range spec.GracefulEvictionTasks {
		if task := &spec.GracefulEvictionTasks[i]; task.FromCluster == cluster {
			return task
		}
	}
	return nil
}

// Remove removes the task of a cluster and returns whether there was one.
func Remove(spec *workv1alpha2.ResourceBindingSpec, cluster string) bool {
	before := len(spec.GracefulEvictionTasks)
	spec.GracefulEvictionTasks = slices.DeleteFunc(spec.GracefulEvictionTasks, func(t workv1alpha2.GracefulEvictionTask) bool {
		return t.FromCluster == cluster
	})
	return len(spec.GracefulEvictionTasks) < before
}

// Stamp sets when a task was created, for producers that do not.
func Stamp(task *workv1alpha2.GracefulEvictionTask, now time.Time) {
	created := metav1.NewTime(now).Rfc3339Copy()
	task.CreationTimestamp = &created
}

// Return is a place that an object goes back to.
type Return struct {
	Cluster string `json:"cluster"`
	// Replicas are those it had there.
	Replicas int32 `json:"replicas,omitempty"`
	// Before are all clusters that the object was in then; the replicas are taken from others first.
	Before []string `json:"before,omitempty"`
	// At is when it left, or when it was to return.
	At metav1.Time `json:"at"`
}

// ReturnOf is the place that a task has the object leave.
func ReturnOf(task *workv1alpha2.GracefulEvictionTask, now time.Time) Return {
	return Return{
		Cluster: task.FromCluster, Replicas: ptr.Deref(task.Replicas, 0), Before: task.ClustersBeforeFailover, At: metav1.NewTime(now).Rfc3339Copy(),
	}
}

// Cancel removes the task of a cluster, and has the scheduler give the cluster its replicas back if it has lost them. It returns false
// if there is no task.
func Cancel(b workv1alpha2.Binding, cluster string, now time.Time) bool {
	task := Find(b.BindingSpec(), cluster)
	if task == nil {
		return false
	}
	if !IsTarget(b.BindingSpec(), cluster) {
		SetReturns(b, append(Returns(b), ReturnOf(task, now)))
	}
	return Remove(b.BindingSpec(), cluster)
}

// IsTarget returns whether a cluster is among spec.clusters.
func IsTarget(spec *workv1alpha2.ResourceBindingSpec, cluster string) bool {
	return slices.ContainsFunc(spec.Clusters, func(t workv1alpha2.TargetCluster) bool { return t.Name == cluster })
}

// Returns are the places that the scheduler is to give a binding back. What cannot be read counts as none.
func Returns(b workv1alpha2.Binding) []Return { return places(b, workv1alpha2.ReturnsAnnotation) }

// SetReturns sets what Returns reads.
func SetReturns(b workv1alpha2.Binding, returns []Return) {
	setPlaces(b, workv1alpha2.ReturnsAnnotation, returns)
}

// FailedOver are the places that a binding left because their clusters failed.
func FailedOver(b workv1alpha2.Binding) []Return { return places(b, workv1alpha2.FailedOverAnnotation) }

// SetFailedOver sets what FailedOver reads.
func SetFailedOver(b workv1alpha2.Binding, left []Return) {
	setPlaces(b, workv1alpha2.FailedOverAnnotation, left)
}

func places(b workv1alpha2.Binding, annotation string) []Return {
	var list []Return
	if json.Unmarshal([]byte(b.GetAnnotations()[annotation]), &list) != nil {
		return nil
	}
	return list
}

func setPlaces(b workv1alpha2.Binding, annotation string, list []Return) {
	annotations := maps.Clone(b.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, annotation)
	if text, err := json.Marshal(list); err == nil && len(list) > 0 {
		annotations[annotation] = string(text)
	}
	b.SetAnnotations(annotations)
}

// cut shortens a text to a number of bytes, at the end of a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
