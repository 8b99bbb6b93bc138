package aggregate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// addRun adds the run that the copy in a cluster ended.
func (s *Summary) addRun(cluster string, resource workv1alpha2.ObjectReference, work *workv1alpha1.Work) {
	if work == nil {
		return
	}
	if status := statusOf(resource, work); status != nil && status.Finished != "" {
		if s.Finished == nil {
			s.Finished = map[string]string{}
		}
		s.Finished[cluster] = status.Finished
		if status.Removed {
			s.Removed = append(s.Removed, cluster)
		}
	}
}

// record returns what a binding is to record of the runs that ended, nil if it records that already. What it recorded of the present run
// stays: the Work of a cluster that the object left is gone, and the run must not begin there again. A cluster speaks for itself only.
func (a *aggregator) record(ctx context.Context, binding workv1alpha2.Binding, summary Summary) (*workv1alpha2.Finished, error) {
	text := binding.GetAnnotations()[workv1alpha2.FinishedAnnotation]
	if text == "" && len(summary.Finished) == 0 {
		return nil, nil
	}
	resource := binding.BindingSpec().Resource
	gvk := resource.GroupVersionKind()
	template, err := a.templates.Read(ctx, hubstore.Ref{GroupVersionKind: gvk, Namespace: resource.Namespace, Name: resource.Name}, resource.ResourceVersion)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if template.GetUID() != resource.UID {
		return nil, nil // the binding follows
	}
	present := workv1alpha2.Finished{Run: workv1alpha1.RunOf(gvk.GroupKind(), template.GetUID(), template.GetGeneration())}
	clusters, before := map[string]bool{}, workv1alpha2.FinishedOf(binding)
	if before.Run == present.Run {
		for _, cluster := range before.Clusters {
			clusters[cluster] = true
		}
	}
	for cluster, run := range summary.Finished {
		if run == present.Run {
			clusters[cluster] = true
		}
	}
	present.Clusters, present.Time = slices.Sorted(maps.Keys(clusters)), metav1.NewTime(a.clock.Now())
	if before.Run == present.Run && slices.Equal(before.Clusters, present.Clusters) || text == "" && len(clusters) == 0 {
		return nil, nil
	}
	return &present, nil
}

// noteFinished writes the record, after the status: from then on the status of a template that ended everywhere stays as it is.
func (a *aggregator) noteFinished(ctx context.Context, binding workv1alpha2.Binding, summary Summary) error {
	if len(summary.Removed) > 0 {
		a.events.Publish(events.Normal(events.Template(binding.BindingSpec().Resource), events.FinishedObjectRemoved, fmt.Sprintf(
			"The copy ran to its end and was removed in %s: it is not made again there, and its status stays", strings.Join(summary.Removed, ", "))))
	}
	finished, err := a.record(ctx, binding, summary)
	if err != nil || finished == nil {
		return err
	}
	before := binding.(client.Object)
	after := before.DeepCopyObject().(client.Object)
	after.SetAnnotations(workv1alpha2.SetFinished(after.GetAnnotations(), *finished))
	_, err = hubclient.Patch(ctx, a.client, before, after)
	return err
}

// isOver returns whether a template ended everywhere and has the status of its end, which nothing changes any more: not a copy that is
// removed, and not a cluster that is lost.
func (a *aggregator) isOver(ctx context.Context, binding workv1alpha2.Binding, template *unstructured.Unstructured) (bool, error) {
	finished := workv1alpha2.FinishedOf(binding)
	run := workv1alpha1.RunOf(template.GroupVersionKind().GroupKind(), template.GetUID(), template.GetGeneration())
	if finished.Run != run || len(finished.Clusters) == 0 {
		return false, nil
	}
	for cluster := range targets(binding.BindingSpec()) {
		if !finished.In(cluster) {
			return false, nil
		}
	}
	return a.statuses.Finished(ctx, template)
}
