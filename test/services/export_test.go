package services_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multiclusterv1alpha1 "github.com/flagship-k8s/flagship/api/multicluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// export is a ServiceExport of a Service.
func export(service *corev1.Service) *multiclusterv1beta1.ServiceExport {
	return &multiclusterv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
}

// importOf is the ServiceImport of a Service.
func importOf(service *corev1.Service) *multiclusterv1beta1.ServiceImport {
	return &multiclusterv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
}

// expectDefined waits until every cluster serves exports, and until each member has the namespace.
func expectDefined(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	for _, c := range fleet.Members {
		for _, resource := range []string{multiclusterv1beta1.ResourcePluralServiceExport, multiclusterv1beta1.ResourcePluralServiceImport} {
			fleettest.ExpectEventually(t, c, definitionOf(resource), established)
		}
		fleettest.ExpectEventually(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	}
}

func definitionOf(resource string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: resource + "." + multiclusterv1beta1.GroupName}}
}

func established(d *apiextensionsv1.CustomResourceDefinition) error {
	if !apihelpers.IsCRDConditionTrue(d, apiextensionsv1.Established) {
		return fmt.Errorf("it is not established: %+v", d.Status.Conditions)
	}
	return nil
}

// exportIn makes a Service and its export in a member, as its users would.
func exportIn(t *testing.T, c *fleettest.Cluster, service *corev1.Service, edits ...func(*corev1.Service, *multiclusterv1beta1.ServiceExport)) *multiclusterv1beta1.ServiceExport {
	t.Helper()
	local, e := service.DeepCopy(), export(service)
	for _, edit := range edits {
		edit(local, e)
	}
	fleettest.Create(t, c, local, e)
	return e
}

func exportCondition(kind string, status metav1.ConditionStatus, reason string) func(*multiclusterv1beta1.ServiceExport) error {
	return func(e *multiclusterv1beta1.ServiceExport) error {
		c := meta.FindStatusCondition(e.Status.Conditions, kind)
		switch {
		case c == nil:
			return fmt.Errorf("condition %s is absent", kind)
		case c.Status != status || c.Reason != reason:
			return fmt.Errorf("condition %s is %s, %s: %s", kind, c.Status, c.Reason, c.Message)
		}
		return nil
	}
}

// imports waits until a cluster's import satisfies a condition.
func expectImport(t *testing.T, c *fleettest.Cluster, service *corev1.Service, condition func(*multiclusterv1beta1.ServiceImport) error) *multiclusterv1beta1.ServiceImport {
	t.Helper()
	return fleettest.ExpectEventually(t, c, importOf(service), condition)
}

// usable is the condition of an import that has an address and is exported by these clusters.
func usable(clusters ...string) func(*multiclusterv1beta1.ServiceImport) error {
	return func(i *multiclusterv1beta1.ServiceImport) error {
		var exporting []string
		for _, c := range i.Status.Clusters {
			exporting = append(exporting, c.Cluster)
		}
		if !slices.Equal(exporting, clusters) {
			return fmt.Errorf("exported by %v, want %v", exporting, clusters)
		}
		if i.Spec.Type == multiclusterv1beta1.ClusterSetIP && len(i.Spec.IPs) == 0 {
			return fmt.Errorf("it has no address")
		}
		return fleettest.ConditionTrue(i.Status.Conditions, multiclusterv1beta1.ImportReady)
	}
}

// importedIn lists the slices of an import in a cluster, by the labels of the public API.
func importedIn(t *testing.T, c *fleettest.Cluster, service *corev1.Service) []discoveryv1.EndpointSlice {
	t.Helper()
	var list discoveryv1.EndpointSliceList
	if err := c.List(t.Context(), &list, client.InNamespace(service.Namespace), client.MatchingLabels{multiclusterv1beta1.ServiceNameLabel: service.Name}); err != nil {
		t.Fatalf("listing slices in %s: %v", c.Name, err)
	}
	return list.Items
}

func expectImportedEndpoints(t *testing.T, c *fleettest.Cluster, service *corev1.Service, want []string) {
	t.Helper()
	fleettest.ExpectListed(t, c, &discoveryv1.EndpointSliceList{}, service.Namespace, func(*discoveryv1.EndpointSliceList) error {
		return has(want)(importedIn(t, c, service))
	})
}

