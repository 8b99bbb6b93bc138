package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// record is what a Work has to be by its labels.
type record struct {
	service, slice types.NamespacedName
	// manifests check those of the record; nil for the one of events.
	manifests []func(*record, []byte) error
	// labels are what a record has besides its permanent id, and optional the keys of those whose values may be anything.
	labels   map[string]string
	optional string
	// annotations are those that its agent writes.
	annotations map[string]string
}

// recordOf returns which record of an agent a Work is: an EndpointSlice of a Service that the member provides, an export with its Service
// or one of its slices, or what the member warns of. The name and the labels have to agree, so that no other Work has the name, and
// endpoints of a member are not added to another Service than the one that its labels name.
func recordOf(work *workv1alpha1.Work) (*record, error) {
	of := func(key string) string { return work.Labels[key] }
	r := &record{slice: types.NamespacedName{
		Namespace: of(networkingv1alpha1.EndpointSliceWorkNamespaceLabel), Name: of(networkingv1alpha1.EndpointSliceWorkNameLabel),
	}}
	if r.slice.Name == "" {
		r.slice.Name = work.Annotations[networkingv1alpha1.EndpointSliceWorkNameLabel]
	}
	var name string
	switch {
	case of(workv1alpha1.EventsRecordLabel) != "":
		name, r.labels = workv1alpha1.EventsRecordName, map[string]string{workv1alpha1.EventsRecordLabel: "true"}
	case networkingv1alpha1.IsRecord(work):
		r.service = types.NamespacedName{Namespace: of(networkingv1alpha1.MultiClusterServiceNamespaceLabel), Name: of(networkingv1alpha1.MultiClusterServiceNameLabel)}
		name = networkingv1alpha1.CollectedWorkName(r.slice.Namespace, r.slice.Name)
		r.labels = map[string]string{
			networkingv1alpha1.MultiClusterServiceNamespaceLabel: r.service.Namespace, networkingv1alpha1.MultiClusterServiceNameLabel: r.service.Name,
		}
		r.optional = networkingv1alpha1.MultiClusterServicePermanentIDLabel
		r.setSlice(networkingv1alpha1.KindMultiClusterService)
	case multiclusterv1beta1.IsRecord(work):
		r.service = types.NamespacedName{Namespace: of(multiclusterv1beta1.ExportNamespaceLabel), Name: of(multiclusterv1beta1.ExportNameLabel)}
		role := of(multiclusterv1beta1.ExportRoleLabel)
		r.labels = map[string]string{
			multiclusterv1beta1.ExportNamespaceLabel: r.service.Namespace, multiclusterv1beta1.ExportNameLabel: r.service.Name, multiclusterv1beta1.ExportRoleLabel: role,
		}
		if role == multiclusterv1beta1.RoleExport {
			name = multiclusterv1beta1.ExportRecordName(r.service.Namespace, r.service.Name)
			r.manifests = []func(*record, []byte) error{(*record).checkExport, (*record).checkService}
			break
		}
		name = multiclusterv1beta1.EndpointsRecordName(r.slice.Namespace, r.slice.Name)
		r.setSlice(multiclusterv1beta1.KindServiceExport)
	}
	if name == "" || work.Name != name {
		return nil, errors.New("an agent creates, changes and deletes the records of EndpointSlices, exports and events of its cluster, and no other Works")
	}
	return r, nil
}

// setSlice adds what records of slices have: the slice is in the namespace of its Service.
func (r *record) setSlice(kind string) {
	r.manifests = []func(*record, []byte) error{(*record).checkSlice}
	r.labels[networkingv1alpha1.EndpointSliceWorkNamespaceLabel] = r.slice.Namespace
	r.labels[networkingv1alpha1.EndpointSliceWorkManagedByLabel] = kind
	if len(r.slice.Name) <= validation.LabelValueMaxLength {
		r.labels[networkingv1alpha1.EndpointSliceWorkNameLabel] = r.slice.Name
	} else {
		r.annotations = map[string]string{networkingv1alpha1.EndpointSliceWorkNameLabel: r.slice.Name}
	}
}

