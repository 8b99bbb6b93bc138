package services_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// exports is how many Services are exported before the restarts.
	exports = 8
	// probesAfter is how many follow after each.
	probesAfter = 2
)

// restarted is a fleet whose exports are all in place, and a namespace for probes that come and stay.
type restarted struct {
	t          *testing.T
	fleet      *fleettest.Fleet
	ns, probes string
	count      int
}

// TestRestartWritesNothingAboutExports: a control plane that finds everything about exports in place writes nothing about
// it, neither to itself nor to members.
func TestRestartWritesNothingAboutExports(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a fleet of its own")
	}
	apart := fleettest.StartApart(t, 3)
	fleet := apart.Fleet
	r := &restarted{t: t, fleet: fleet, ns: fleet.Namespace(t), probes: fleet.Namespace(t)}
	expectDefined(t, fleet, r.ns)
	expectDefined(t, fleet, r.probes)
	r.export(exports)
	before := r.stable()
	for range 2 {
		apart.Server.Stop(t)
		written := r.writes()
		apart.Server.Start(t)
		for range probesAfter {
			r.probe()
		}
		after := r.versions()
		for name, version := range before {
			if after[name] != version {
				t.Errorf("%s was written: it was at version %s, it is at %q", name, version, after[name])
			}
		}
		for name := range after {
			if before[name] == "" {
				t.Errorf("%s was made", name)
			}
		}
		r.expectFewWrites(written)
	}
}

// export makes Services in two members, each with a slice and its export, and imports of some by hand.
func (r *restarted) export(services int) {
	m1, m2, m3 := r.fleet.Members[0], r.fleet.Members[1], r.fleet.Members[2]
	for i := range services {
		service := fleettest.Service(r.ns, fmt.Sprintf("web-%d", i))
		if i == services-1 { // one that a user imports in his own way
			custom := importOf(service)
			custom.Spec.Type = multiclusterv1beta1.ClusterSetIP
			custom.Spec.Ports = []multiclusterv1beta1.ServicePort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}}
			policy := fleettest.Policy(r.ns, "imports", fleettest.To(m3.Name))
			policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{
				APIVersion: multiclusterv1beta1.GroupVersion.String(), Kind: multiclusterv1beta1.KindServiceImport, Name: service.Name,
			}}
			fleettest.Create(r.t, r.fleet.Hub, custom, policy)
		}
		for _, c := range []*fleettest.Cluster{m1, m2} {
			exportIn(r.t, c, service, func(s *corev1.Service, _ *multiclusterv1beta1.ServiceExport) {
				s.Spec.Selector = nil
				if i == 0 {
					s.Spec.ClusterIP = corev1.ClusterIPNone
				}
			})
			fleettest.Create(r.t, c, handmade(service, service.Name, discoveryv1.AddressTypeIPv4, "192.0.2.1"))
		}
		for _, c := range r.fleet.Members {
			expectImport(r.t, c, service, usable(m1.Name, m2.Name))
		}
	}
}

// probe exports one more Service from every member and waits until all that comes of it is done: every loop of every member
// has then been through what it had to do before.
func (r *restarted) probe() {
	r.t.Helper()
	r.count++
	service := fleettest.Service(r.probes, fmt.Sprintf("probe-%d", r.count))
	var names, addresses []string
	for i, c := range r.fleet.Members {
		address := fmt.Sprintf("198.51.100.%d", i+1)
		exportIn(r.t, c, service, func(s *corev1.Service, _ *multiclusterv1beta1.ServiceExport) { s.Spec.Selector = nil })
		fleettest.Create(r.t, c, handmade(service, service.Name, discoveryv1.AddressTypeIPv4, address))
		names, addresses = append(names, c.Name), append(addresses, address)
	}
	for _, c := range r.fleet.Members {
		expectImport(r.t, c, service, usable(names...))
		expectImportedEndpoints(r.t, c, service, addresses)
		for kind, status := range map[string]metav1.ConditionStatus{
			multiclusterv1beta1.ExportValid: isTrue, multiclusterv1beta1.ExportReady: isTrue, multiclusterv1beta1.ExportConflict: isFalse,
		} {
			fleettest.ExpectEventually(r.t, c, export(service), func(e *multiclusterv1beta1.ServiceExport) error {
				if !meta.IsStatusConditionPresentAndEqual(e.Status.Conditions, kind, status) {
					return fmt.Errorf("conditions are %+v", e.Status.Conditions)
				}
				return nil
			})
		}
	}
	fleettest.ExpectListed(r.t, r.fleet.Hub, &workv1alpha1.WorkList{}, "", func(list *workv1alpha1.WorkList) error {
		for _, w := range list.Items {
			suspended := w.Spec.SuspendDispatching != nil && *w.Spec.SuspendDispatching
			if !suspended && (!meta.IsStatusConditionTrue(w.Status.Conditions, workv1alpha1.WorkApplied) || len(w.Status.ManifestStatuses) == 0) {
				return fmt.Errorf("Work %s/%s is not done: %+v", w.Namespace, w.Name, w.Status)
			}
		}
		return nil
	})
}