// TestExportIsImportedEverywhere: a Service that two of three clusters export is imported in all of them and on the control
// plane, with the endpoints of both, and goes with the last export.
func TestExportIsImportedEverywhere(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	expectDefined(t, fleet, ns)
	m1, m2 := fleet.Member("member1"), fleet.Member("member2")
	_, service := app(t, fleet, ns, fleettest.Weight{Cluster: "member1", Weight: 2}, fleettest.Weight{Cluster: "member2", Weight: 1})
	service.ResourceVersion, service.UID, service.Spec.ClusterIP, service.Spec.ClusterIPs = "", "", "", nil
	service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	service.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(600))}}
	first := exportIn(t, m1, service, func(_ *corev1.Service, e *multiclusterv1beta1.ServiceExport) {
		e.Spec.ExportedLabels, e.Spec.ExportedAnnotations = map[string]string{"team": "shop"}, map[string]string{"note": "kept"}
	})
	one := ownAddresses(t, m1, service, 2)
	for _, c := range fleet.Members {
		got := expectImport(t, c, service, usable("member1"))
		checkImport(t, c, got, service)
		expectImportedEndpoints(t, c, service, one)
		for _, slice := range importedIn(t, c, service) {
			checkImportedSlice(t, c, &slice)
		}
	}
	onHub := expectImport(t, fleet.Hub, service, func(i *multiclusterv1beta1.ServiceImport) error {
		if len(i.Status.Clusters) != 1 {
			return fmt.Errorf("exported by %v", i.Status.Clusters)
		}
		return nil
	})
	if onHub.Labels["team"] != "shop" || len(onHub.Spec.IPs) > 0 {
		t.Errorf("on the control plane it has labels %v and addresses %v; want those of the export, and none", onHub.Labels, onHub.Spec.IPs)
	}
	expectEvent(t, fleet.Hub, ns, multiclusterv1beta1.KindServiceImport, events.SyncDerivedServiceSucceed)
	fleettest.ExpectEventually(t, fleet.Hub, derived(service), func(s *corev1.Service) error { return equalPorts(s, service) })
	expectImportedEndpoints(t, fleet.Hub, service, one)
	for _, slice := range importedIn(t, fleet.Hub, service) {
		checkImportedSlice(t, fleet.Hub, &slice)
	}
	// Dependencies of the import bring nothing a second time.
	fleettest.Create(t, fleet.Hub, everythingByPolicy(ns))
	for kind, reason := range map[string]string{multiclusterv1beta1.ExportValid: "Valid", multiclusterv1beta1.ExportReady: "Exported"} {
		fleettest.ExpectEventually(t, m1, first, exportCondition(kind, metav1.ConditionTrue, reason))
	}
	fleettest.ExpectEventually(t, m1, first, exportCondition(multiclusterv1beta1.ExportConflict, metav1.ConditionFalse, "NoConflicts"))

	second := exportIn(t, m2, service, func(_ *corev1.Service, e *multiclusterv1beta1.ServiceExport) {
		e.Spec = multiclusterv1beta1.ServiceExportSpec{ExportedLabels: map[string]string{"team": "shop"}, ExportedAnnotations: map[string]string{"note": "kept"}}
	})
	two := ownAddresses(t, m2, service, 1)
	for _, c := range fleet.Members {
		expectImport(t, c, service, usable("member1", "member2"))
		expectImportedEndpoints(t, c, service, together(one, two))
	}
	expectImportedEndpoints(t, fleet.Hub, service, together(one, two))
	edited := importedIn(t, fleet.Hub, service)[0]
	fleettest.Update(t, fleet.Hub, &edited, func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil })
	expectImportedEndpoints(t, fleet.Hub, service, together(one, two))
	fleettest.ExpectEventually(t, m2, second, exportCondition(multiclusterv1beta1.ExportConflict, metav1.ConditionFalse, "NoConflicts"))

	fleettest.Delete(t, m1, first)
	for _, c := range fleet.Members {
		expectImport(t, c, service, usable("member2"))
		expectImportedEndpoints(t, c, service, two)
	}
	fleettest.Delete(t, m2, second)
	for _, c := range append([]*fleettest.Cluster{fleet.Hub}, fleet.Members...) {
		fleettest.ExpectGone(t, c, importOf(service))
	}
	for _, c := range append([]*fleettest.Cluster{fleet.Hub}, fleet.Members...) {
		expectImportedEndpoints(t, c, service, nil)
		fleettest.ExpectGone(t, c, derived(service))
	}
	var bindings workv1alpha2.ResourceBindingList
	if err := fleet.Hub.List(t.Context(), &bindings, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings.Items {
		if b.Spec.Resource.Kind == "EndpointSlice" || b.Spec.Resource.Name == derived(service).Name {
			t.Errorf("there is a binding of %s %s", b.Spec.Resource.Kind, b.Spec.Resource.Name)
		}
	}
}

