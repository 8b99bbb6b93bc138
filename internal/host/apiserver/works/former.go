package works

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Bindings are served in v1alpha1, too, and stored in v1alpha2. Of what v1alpha2 adds, a write in v1alpha1 changes nothing: see
// keepOmitted.

// formerTypes are the types of v1alpha1 by the names of their kinds.
func formerTypes() map[string]goType {
	return map[string]goType{
		workv1alpha2.KindResourceBinding: {
			object: func() runtime.Object { return &workv1alpha1.ResourceBinding{} },
			list:   func() runtime.Object { return &workv1alpha1.ResourceBindingList{} },
		},
		workv1alpha2.KindClusterResourceBinding: {
			object: func() runtime.Object { return &workv1alpha1.ClusterResourceBinding{} },
			list:   func() runtime.Object { return &workv1alpha1.ClusterResourceBindingList{} },
		},
	}
}

// addConversions makes the scheme convert bindings and their lists in both directions.
func addConversions(scheme *runtime.Scheme) error {
	return errors.Join(
		convert(scheme, func(in *workv1alpha1.ResourceBinding, out *workv1alpha2.ResourceBinding) {
			out.ObjectMeta, out.Spec, out.Status = in.ObjectMeta, specToV1alpha2(&in.Spec), statusToV1alpha2(&in.Status)
		}),
		convert(scheme, func(in *workv1alpha2.ResourceBinding, out *workv1alpha1.ResourceBinding) {
			out.ObjectMeta, out.Spec, out.Status = in.ObjectMeta, specToV1alpha1(&in.Spec), statusToV1alpha1(&in.Status)
		}),
		convert(scheme, func(in *workv1alpha1.ClusterResourceBinding, out *workv1alpha2.ClusterResourceBinding) {
			out.ObjectMeta, out.Spec, out.Status = in.ObjectMeta, specToV1alpha2(&in.Spec), statusToV1alpha2(&in.Status)
		}),
		convert(scheme, func(in *workv1alpha2.ClusterResourceBinding, out *workv1alpha1.ClusterResourceBinding) {
			out.ObjectMeta, out.Spec, out.Status = in.ObjectMeta, specToV1alpha1(&in.Spec), statusToV1alpha1(&in.Status)
		}),
		convert(scheme, func(in *workv1alpha2.ResourceBindingList, out *workv1alpha1.ResourceBindingList) {
			out.ListMeta, out.Items = in.ListMeta, make([]workv1alpha1.ResourceBinding, len(in.Items))
			for i := range in.Items {
				from, to := &in.Items[i], &out.Items[i]
				to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, specToV1alpha1(&from.Spec), statusToV1alpha1(&from.Status)
			}
		}),
		convert(scheme, func(in *workv1alpha2.ClusterResourceBindingList, out *workv1alpha1.ClusterResourceBindingList) {
			out.ListMeta, out.Items = in.ListMeta, make([]workv1alpha1.ClusterResourceBinding, len(in.Items))
			for i := range in.Items {
				from, to := &in.Items[i], &out.Items[i]
				to.ObjectMeta, to.Spec, to.Status = from.ObjectMeta, specToV1alpha1(&from.Spec), statusToV1alpha1(&from.Status)
			}
		}),
	)
}

// convert adds one conversion. What is converted shares memory with what it is made from.
func convert[In, Out any](scheme *runtime.Scheme, do func(in *In, out *Out)) error {
	return scheme.AddConversionFunc((*In)(nil), (*Out)(nil), func(in, out any, _ conversion.Scope) error {
		do(in.(*In), out.(*Out))
		return nil
	})
}

func specToV1alpha2(in *workv1alpha1.ResourceBindingSpec) workv1alpha2.ResourceBindingSpec {
	out := workv1alpha2.ResourceBindingSpec{
		Resource: workv1alpha2.ObjectReference{
			APIVersion: in.Resource.APIVersion, Kind: in.Resource.Kind, Namespace: in.Resource.Namespace, Name: in.Resource.Name,
			ResourceVersion: in.Resource.ResourceVersion,
		},
		Replicas: in.Resource.Replicas,
	}
	if in.Resource.ReplicaResourceRequirements != nil {
		out.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: in.Resource.ReplicaResourceRequirements}
	}
	for _, cluster := range in.Clusters {
		out.Clusters = append(out.Clusters, workv1alpha2.TargetCluster{Name: cluster.Name, Replicas: cluster.Replicas})
	}
	return out
}

