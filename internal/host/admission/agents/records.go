package agents

import (
	"encoding/json"
	"errors"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

const endpointSlice = "EndpointSlice"

// checkRecord returns an error unless a Work is what an agent records of its member: an EndpointSlice of a Service that the member
// provides, an export with its Service or one of its slices, or what the member warns of. The name, the labels and the content have to agree, so that endpoints
// of a member are not added to another Service than the one that its labels name, and no other Work has the name.
func checkRecord(work *workv1alpha1.Work) error {
	if work.Labels[workv1alpha1.EventsRecordLabel] != "" {
		return checkEventsRecord(work)
	}
	slice := types.NamespacedName{Namespace: work.Labels[networkingv1alpha1.EndpointSliceWorkNamespaceLabel], Name: work.Labels[networkingv1alpha1.EndpointSliceWorkNameLabel]}
	if slice.Name == "" {
		slice.Name = work.Annotations[networkingv1alpha1.EndpointSliceWorkNameLabel]
	}
	var name string
	var service types.NamespacedName
	kinds := []string{endpointSlice}
	switch {
	case networkingv1alpha1.IsRecord(work):
		service = types.NamespacedName{Namespace: work.Labels[networkingv1alpha1.MultiClusterServiceNamespaceLabel], Name: work.Labels[networkingv1alpha1.MultiClusterServiceNameLabel]}
		name = networkingv1alpha1.CollectedWorkName(slice.Namespace, slice.Name)
	case multiclusterv1beta1.IsRecord(work):
		service = types.NamespacedName{Namespace: work.Labels[multiclusterv1beta1.ExportNamespaceLabel], Name: work.Labels[multiclusterv1beta1.ExportNameLabel]}
		name = multiclusterv1beta1.EndpointsRecordName(slice.Namespace, slice.Name)
		if work.Labels[multiclusterv1beta1.ExportRoleLabel] == multiclusterv1beta1.RoleExport {
			name = multiclusterv1beta1.ExportRecordName(service.Namespace, service.Name)
			kinds = []string{multiclusterv1beta1.KindServiceExport, "Service"}
		}
	}
	switch {
	case name == "" || work.Name != name:
		return errors.New("an agent creates, changes and deletes the records of EndpointSlices and exports of its cluster, and no other Works")
	case len(work.Spec.Workload.Manifests) != len(kinds):
		return fmt.Errorf("spec.workload.manifests: this record has %d", len(kinds))
	}
	if err := checkInactive(work); err != nil {
		return err
	}
	for i, kind := range kinds {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(work.Spec.Workload.Manifests[i].Raw, &object); err != nil {
			return fmt.Errorf("spec.workload.manifests[%d]: %w", i, err)
		}
		want, of := service, object.Name
		if kind == endpointSlice {
			want, of = slice, object.Labels[discoveryv1.LabelServiceName]
		}
		if object.Kind != kind || object.Namespace != want.Namespace || object.Namespace != service.Namespace || object.Name != want.Name || of != service.Name {
			return fmt.Errorf("spec.workload.manifests[%d]: it is not the %s that the labels of the record name", i, kind)
		}
	}
	return nil
}

// checkInactive returns an error if a record could be applied, or kept from being deleted.
func checkInactive(work *workv1alpha1.Work) error {
	switch {
	case work.Spec.SuspendDispatching == nil || !*work.Spec.SuspendDispatching:
		return errors.New("spec.suspendDispatching: a record is suspended")
	case len(work.Finalizers)+len(work.OwnerReferences) > 0:
		return errors.New("metadata: a record has no finalizers and no owners")
	}
	return nil
}

// checkEventsRecord returns an error unless a Work is the record of what a member warns of. What its events are about is not checked:
// the control plane shows only those about Works of the same cluster, and bounds their texts again.
func checkEventsRecord(work *workv1alpha1.Work) error {
	switch {
	case work.Name != workv1alpha1.EventsRecordName:
		return fmt.Errorf("the record of events has the name %s", workv1alpha1.EventsRecordName)
	case networkingv1alpha1.IsRecord(work), multiclusterv1beta1.IsRecord(work), workv1alpha2.IsBound(work):
		return errors.New("metadata: the record of events has no labels and annotations of a binding or another record")
	case len(work.Spec.Workload.Manifests) > workv1alpha1.MaxRecordedEvents:
		return fmt.Errorf("spec.workload.manifests: the record of events has at most %d", workv1alpha1.MaxRecordedEvents)
	}
	for i, manifest := range work.Spec.Workload.Manifests {
		if kind := manifest.GroupVersionKind(); kind.Group != "" || kind.Kind != "Event" {
			return fmt.Errorf("spec.workload.manifests[%d]: it is no Event", i)
		}
		if len(manifest.Raw) > workv1alpha1.MaxRecordedEventBytes {
			return fmt.Errorf("spec.workload.manifests[%d]: it has more than %d bytes", i, workv1alpha1.MaxRecordedEventBytes)
		}
	}
	return checkInactive(work)
}