// everythingByPolicy propagates, with dependencies, imports and what the control plane has of them.
func everythingByPolicy(ns string) *policyv1alpha1.PropagationPolicy {
	policy := fleettest.Policy(ns, "imports", fleettest.To("member3"))
	policy.Spec.PropagateDeps = true
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{
		{APIVersion: "v1", Kind: "Service", Name: "derived-web"}, {APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
	}
	return policy
}

func equalPorts(got, want *corev1.Service) error {
	if len(got.Spec.Ports) != len(want.Spec.Ports) || got.Spec.Ports[0].Port != want.Spec.Ports[0].Port {
		return fmt.Errorf("ports are %v, want %v", got.Spec.Ports, want.Spec.Ports)
	}
	return nil
}

func derived(service *corev1.Service) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: networkingv1alpha1.DerivedServiceName(service.Name)}}
}

// checkImport compares an import in a member with what is exported, and its address with that of the derived Service.
func checkImport(t *testing.T, c *fleettest.Cluster, got *multiclusterv1beta1.ServiceImport, service *corev1.Service) {
	t.Helper()
	spec := got.Spec
	if spec.Type != multiclusterv1beta1.ClusterSetIP || spec.SessionAffinity != corev1.ServiceAffinityClientIP || *spec.SessionAffinityConfig.ClientIP.TimeoutSeconds != 600 {
		t.Errorf("in %s it is %+v; want what was exported", c.Name, spec)
	}
	if len(spec.Ports) != 1 || spec.Ports[0].Port != service.Spec.Ports[0].Port || spec.Ports[0].Name != service.Spec.Ports[0].Name || spec.Ports[0].Protocol != corev1.ProtocolTCP {
		t.Errorf("in %s the ports are %+v, want those of the Service", c.Name, spec.Ports)
	}
	if got.Labels["team"] != "shop" || got.Annotations["note"] != "kept" || got.Labels["app"] != "" {
		t.Errorf("in %s it has labels %v and annotations %v; want those of the export, and none of the Service", c.Name, got.Labels, got.Annotations)
	}
	behind := derived(service)
	if err := c.Get(t.Context(), keyOf(behind), behind); err != nil {
		t.Fatalf("reading the derived Service in %s: %v", c.Name, err)
	}
	if _, err := netip.ParseAddr(spec.IPs[0]); err != nil || !slices.Equal(spec.IPs, behind.Spec.ClusterIPs) {
		t.Errorf("in %s its addresses are %v, want those of the derived Service, %v", c.Name, spec.IPs, behind.Spec.ClusterIPs)
	}
	if behind.Spec.SessionAffinity != corev1.ServiceAffinityClientIP || len(behind.Spec.Selector) > 0 || behind.Spec.Ports[0].Port != service.Spec.Ports[0].Port {
		t.Errorf("in %s the derived Service is %+v", c.Name, behind.Spec)
	}
}

func checkImportedSlice(t *testing.T, c *fleettest.Cluster, slice *discoveryv1.EndpointSlice) {
	t.Helper()
	for key, want := range map[string]string{
		multiclusterv1beta1.SourceClusterLabel: "member1",
		discoveryv1.LabelServiceName:           networkingv1alpha1.DerivedServiceName("web"),
		discoveryv1.LabelManagedBy:             networkingv1alpha1.EndpointSliceControllerLabelValue,
	} {
		if slice.Labels[key] != want {
			t.Errorf("slice %s in %s has the label %s=%s, want %s", slice.Name, c.Name, key, slice.Labels[key], want)
		}
	}
	if !strings.HasPrefix(slice.Name, "imported-member1-") {
		t.Errorf("the slice in %s is called %s", c.Name, slice.Name)
	}
	for _, e := range slice.Endpoints {
		if e.TargetRef != nil || (e.NodeName != nil) != (c.Name == "member1") {
			t.Errorf("endpoint %v in %s has node %v and pod %v", e.Addresses, c.Name, e.NodeName, e.TargetRef)
		}
	}
}