// checkRecord returns an error unless a Work is exactly what the collectors of an agent make: it has their labels, annotations and fields
// and no others, and could not be applied. What others wrote to the record, as the control plane its verdict, stays as it was before.
func checkRecord(work, before *workv1alpha1.Work) error {
	r, err := recordOf(work)
	if err != nil {
		return err
	}
	if workv1alpha1.ReservedService(r.service.Namespace, r.service.Name) {
		return fmt.Errorf("metadata.labels: Service %s belongs to its cluster: it is neither exported nor provided", r.service)
	}
	if err := checkInactive(work); err != nil {
		return err
	}
	if err := checkTexts("metadata.labels", work.Labels, before.Labels, r.labels, workv1alpha1.WorkPermanentIDLabel, r.optional); err != nil {
		return err
	}
	if err := checkTexts("metadata.annotations", work.Annotations, before.Annotations, r.annotations); err != nil {
		return err
	}
	if r.manifests == nil {
		return checkEvents(work)
	}
	if len(work.Spec.Workload.Manifests) != len(r.manifests) {
		return fmt.Errorf("spec.workload.manifests: this record has %d", len(r.manifests))
	}
	for i, check := range r.manifests {
		if err := check(r, work.Spec.Workload.Manifests[i].Raw); err != nil {
			return fmt.Errorf("spec.workload.manifests[%d]: %w", i, err)
		}
	}
	return nil
}

// checkTexts returns an error unless labels or annotations are the wanted ones, besides those that were there before and those of any
// value.
func checkTexts(field string, now, before, wanted map[string]string, anyValue ...string) error {
	rest := maps.Clone(now)
	for key, value := range wanted {
		if now[key] != value {
			return fmt.Errorf("%s: this record has %s: %q", field, key, value)
		}
		delete(rest, key)
	}
	for _, key := range anyValue {
		delete(rest, key)
	}
	for key, value := range before {
		if _, ours := wanted[key]; ours || slices.Contains(anyValue, key) {
			continue
		}
		if got, ok := rest[key]; !ok || got != value {
			return fmt.Errorf("%s: %s is not of the agent, and stays as it is", field, key)
		}
		delete(rest, key)
	}
	for key := range rest {
		return fmt.Errorf("%s: the collectors of an agent do not write %s", field, key)
	}
	return nil
}

