package render

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

// renderingRefused is the event of a template whose copy in a cluster is not what the policies specify. What a binding must not carry may
// belong to another user: the event is the binding's then.
func (r *Reconciler) renderingRefused(binding workv1alpha2.Binding, err error) events.Event {
	switch compose.ReasonOf(err) {
	case workv1alpha2.ForbiddenReason:
		return events.Warning(events.Binding(binding), events.SyncWorkFailed, err.Error())
	case workv1alpha2.TranslationFailedReason, workv1alpha2.ManifestTooLargeReason, workv1alpha2.WorkRefusedReason, workv1alpha2.NamespaceLimitReason:
		return events.Warning(events.Template(binding.BindingSpec().Resource), events.SyncWorkFailed, err.Error())
	}
	return events.Warning(events.Template(binding.BindingSpec().Resource), events.ApplyOverridePolicyFailed, err.Error())
}

func syncFailed(binding corev1.ObjectReference, err error) events.Event {
	return events.Warning(binding, events.SyncWorkFailed, err.Error())
}

// publishRendered publishes that all Works of a binding are as they should be.
func (r *Reconciler) publishRendered(binding workv1alpha2.Binding, works int) {
	message := fmt.Sprintf("%d Works are up to date", works)
	r.deps.Events.Publish(events.Success(events.Binding(binding), events.SyncWorkSucceed, message))
	r.deps.Events.Publish(events.Success(events.Template(binding.BindingSpec().Resource), events.SyncWorkSucceed, message))
}

// overridden is the event of a template that override policies change for a cluster. The annotations of the Work list them.
func overridden(binding workv1alpha2.Binding, cluster string) events.Event {
	return events.Success(events.Template(binding.BindingSpec().Resource), events.ApplyOverridePolicySucceed, "Override policies are applied for cluster "+cluster)
}

func cleanupFailed(binding corev1.ObjectReference, err error) events.Event {
	return events.Warning(binding, events.CleanupWorkFailed, err.Error())
}

// publishWaiting publishes on a template that the removal of copies waits, and in which clusters.
func (r *Reconciler) publishWaiting(binding workv1alpha2.Binding, works []*workv1alpha1.Work) {
	var clusters []string
	for _, work := range works {
		if workv1alpha1.AwaitsBrake(work) && !workv1alpha1.IsWithdrawn(work) {
			clusters = append(clusters, clusterOf(client.ObjectKeyFromObject(work)))
		}
	}
	if len(clusters) == 0 {
		return
	}
	slices.Sort(clusters)
	r.deps.Events.Publish(events.Warning(events.Template(binding.BindingSpec().Resource), events.RemovalWaits, fmt.Sprintf(
		"The removal of the copies in %s waits: too many objects are to be removed at once. 'flagship release-brake' lets it pass; "+
			"the copies stay when the template goes there again", strings.Join(clusters, ", "))))
}

// bindingKept is the event of a template whose binding was deleted and is created again.
func bindingKept(binding workv1alpha2.Binding) events.Event {
	return events.Normal(events.Template(binding.BindingSpec().Resource), events.RestoreBinding, fmt.Sprintf(
		"Binding %s was deleted, but its template still goes to clusters: the binding is created again, and the objects in the clusters stay. "+
			"To remove them, delete the template or change what selects it", binding.GetName()))
}

// orphaned is the event of a Work without a binding.
func orphaned(work *workv1alpha1.Work, kind string, binding types.NamespacedName) events.Event {
	return events.Warning(events.Work(work), events.WorkOrphaned, fmt.Sprintf(
		"%s %s does not exist, and was not seen to be deleted: the Work and its objects stay until the binding is created or the Work is deleted",
		kind, strings.TrimPrefix(binding.String(), "/")))
}