// TestExportConflicts: the oldest export wins, and every export says so; when the clusters agree again, that too.
func TestExportConflicts(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	expectDefined(t, fleet, ns)
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	service := fleettest.Service(ns, "web")
	// Those made in one second are ordered by the names of their clusters; these two are.
	first := exportIn(t, m1, service)
	expectImport(t, m3, service, usable("member1"))
	second := exportIn(t, m2, service, func(s *corev1.Service, _ *multiclusterv1beta1.ServiceExport) {
		s.Spec.ClusterIP = corev1.ClusterIPNone
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "stream", Port: 142, Protocol: corev1.ProtocolSCTP})
	})
	for c, e := range map[*fleettest.Cluster]*multiclusterv1beta1.ServiceExport{m1: first, m2: second} {
		fleettest.ExpectEventually(t, c, e, exportCondition(multiclusterv1beta1.ExportConflict, metav1.ConditionTrue, "TypeConflict,PortConflict"))
	}
	for _, c := range fleet.Members {
		expectImport(t, c, service, func(i *multiclusterv1beta1.ServiceImport) error {
			if i.Spec.Type != multiclusterv1beta1.ClusterSetIP || len(i.Spec.Ports) != 2 || i.Spec.Ports[1].Name != "stream" {
				return fmt.Errorf("it is %+v; want the type of the oldest and all ports", i.Spec)
			}
			return usable("member1", "member2")(i)
		})
	}

	// Without the oldest the other decides, and there is no conflict.
	fleettest.Delete(t, m1, first)
	for _, c := range fleet.Members {
		expectImport(t, c, service, func(i *multiclusterv1beta1.ServiceImport) error {
			if i.Spec.Type != multiclusterv1beta1.Headless || len(i.Spec.IPs) > 0 {
				return fmt.Errorf("it is %s with addresses %v; want a headless one", i.Spec.Type, i.Spec.IPs)
			}
			return usable("member2")(i)
		})
		fleettest.ExpectEventually(t, c, derived(service), func(s *corev1.Service) error {
			if s.Spec.ClusterIP != corev1.ClusterIPNone {
				return fmt.Errorf("its address is %s", s.Spec.ClusterIP)
			}
			return nil
		})
	}
	fleettest.ExpectEventually(t, m2, second, exportCondition(multiclusterv1beta1.ExportConflict, metav1.ConditionFalse, "NoConflicts"))
}

// TestExportMustBeValid: without a Service, or with one that has no endpoints by its nature, nothing is imported, and the
// export reports why; once there is one, it is.
func TestExportMustBeValid(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	expectDefined(t, fleet, ns)
	m1, m2 := fleet.Member("member1"), fleet.Member("member2")
	service := fleettest.Service(ns, "web")
	e := export(service)
	fleettest.Create(t, m1, e)
	fleettest.ExpectEventually(t, m1, e, exportCondition(multiclusterv1beta1.ExportValid, metav1.ConditionFalse, "NoService"))
	fleettest.ExpectEventually(t, m1, e, exportCondition(multiclusterv1beta1.ExportReady, metav1.ConditionFalse, "Failed"))
	fleettest.ExpectAbsent(t, m2, importOf(service))

	local := service.DeepCopy()
	local.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	fleettest.Create(t, m1, local)
	fleettest.ExpectEventually(t, m1, e, exportCondition(multiclusterv1beta1.ExportValid, metav1.ConditionFalse, "InvalidServiceType"))
	fleettest.ExpectAbsent(t, m2, importOf(service))

	fleettest.Delete(t, m1, local)
	fleettest.Create(t, m1, service.DeepCopy())
	fleettest.ExpectEventually(t, m1, e, exportCondition(multiclusterv1beta1.ExportValid, metav1.ConditionTrue, "Valid"))
	expectImport(t, m2, service, usable("member1"))

	fleettest.Delete(t, m1, service)
	fleettest.ExpectEventually(t, m1, e, exportCondition(multiclusterv1beta1.ExportValid, metav1.ConditionFalse, "NoService"))
	fleettest.ExpectGone(t, m2, importOf(service))
}

