package aggregate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// inTemplateVersion returns the Works of a binding with their statuses in the version of the template. The agent of a cluster in Pull mode
// reports the status of an object as its member has it: it cannot read the definitions of the control plane, by which it would be
// converted. A status that cannot be converted now is the one that the binding has; the error is that of the conversion.
func (a *aggregator) inTemplateVersion(ctx context.Context, binding workv1alpha2.Binding, works []*workv1alpha1.Work) ([]*workv1alpha1.Work, error) {
	resource := binding.BindingSpec().Resource
	version := resource.GroupVersionKind().Version
	var failure error
	for i, work := range works {
		status := statusOf(resource, work)
		if status == nil || status.Status == nil || status.Identifier.Version == version {
			continue
		}
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
		pulls, err := a.pulls(ctx, cluster)
		if err != nil {
			return nil, err
		}
		if !pulls {
			continue
		}
		converted, err := a.converted(ctx, work, status)
		if err != nil {
			failure = fmt.Errorf("converting the status of cluster %s to version %s: %w", cluster, version, err)
			a.events.Publish(events.Warning(events.Template(resource), events.AggregateStatusFailed, failure.Error()))
			converted = statusBefore(binding, cluster)
		}
		works[i] = work.DeepCopy()
		statusOf(resource, works[i]).Status = converted
	}
	return works, failure
}

// pulls returns whether a cluster has an agent.
func (a *aggregator) pulls(ctx context.Context, name string) (bool, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := a.client.Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	return err == nil && cluster.Spec.SyncMode == clusterv1alpha1.Pull, nil
}

// converted returns the status of an object of a member in the version of its template.
func (a *aggregator) converted(ctx context.Context, work *workv1alpha1.Work, status *workv1alpha1.ManifestStatus) (*runtime.RawExtension, error) {
	ordinal := status.Identifier.Ordinal
	if ordinal < 0 || ordinal >= len(work.Spec.Workload.Manifests) {
		return status.Status, nil // the Work has been rendered anew, and its agent reports again
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(work.Spec.Workload.Manifests[ordinal].Raw); err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	var content any
	if err := json.Unmarshal(status.Status.Raw, &content); err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	obj.Object["status"] = content
	inTemplate, err := a.conversion.From(ctx, obj)
	if err != nil {
		return nil, err
	}
	if inTemplate == obj {
		return status.Status, nil // its kind is interpreted in each version
	}
	raw, err := json.Marshal(inTemplate.Object["status"])
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// statusBefore is the status that a binding has of a cluster.
func statusBefore(binding workv1alpha2.Binding, cluster string) *runtime.RawExtension {
	items := binding.BindingStatus().AggregatedStatus
	if i := slices.IndexFunc(items, func(item workv1alpha2.AggregatedStatusItem) bool { return item.ClusterName == cluster }); i >= 0 {
		return items[i].Status
	}
	return nil
}
