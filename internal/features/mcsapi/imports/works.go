package imports

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/clusterset"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// importObject is the ServiceImport of a service, without addresses and status.
func importObject(key types.NamespacedName, service clusterset.Service) *multiclusterv1beta1.ServiceImport {
	return &multiclusterv1beta1.ServiceImport{
		TypeMeta: metav1.TypeMeta{APIVersion: multiclusterv1beta1.GroupVersion.String(), Kind: multiclusterv1beta1.KindServiceImport},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: service.Labels, Annotations: service.Annotations,
		},
		Spec: service.Spec,
	}
}

// hasDerived returns whether an import has a derived Service. A Service with an address has ports; an import that a user writes may lack them.
func hasDerived(spec *multiclusterv1beta1.ServiceImportSpec) bool {
	return spec != nil && (len(spec.Ports) > 0 || spec.Type == multiclusterv1beta1.Headless)
}

// derivedService is the Service through which an import is used. It has no selector: its endpoints are the slices of the exporting
// clusters, so that the proxy and the DNS of a cluster serve it as any other.
func derivedService(key types.NamespacedName, spec multiclusterv1beta1.ServiceImportSpec) *corev1.Service {
	service := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: networkingv1alpha1.DerivedServiceName(key.Name),
			Labels: map[string]string{multiclusterv1beta1.ServiceNameLabel: key.Name},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: derivedPorts(spec.Ports)},
	}
	if spec.Type == multiclusterv1beta1.Headless {
		service.Spec.ClusterIP = corev1.ClusterIPNone
		return service
	}
	service.Spec.SessionAffinity, service.Spec.SessionAffinityConfig = spec.SessionAffinity, spec.SessionAffinityConfig
	service.Spec.InternalTrafficPolicy, service.Spec.TrafficDistribution = spec.InternalTrafficPolicy, spec.TrafficDistribution
	switch len(spec.IPFamilies) {
	case 0:
	case 1:
		service.Spec.IPFamilyPolicy, service.Spec.IPFamilies = new(corev1.IPFamilyPolicySingleStack), spec.IPFamilies
	default: // As many of them as the cluster has; a family that it lacks would be refused.
		service.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
	}
	return service
}

// derivedPorts are the ports of a derived Service. A Service must name its ports if it has several, so a port without a
// name stands alone or not at all.
func derivedPorts(ports []multiclusterv1beta1.ServicePort) []corev1.ServicePort {
	var list []corev1.ServicePort
	for _, p := range ports {
		if len(list) > 0 && (p.Name == "" || list[0].Name == "") {
			continue
		}
		list = append(list, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
	}
	return list
}

// importWork carries the ServiceImport to a cluster. It has the name that a binding's Work for it would have.
func importWork(cluster string, object *multiclusterv1beta1.ServiceImport, existing *workv1alpha1.Work) (*workv1alpha1.Work, error) {
	key := client.ObjectKeyFromObject(object)
	return importingWork(exportwork.ImportKey(cluster, key), key, multiclusterv1beta1.RoleImport, object, existing)
}

// derivedWork carries the derived Service to a cluster, and in an annotation which clusters export, for package addresses.
func derivedWork(cluster string, key types.NamespacedName, spec multiclusterv1beta1.ServiceImportSpec, exporting []string, existing *workv1alpha1.Work) (*workv1alpha1.Work, error) {
	work, err := importingWork(exportwork.DerivedKey(cluster, key), key, multiclusterv1beta1.RoleDerived, derivedService(key, spec), existing)
	if err != nil {
		return nil, err
	}
	work.AddAnnotations(map[string]string{multiclusterv1beta1.ExportingClustersAnnotation: strings.Join(exporting, ",")})
	return work, nil
}

func importingWork(workKey, service types.NamespacedName, role string, object any, existing *workv1alpha1.Work) (*workv1alpha1.Work, error) {
	raw, err := manifestOf(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the import of %s: %w", service, err)
	}
	work := workv1alpha1.NewWork(workKey, existing)
	work.AddLabels(exportwork.Labels(service, role))
	endpointslices.SetManifest(work, raw, false)
	return work, nil
}

// manifestOf encodes an object without its status.
func manifestOf(object any) ([]byte, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	return json.Marshal(fields)
}

// headless returns whether the derived Service of a Work has no address.
func headless(derived *workv1alpha1.Work) bool {
	service := &corev1.Service{}
	if len(derived.Spec.Workload.Manifests) != 1 || json.Unmarshal(derived.Spec.Workload.Manifests[0].Raw, service) != nil {
		return false
	}
	return service.Spec.ClusterIP == corev1.ClusterIPNone
}

// transfer is one slice of an exporting cluster for one that imports.
type transfer struct {
	from, to string
	service  types.NamespacedName
	// name of the slice in the importing cluster.
	name string
	spec multiclusterv1beta1.ServiceImportSpec
	// expired is true if the exporting cluster has not been ready for too long.
	expired bool
}

// imported returns a recorded slice as an importing cluster gets it.
func imported(record *discoveryv1.EndpointSlice, t transfer) *discoveryv1.EndpointSlice {
	out := endpointslices.Dispatched(record, t.name, t.expired)
	out.Labels = map[string]string{
		discoveryv1.LabelServiceName:           networkingv1alpha1.DerivedServiceName(t.service.Name),
		discoveryv1.LabelManagedBy:             networkingv1alpha1.EndpointSliceControllerLabelValue,
		multiclusterv1beta1.ServiceNameLabel:   t.service.Name,
		multiclusterv1beta1.SourceClusterLabel: t.from,
	}
	if t.spec.Type == multiclusterv1beta1.Headless {
		out.Labels[corev1.IsHeadlessService] = "" // Makes proxies ignore what is for DNS only.
	}
	near := t.spec.TrafficDistribution != nil && !slices.ContainsFunc(out.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Zone == nil })
	for i := range out.Endpoints {
		e := &out.Endpoints[i]
		if t.from != t.to {
			e.NodeName = nil
		}
		if near { // Zones have the same names in all clusters, so the proxy may prefer its own.
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: *e.Zone}}}
		}
	}
	return out
}

func importedKey(t transfer, slice types.NamespacedName) types.NamespacedName {
	return endpointslices.WorkKey(t.to, multiclusterv1beta1.ImportedEndpointsWorkName(t.from, slice.Namespace, slice.Name))
}

// importedWork carries a slice of an exporting cluster to one that imports.
func importedWork(t transfer, slice types.NamespacedName, raw []byte, existing *workv1alpha1.Work) *workv1alpha1.Work {
	work := workv1alpha1.NewWork(importedKey(t, slice), existing)
	endpointslices.SetSlice(work, multiclusterv1beta1.KindServiceExport, exportwork.Labels(t.service, multiclusterv1beta1.RoleImportedEndpoints), slice)
	work.AddAnnotations(map[string]string{networkingv1alpha1.EndpointSliceProvisionClusterAnnotation: t.from})
	endpointslices.SetManifest(work, raw, false)
	return work
}