// TestImportFollowsTheNamespace: a namespace that the control plane does not have decides by itself where a service is
// imported.
func TestImportFollowsTheNamespace(t *testing.T) {
	fleet := shared.Start(t)
	expectDefined(t, fleet, "default")
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	space := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	fleettest.Create(t, m1, space("members-only"))
	fleettest.Create(t, m2, space("members-only"))
	service := fleettest.Service("members-only", "web")
	exportIn(t, m1, service)
	expectImport(t, m1, service, usable("member1"))
	expectImport(t, m2, service, usable("member1"))
	fleettest.ExpectAbsent(t, m3, importOf(service))
	fleettest.ExpectAbsent(t, fleet.Hub, importOf(service))
	// The control plane has no connection to a member with an agent, which has the namespaces of the control plane.
	fleettest.Create(t, fleet.Hub, space("members-only"))
	expectImport(t, m3, service, usable("member1"))
	fleettest.Delete(t, m1, export(service))
	fleettest.ExpectGone(t, m3, importOf(service))

	fleettest.Create(t, m1, space("members-later"))
	later := fleettest.Service("members-later", "web")
	exportIn(t, m1, later)
	expectImport(t, m1, later, usable("member1"))
	fleettest.ExpectAbsent(t, m2, importOf(later))
	fleettest.Create(t, m2, space("members-later"))
	expectImport(t, m2, later, usable("member1"))
	fleettest.Delete(t, m1, export(later))
	fleettest.ExpectGone(t, m2, importOf(later))

	// An export in a member with an agent shows that the member has the namespace.
	fleettest.Create(t, m1, space("members-third"))
	fleettest.Create(t, m3, space("members-third"))
	third := fleettest.Service("members-third", "web")
	exportIn(t, m3, third)
	expectImport(t, m3, third, usable("member3"))
	expectImport(t, m1, third, usable("member3"))
	fleettest.ExpectEventually(t, m3, export(third), exportCondition(multiclusterv1beta1.ExportReady, metav1.ConditionTrue, "Exported"))
	fleettest.Delete(t, m3, export(third))
	fleettest.ExpectGone(t, m3, importOf(third))
	fleettest.ExpectGone(t, m1, importOf(third))
}

// TestAnImportThatAUserChangesIsTheirs: where an import that Karmada needs is applied although the exports have made one, as a user does who
// exports first, it is as that user wrote it, until it is deleted.
func TestAnImportThatAUserChangesIsTheirs(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	expectDefined(t, fleet, ns)
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	service := fleettest.Service(ns, "web")
	exportIn(t, m1, service)
	port := func(want int32) func(*multiclusterv1beta1.ServiceImport) error {
		return func(i *multiclusterv1beta1.ServiceImport) error {
			if len(i.Spec.Ports) != 1 || i.Spec.Ports[0].Port != want {
				return fmt.Errorf("the ports are %+v, want %d", i.Spec.Ports, want)
			}
			return nil
		}
	}
	exported := service.Spec.Ports[0].Port
	expectImport(t, fleet.Hub, service, port(exported))

	theirs := &multiclusterv1alpha1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	fleettest.Update(t, fleet.Hub, theirs, func(i *multiclusterv1alpha1.ServiceImport) {
		i.Spec.Ports = []multiclusterv1beta1.ServicePort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}}
	})
	policy := fleettest.Policy(ns, "imports", fleettest.To("member3"))
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: multiclusterv1alpha1.GroupVersion.String(), Kind: "ServiceImport", Name: "web"}}
	fleettest.Create(t, fleet.Hub, policy)
	expectImport(t, m3, service, port(8080))
	expectImport(t, fleet.Hub, service, func(i *multiclusterv1beta1.ServiceImport) error {
		if _, made := i.Labels[multiclusterv1beta1.MadeFromExportsLabel]; made {
			return fmt.Errorf("it has the label of those that are made from exports")
		}
		return port(8080)(i)
	})
	expectImport(t, m2, service, port(exported)) // No policy takes the user's import there.

	// What is exported later does not change it.
	exportIn(t, m2, service)
	expectImport(t, m3, service, usable("member1", "member2"))
	expectImport(t, fleet.Hub, service, port(8080))

	fleettest.Delete(t, fleet.Hub, theirs)
	expectImport(t, fleet.Hub, service, port(exported))
	expectImport(t, m3, service, port(exported))

	// Who creates the import after the export has it, though an import of the name is there.
	created := &multiclusterv1alpha1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	created.Spec.Type = multiclusterv1beta1.ClusterSetIP
	created.Spec.Ports = []multiclusterv1beta1.ServicePort{{Name: "http", Port: 8081, Protocol: corev1.ProtocolTCP}}
	fleettest.Create(t, fleet.Hub, created)
	expectImport(t, m3, service, port(8081))
	expectImport(t, fleet.Hub, service, port(8081))
	again := &multiclusterv1alpha1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: created.Spec}
	if err := fleet.Hub.Create(t.Context(), again); !apierrors.IsAlreadyExists(err) {
		t.Errorf("another import of the name is created: %v", err)
	}
}