// stable returns what is stored once probes, which pass through all loops, change nothing any more.
func (r *restarted) stable() map[string]string {
	r.t.Helper()
	const probes = 10
	before := r.versions()
	for range probes {
		r.probe()
		after := r.versions()
		if maps.Equal(before, after) {
			return after
		}
		before = after
	}
	r.t.Fatalf("after %d probes there are still writes for exports that do not change", probes)
	return nil
}

// versions are the resource versions of everything about the exports of the namespace, the definitions included.
func (r *restarted) versions() map[string]string {
	r.t.Helper()
	found := map[string]string{}
	add := func(c *fleettest.Cluster, list client.ObjectList, belongs func(client.Object) bool, options ...client.ListOption) {
		if err := c.List(r.t.Context(), list, options...); err != nil {
			r.t.Fatalf("listing in %s: %v", c.Name, err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, o := range objects {
			if m := o.(client.Object); belongs(m) {
				found[fmt.Sprintf("%T %s/%s in %s", m, m.GetNamespace(), m.GetName(), c.Name)] = m.GetResourceVersion()
			}
		}
	}
	all := func(client.Object) bool { return true }
	for _, c := range append([]*fleettest.Cluster{r.fleet.Hub}, r.fleet.Members...) {
		for _, list := range []client.ObjectList{
			&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}, &multiclusterv1beta1.ServiceExportList{}, &multiclusterv1beta1.ServiceImportList{},
		} {
			add(c, list, all, client.InNamespace(r.ns))
		}
	}
	add(r.fleet.Hub, &workv1alpha1.WorkList{}, func(o client.Object) bool {
		return o.GetLabels()[multiclusterv1beta1.ExportNamespaceLabel] != r.probes
	})
	return found
}

// writes are how many writes a member has had since it started, by member. Each write of a status changes a version, which is compared.
func (r *restarted) writes() map[string]fleettest.Requests {
	r.t.Helper()
	found := map[string]fleettest.Requests{}
	for _, c := range r.fleet.Members {
		written := fleettest.CountRequests(r.t, c).Of("services", "endpointslices", "serviceimports", "serviceexports", "namespaces", "customresourcedefinitions").Writes().Accepted()
		maps.DeleteFunc(written, func(q fleettest.Request, _ int) bool { return strings.HasSuffix(q.Resource, "/status") })
		found[c.Name] = written
	}
	return found
}

// expectFewWrites: since the control plane started members received the requests that the probes need, and none for every other Service.
// Requests that only read an object count, too.
func (r *restarted) expectFewWrites(before map[string]fleettest.Requests) {
	r.t.Helper()
	// The test makes a Service, a slice and an export; the control plane a derived Service, three slices and an import, to
	// which it writes the address.
	const perProbe = 3 + 1 + 3 + 2
	for name, written := range r.writes() {
		written = written.Since(before[name])
		if limit := probesAfter*perProbe + exports - 1; written.Total() > limit {
			r.t.Errorf("%s was written to %d times, the probes need %d:\n%s", name, written.Total(), probesAfter*perProbe, written)
		}
	}
}