func specToV1alpha1(in *workv1alpha2.ResourceBindingSpec) workv1alpha1.ResourceBindingSpec {
	out := workv1alpha1.ResourceBindingSpec{Resource: workv1alpha1.ObjectReference{
		APIVersion: in.Resource.APIVersion, Kind: in.Resource.Kind, Namespace: in.Resource.Namespace, Name: in.Resource.Name,
		ResourceVersion: in.Resource.ResourceVersion, Replicas: in.Replicas,
	}}
	if in.ReplicaRequirements != nil {
		out.Resource.ReplicaResourceRequirements = in.ReplicaRequirements.ResourceRequest
	}
	for _, cluster := range in.Clusters {
		out.Clusters = append(out.Clusters, workv1alpha1.TargetCluster{Name: cluster.Name, Replicas: cluster.Replicas})
	}
	return out
}

func statusToV1alpha2(in *workv1alpha1.ResourceBindingStatus) workv1alpha2.ResourceBindingStatus {
	out := workv1alpha2.ResourceBindingStatus{Conditions: in.Conditions}
	for _, item := range in.AggregatedStatus {
		out.AggregatedStatus = append(out.AggregatedStatus, workv1alpha2.AggregatedStatusItem{
			ClusterName: item.ClusterName, Status: item.Status, Applied: item.Applied, AppliedMessage: item.AppliedMessage,
		})
	}
	return out
}

func statusToV1alpha1(in *workv1alpha2.ResourceBindingStatus) workv1alpha1.ResourceBindingStatus {
	out := workv1alpha1.ResourceBindingStatus{Conditions: in.Conditions}
	for _, item := range in.AggregatedStatus {
		out.AggregatedStatus = append(out.AggregatedStatus, workv1alpha1.AggregatedStatusItem{
			ClusterName: item.ClusterName, Status: item.Status, Applied: item.Applied, AppliedMessage: item.AppliedMessage,
		})
	}
	return out
}

// keepOmitted gives a binding that was written in v1alpha1 what that version has no fields for, from the stored object. Karmada's own
// conversion loses it: placement, components, health and the rest.
func keepOmitted(ctx context.Context, object, old runtime.Object) {
	binding, ok := object.(workv1alpha2.Binding)
	info, known := request.RequestInfoFrom(ctx)
	if !ok || !known || info.APIVersion != workv1alpha1.GroupVersion.Version {
		return
	}
	before := old.(workv1alpha2.Binding)
	*binding.BindingSpec() = specOver(binding.BindingSpec(), before.BindingSpec())
	*binding.BindingStatus() = statusOver(binding.BindingStatus(), before.BindingStatus())
}

// specOver is the stored spec with what v1alpha1 has of the written one.
func specOver(written, stored *workv1alpha2.ResourceBindingSpec) workv1alpha2.ResourceBindingSpec {
	spec := *stored.DeepCopy()
	uid := spec.Resource.UID
	same := spec.Resource.GroupVersionKind() == written.Resource.GroupVersionKind() &&
		spec.Resource.Namespace == written.Resource.Namespace && spec.Resource.Name == written.Resource.Name
	spec.Resource = written.Resource
	if same {
		spec.Resource.UID = uid
	}
	spec.Replicas = written.Replicas
	switch {
	case written.ReplicaRequirements != nil && spec.ReplicaRequirements == nil:
		spec.ReplicaRequirements = written.ReplicaRequirements
	case written.ReplicaRequirements != nil:
		spec.ReplicaRequirements.ResourceRequest = written.ReplicaRequirements.ResourceRequest
	case spec.ReplicaRequirements != nil:
		spec.ReplicaRequirements.ResourceRequest = nil
	}
	components := map[string][]workv1alpha2.TargetComponent{}
	for _, cluster := range spec.Clusters {
		components[cluster.Name] = cluster.Components
	}
	spec.Clusters = written.Clusters
	for i := range spec.Clusters {
		spec.Clusters[i].Components = components[spec.Clusters[i].Name]
	}
	return spec
}

// statusOver is the stored status with what v1alpha1 has of the written one.
func statusOver(written, stored *workv1alpha2.ResourceBindingStatus) workv1alpha2.ResourceBindingStatus {
	status := *stored.DeepCopy()
	health := map[string]workv1alpha2.ResourceHealth{}
	for _, item := range status.AggregatedStatus {
		health[item.ClusterName] = item.Health
	}
	status.Conditions, status.AggregatedStatus = written.Conditions, written.AggregatedStatus
	for i := range status.AggregatedStatus {
		status.AggregatedStatus[i].Health = health[status.AggregatedStatus[i].ClusterName]
	}
	return status
}
