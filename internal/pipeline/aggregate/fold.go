package aggregate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
)

// Summary is what the Works of a binding report together.
type Summary struct {
	// Items has one entry per cluster that should have a copy, sorted by name.
	Items []workv1alpha2.AggregatedStatusItem
	// Missing are the clusters whose copy is not applied as it should be.
	Missing []string
	// Stable is true if every cluster has reported its Work as it is now, and no rollout is under way. A summary that is not stable
	// changes soon.
	Stable bool
	// Drifted are the clusters whose copy differs from what is desired there, and Oldest is since when the first of them does.
	Drifted []string
	Oldest  time.Time
	// Finished are the runs of the template that clusters report as ended, by cluster, and Removed those whose copy is gone since.
	Finished map[string]string
	Removed  []string
	// Silent is true if there should be copies, and no cluster has reported at all.
	Silent bool
}

// Messages of items whose Work has no message.
const (
	noWorkMessage  = "The Work for this cluster has not been created yet"
	waitingMessage = "Waiting for the cluster to apply the Work"
	outdated       = "An earlier version is applied, the latest is not yet"
)

// Fold summarises the Works of a binding. Works in clusters that should not have a copy any more do not count. What a cluster reports is
// bounded so that the binding can always be written.
func Fold(spec *workv1alpha2.ResourceBindingSpec, works []*workv1alpha1.Work) Summary {
	rendered := workv1alpha1.WorkName(spec.Resource.Kind, spec.Resource.Namespace, spec.Resource.Name)
	byCluster := make(map[string]*workv1alpha1.Work, len(works))
	for _, work := range works {
		cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
		if ok && (byCluster[cluster] == nil || work.Name == rendered || isAlternative(work, spec.Resource)) { // a user may have made a copy of it, with its labels
			byCluster[cluster] = work
		}
	}
	summary := Summary{Stable: true, Silent: true}
	for _, cluster := range slices.Sorted(maps.Keys(targets(spec))) {
		work := byCluster[cluster]
		item := workv1alpha2.AggregatedStatusItem{
			ClusterName: cluster, Health: workv1alpha2.ResourceUnknown, AppliedMessage: noWorkMessage,
		}
		if work != nil {
			fill(&item, spec.Resource, work)
		}
		summary.addRun(cluster, spec.Resource, work)
		if since, differs := driftedSince(work); differs {
			summary.Drifted = append(summary.Drifted, cluster)
			if summary.Oldest.IsZero() || since.Before(summary.Oldest) {
				summary.Oldest = since
			}
		}
		if !item.Applied {
			summary.Missing = append(summary.Missing, cluster)
		}
		summary.Stable = summary.Stable && work != nil && stable(work)
		summary.Silent = summary.Silent && (work == nil || len(work.Status.Conditions) == 0)
		summary.Items = append(summary.Items, item)
	}
	summary.Silent = summary.Silent && len(summary.Items) > 0
	reports.Items(summary.Items)
	return summary
}

// isAlternative returns whether a Work has the name that it gets while the Work of another object has the usual one.
func isAlternative(work *workv1alpha1.Work, resource workv1alpha2.ObjectReference) bool {
	kind := resource.GroupVersionKind().GroupKind()
	return work.Name == workv1alpha1.AlternativeWorkName(kind, resource.Namespace, resource.Name)
}

// targets returns the clusters that should have a copy: those chosen, those of dependants, and those that are being left, unless the copy
// is removed at once.
func targets(spec *workv1alpha2.ResourceBindingSpec) map[string]bool {
	clusters := map[string]bool{}
	for _, target := range spec.Clusters {
		clusters[target.Name] = true
	}
	for _, snapshot := range spec.RequiredBy {
		for _, target := range snapshot.Clusters {
			clusters[target.Name] = true
		}
	}
	for _, task := range spec.GracefulEvictionTasks {
		if task.PurgeMode != policyv1alpha1.PurgeModeDirectly {
			clusters[task.FromCluster] = true
		}
	}
	return clusters
}