// strictly decodes a manifest that has no other fields than the type, and no more bytes than it may have.
func strictly(raw []byte, most int, into any) error {
	if len(raw) > most {
		return fmt.Errorf("it has %d bytes, and may have %d", len(raw), most)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// only returns an error unless the metadata of an object is that which is wanted.
func only(object, wanted metav1.ObjectMeta) error {
	if !reflect.DeepEqual(object, wanted) {
		return fmt.Errorf("metadata: it is not of %s/%s, which the labels of the record name, or has more than the collectors write", wanted.Namespace, wanted.Name)
	}
	return nil
}

// checkSlice checks an EndpointSlice as package endpointslices makes it.
func (r *record) checkSlice(raw []byte) error {
	slice := &discoveryv1.EndpointSlice{}
	if err := strictly(raw, bounds.MaxSliceBytes, slice); err != nil {
		return err
	}
	switch {
	case slice.APIVersion != discoveryv1.SchemeGroupVersion.String() || slice.Kind != "EndpointSlice":
		return errors.New("it is no EndpointSlice")
	case r.slice.Namespace != r.service.Namespace || slice.Labels[discoveryv1.LabelServiceName] != r.service.Name:
		return errors.New("metadata: it is not of the Service that the labels of the record name")
	case len(slice.Endpoints) > bounds.MaxEndpoints || len(slice.Ports) > bounds.MaxPorts:
		return fmt.Errorf("it has more than %d endpoints or %d ports", bounds.MaxEndpoints, bounds.MaxPorts)
	}
	labels := map[string]string{}
	for _, key := range []string{discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy, corev1.IsHeadlessService} {
		if value, ok := slice.Labels[key]; ok {
			labels[key] = value
		}
	}
	if err := only(slice.ObjectMeta, metav1.ObjectMeta{Namespace: r.slice.Namespace, Name: r.slice.Name, Labels: labels}); err != nil {
		return err
	}
	for i := range slice.Endpoints {
		e := slice.Endpoints[i]
		if len(e.Addresses) > bounds.MaxAddresses {
			return fmt.Errorf("endpoints[%d].addresses: it has more than %d", i, bounds.MaxAddresses)
		}
		if r.labels[networkingv1alpha1.EndpointSliceWorkManagedByLabel] == multiclusterv1beta1.KindServiceExport {
			e.NodeName = nil
		}
		e.Addresses, e.Conditions, e.Hostname, e.Zone = nil, discoveryv1.EndpointConditions{}, nil, nil
		if !reflect.DeepEqual(e, discoveryv1.Endpoint{}) {
			return fmt.Errorf("endpoints[%d]: it has more than the collectors write", i)
		}
	}
	return nil
}

// checkExport checks an export as package mcsapi makes it.
func (r *record) checkExport(raw []byte) error {
	export := &multiclusterv1beta1.ServiceExport{}
	if err := strictly(raw, bounds.MaxExportBytes, export); err != nil {
		return err
	}
	if export.APIVersion != multiclusterv1beta1.GroupVersion.String() || export.Kind != multiclusterv1beta1.KindServiceExport ||
		!reflect.DeepEqual(export.Status, multiclusterv1beta1.ServiceExportStatus{}) {
		return errors.New("it is no ServiceExport without status")
	}
	return only(export.ObjectMeta, metav1.ObjectMeta{
		Namespace: r.service.Namespace, Name: r.service.Name, UID: export.UID, CreationTimestamp: export.CreationTimestamp,
	})
}

// checkService checks the Service of an export as package mcsapi makes it.
func (r *record) checkService(raw []byte) error {
	service := &corev1.Service{}
	if err := strictly(raw, bounds.MaxExportBytes, service); err != nil {
		return err
	}
	spec := service.Spec
	spec.Type, spec.SessionAffinity, spec.SessionAffinityConfig, spec.IPFamilies, spec.InternalTrafficPolicy, spec.TrafficDistribution = "", "", nil, nil, nil, nil
	if spec.ClusterIP == corev1.ClusterIPNone {
		spec.ClusterIP = ""
	}
	ports := spec.Ports
	spec.Ports = nil
	switch {
	case service.APIVersion != "v1" || service.Kind != "Service" || !reflect.DeepEqual(service.Status, corev1.ServiceStatus{}):
		return errors.New("it is no Service without status")
	case len(ports) > bounds.MaxPorts || len(service.Spec.IPFamilies) > 2:
		return fmt.Errorf("spec: it has more than %d ports or two families", bounds.MaxPorts)
	case !reflect.DeepEqual(spec, corev1.ServiceSpec{}):
		return errors.New("spec: it has more than the collectors write")
	}
	for i, p := range ports {
		p.Name, p.Protocol, p.AppProtocol, p.Port = "", "", nil, 0
		if !reflect.DeepEqual(p, corev1.ServicePort{}) {
			return fmt.Errorf("spec.ports[%d]: it has more than the collectors write", i)
		}
	}
	return only(service.ObjectMeta, metav1.ObjectMeta{Namespace: r.service.Namespace, Name: r.service.Name})
}

// checkInactive returns an error if a record could be applied, or kept from being deleted.
func checkInactive(work *workv1alpha1.Work) error {
	switch {
	case work.Spec.SuspendDispatching == nil || !*work.Spec.SuspendDispatching:
		return errors.New("spec.suspendDispatching: a record is suspended")
	case work.Spec.PreserveResourcesOnDeletion != nil:
		return errors.New("spec.preserveResourcesOnDeletion: a record has no objects")
	case len(work.Finalizers)+len(work.OwnerReferences) > 0:
		return errors.New("metadata: a record has no finalizers and no owners")
	}
	return nil
}

// checkEvents returns an error unless manifests are what a member warns of. What its events are about is not checked: the control plane
// shows only those about Works of the same cluster, and bounds their texts again.
func checkEvents(work *workv1alpha1.Work) error {
	if len(work.Spec.Workload.Manifests) > workv1alpha1.MaxRecordedEvents {
		return fmt.Errorf("spec.workload.manifests: the record of events has at most %d", workv1alpha1.MaxRecordedEvents)
	}
	for i, manifest := range work.Spec.Workload.Manifests {
		event := &corev1.Event{}
		if err := strictly(manifest.Raw, workv1alpha1.MaxRecordedEventBytes, event); err != nil {
			return fmt.Errorf("spec.workload.manifests[%d]: %w", i, err)
		}
		if event.APIVersion != "v1" || event.Kind != "Event" {
			return fmt.Errorf("spec.workload.manifests[%d]: it is no Event", i)
		}
	}
	return nil
}