// TestImportByPolicy: an export and an import that a user makes on the control plane go where policies take them, in either
// version, and the import brings what is needed to use it.
func TestImportByPolicy(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	expectDefined(t, fleet, ns)
	m1, m3 := fleet.Member("member1"), fleet.Member("member3")
	_, service := app(t, fleet, ns, fleettest.Weight{Cluster: "member1", Weight: 2})
	exported := &multiclusterv1alpha1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	imported := &multiclusterv1alpha1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	imported.Spec.Type = multiclusterv1beta1.ClusterSetIP
	imported.Spec.Ports = []multiclusterv1beta1.ServicePort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}}
	exports, imports := fleettest.Policy(ns, "exports", fleettest.To("member1"), service), fleettest.Policy(ns, "imports", fleettest.To("member3"))
	old := multiclusterv1alpha1.GroupVersion.String()
	exports.Spec.ResourceSelectors = append(exports.Spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: old, Kind: "ServiceExport", Name: "web"})
	imports.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: old, Kind: "ServiceImport", Name: "web"}}
	imports.Spec.PropagateDeps = true
	fleettest.Create(t, fleet.Hub, imported, exported, exports, imports)

	one := ownAddresses(t, m1, service, 2)
	expectImportedEndpoints(t, m3, service, one)
	// What is exported may arrive before what the user wrote.
	expectImport(t, m3, service, func(i *multiclusterv1beta1.ServiceImport) error {
		if len(i.Spec.Ports) != 1 || i.Spec.Ports[0].Port != 8080 {
			return fmt.Errorf("the ports are %+v, want those that the user wrote", i.Spec.Ports)
		}
		return usable("member1")(i)
	})
	for _, c := range []*fleettest.Cluster{m3, fleet.Hub} {
		fleettest.ExpectEventually(t, c, derived(service), func(s *corev1.Service) error {
			if s.Spec.Ports[0].Port != 8080 {
				return fmt.Errorf("the derived Service has the ports %v, want those that the user wrote", s.Spec.Ports)
			}
			return nil
		})
	}
	expectImportedEndpoints(t, fleet.Hub, service, one)
	expectEvent(t, fleet.Hub, ns, multiclusterv1beta1.KindServiceImport, events.SyncDerivedServiceSucceed)
	expectImport(t, fleet.Member("member2"), service, func(i *multiclusterv1beta1.ServiceImport) error {
		if i.Spec.Ports[0].Port != service.Spec.Ports[0].Port {
			return fmt.Errorf("where no policy takes the user's import the ports are %+v, want those exported", i.Spec.Ports)
		}
		return usable("member1")(i)
	})
	// Endpoints follow what the user makes of the import.
	fleettest.Update(t, fleet.Hub, imported, func(i *multiclusterv1alpha1.ServiceImport) { i.Spec.Type = multiclusterv1beta1.Headless })
	fleettest.ExpectListed(t, m3, &discoveryv1.EndpointSliceList{}, ns, func(*discoveryv1.EndpointSliceList) error {
		for _, slice := range importedIn(t, m3, service) {
			if _, headless := slice.Labels[corev1.IsHeadlessService]; !headless {
				return fmt.Errorf("slice %s is for proxies, too: %v", slice.Name, slice.Labels)
			}
		}
		return nil
	})
	fleettest.Delete(t, fleet.Hub, exported)
	expectImportedEndpoints(t, m3, service, nil)
	fleettest.ExpectGone(t, fleet.Member("member2"), importOf(service))
}

// TestTheExportExample: the commands in docs/services.md.
func TestTheExportExample(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	expectDefined(t, fleet, ns)
	createExample(t, fleet.Hub, ns, "app.yaml")
	echo := fleettest.Service(ns, "echo")
	echo.Spec.Selector = map[string]string{"app": "echo"}
	fleettest.Create(t, fleet.Hub, echo)
	createExample(t, fleet.Hub, ns, "export.yaml")
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	one, two := ownAddresses(t, m1, echo, 3), ownAddresses(t, m2, echo, 2)
	expectImport(t, m3, echo, usable("member1", "member2"))
	expectImportedEndpoints(t, m3, echo, together(one, two))
	for kind, reason := range map[string]string{multiclusterv1beta1.ExportValid: "Valid", multiclusterv1beta1.ExportReady: "Exported"} {
		fleettest.ExpectEventually(t, fleet.Hub, export(echo), exportCondition(kind, metav1.ConditionTrue, reason))
	}
}