// fill writes what one Work reports into its item.
func fill(item *workv1alpha2.AggregatedStatusItem, resource workv1alpha2.ObjectReference, work *workv1alpha1.Work) {
	item.Applied, item.AppliedMessage = applied(work)
	status := statusOf(resource, work)
	if status == nil {
		return
	}
	item.Status = status.Status
	if item.Applied {
		item.Health = workv1alpha2.ResourceHealth(cmp.Or(status.Health, workv1alpha1.ResourceUnknown))
	}
}

func applied(work *workv1alpha1.Work) (bool, string) {
	condition := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	switch {
	case condition == nil:
		return false, waitingMessage
	case condition.Status != metav1.ConditionTrue:
		return false, condition.Message
	case outOfDate(condition, work):
		return false, outdated
	default:
		return true, ""
	}
}

// outOfDate returns whether a condition is for an earlier spec. One without a generation counts as current.
func outOfDate(condition *metav1.Condition, work *workv1alpha1.Work) bool {
	return condition.ObservedGeneration != 0 && condition.ObservedGeneration < work.Generation
}

// statusOf finds the manifest of a Work that is the binding's template.
func statusOf(resource workv1alpha2.ObjectReference, work *workv1alpha1.Work) *workv1alpha1.ManifestStatus {
	for i := range work.Status.ManifestStatuses {
		status := &work.Status.ManifestStatuses[i]
		id := status.Identifier
		if id.Kind == resource.Kind && id.Name == resource.Name && id.Namespace == resource.Namespace {
			return status
		}
	}
	// Overriders may rename an object; a rendered Work has no other object.
	if len(work.Status.ManifestStatuses) == 1 {
		return &work.Status.ManifestStatuses[0]
	}
	return nil
}

// stable returns whether a Work's status is for its present spec and does not change soon.
func stable(work *workv1alpha1.Work) bool {
	if ptr.Deref(work.Spec.SuspendDispatching, false) {
		return true
	}
	condition := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	if condition == nil || outOfDate(condition, work) {
		return false
	}
	if condition.Status != metav1.ConditionTrue {
		return true
	}
	return len(work.Status.ManifestStatuses) > 0 &&
		!meta.IsStatusConditionTrue(work.Status.Conditions, workv1alpha1.WorkProgressing)
}

// Condition returns the condition FullyApplied, for a binding of the given generation. Without any cluster nothing is fully applied.
func (p Summary) Condition(generation int64) metav1.Condition {
	if len(p.Items) > 0 && len(p.Missing) == 0 {
		return workv1alpha2.FullyAppliedCondition(generation)
	}
	condition := workv1alpha2.NotFullyAppliedCondition(generation)
	if len(p.Items) == 0 {
		condition.Message += ": no cluster was chosen"
		return condition
	}
	condition.Message += fmt.Sprintf(": %d of %d clusters lack it: %s", len(p.Missing), len(p.Items), enumerate(p.Missing))
	return condition
}

// enumerate joins names of clusters, a limited number of them.
func enumerate(clusters []string) string {
	if len(clusters) <= namedClusters {
		return strings.Join(clusters, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(clusters[:namedClusters], ", "), len(clusters)-namedClusters)
}

// unrenderedMessage ends the message of the condition if all Works are applied, but some cannot have the latest content.
const unrenderedMessage = ": what is applied is not the latest everywhere, see condition " + workv1alpha2.Rendered

// unrendered returns whether the Works do not have what the template and the policies specify, which render reports.
func unrendered(binding workv1alpha2.Binding) bool {
	return meta.IsStatusConditionFalse(binding.BindingStatus().Conditions, workv1alpha2.Rendered)
}

// explain sets the message of items without a Work, if render reports why there is none.
func (p Summary) explain(binding workv1alpha2.Binding) {
	rendered := meta.FindStatusCondition(binding.BindingStatus().Conditions, workv1alpha2.Rendered)
	if rendered == nil || rendered.Status != metav1.ConditionFalse {
		return
	}
	for i := range p.Items {
		if item := &p.Items[i]; item.AppliedMessage == noWorkMessage {
			item.AppliedMessage = "There is no Work for this cluster: see condition " + workv1alpha2.Rendered + " (" + rendered.Reason + ")"
		}
	}
}

// namedClusters is how many clusters a message names.
const namedClusters = 10
