package services_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// grace is how long the control plane of TestApart waits for a provider, at last.
const grace = 5 * time.Second

// apart is a control plane and two dual-stack members, each in a process of its own.
type apart struct {
	t               *testing.T
	hub, east, west *fleettest.Part
}

// TestApart is about what needs processes that end one by one; the subtests share them. It takes two minutes beside other tests, in which its
// processes end and start one by one.
func TestApart(t *testing.T) {
	a := apart{
		t:    t,
		hub:  fleettest.StartHub(t, "--cluster-probe-period=1s", "--cluster-success-threshold=1s"),
		east: fleettest.StartMember(t, "east", "--nodes=1", "--pod-cidr=10.70.0.0/16", "--service-cidr=10.140.0.0/16,fd00:140::/112"),
		west: fleettest.StartMember(t, "west", "--bare", "--service-cidr=10.141.0.0/16,fd00:141::/112"),
	}
	a.hub.Join(t, "east", a.east.Kubeconfig)
	a.hub.Join(t, "west", a.west.Kubeconfig)
	t.Run("the price of a change", a.price)
	t.Run("watches end", a.watches)
	t.Run("families", a.families)
	t.Run("a restart writes nothing", a.restart)
	t.Run("members change meanwhile", a.meanwhile)
	// Only now, since it would also end requests to a member that is slow for seconds, and write that.
	a.hub.Kill()
	a.hub.Start(t, "--service-grace="+grace.String(), "--cluster-failure-threshold=4s")
	t.Run("a provider is away", a.providerAway)
	t.Run("a consumer is away", a.consumerAway)
}

// space is a namespace for one subtest. It stays until the end of all, since its end would be counted among the writes of
// others.
func (a apart) space(t *testing.T, name string) string {
	t.Helper()
	fleettest.Create(a.t, a.hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return name
}

// outside shares a Service without a selector from east to west, and waits until east has it.
func (a apart) outside(t *testing.T, ns, name string) (*corev1.Service, *networkingv1alpha1.MultiClusterService) {
	t.Helper()
	service := fleettest.Service(ns, name)
	service.Spec.Selector = nil
	mcs := crossCluster(ns, name, []string{"east"}, []string{"west"})
	fleettest.Create(t, a.hub.Cluster, service, mcs)
	fleettest.ExpectEventually(t, a.east.Cluster, service, fleettest.Exists)
	return service, mcs
}

// families: a Service of IPv6 alone, and those that prefer or require two families, have in members what they ask for, and
// their endpoints travel in it.
func (a apart) families(t *testing.T) {
	ns := a.space(t, "families")
	deployment := fleettest.Deployment(ns, "web", 1)
	objects := []client.Object{deployment, fleettest.Policy(ns, "web", fleettest.To("east"), deployment)}
	v4, v6 := corev1.IPv4Protocol, corev1.IPv6Protocol
	both := []corev1.IPFamily{v4, v6}
	cases := map[string]struct {
		spec corev1.ServiceSpec
		want []corev1.IPFamily
	}{
		"as-it-comes": {want: []corev1.IPFamily{v4}},
		"six":         {corev1.ServiceSpec{IPFamilies: []corev1.IPFamily{v6}}, []corev1.IPFamily{v6}},
		"prefers":     {corev1.ServiceSpec{IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack)}, both},
		"requires":    {corev1.ServiceSpec{IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack)}, both},
		"six-first":   {corev1.ServiceSpec{IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack), IPFamilies: []corev1.IPFamily{v6, v4}}, []corev1.IPFamily{v6, v4}},
		"headless":    {corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack)}, both},
	}
	services := map[string]*corev1.Service{}
	for name, tc := range cases {
		service := fleettest.Service(ns, name)
		service.Spec.Selector = deployment.Spec.Selector.MatchLabels
		service.Spec.IPFamilyPolicy, service.Spec.IPFamilies, service.Spec.ClusterIP = tc.spec.IPFamilyPolicy, tc.spec.IPFamilies, tc.spec.ClusterIP
		services[name] = service
		objects = append(objects, service, crossCluster(ns, name, []string{"east"}, []string{"west"}))
	}
	fleettest.Create(t, a.hub.Cluster, objects...)
	four := ownAddresses(t, a.east.Cluster, services["as-it-comes"], 1)[0]
	var pods corev1.PodList
	if err := a.east.List(t.Context(), &pods, client.InNamespace(ns)); err != nil || len(pods.Items) != 1 {
		t.Fatalf("there are %d pods: %v", len(pods.Items), err)
	}
	const six = "2001:db8::7"
	patchStatus(t, a.east.Cluster, &pods.Items[0], fmt.Sprintf(`{"status":{"podIPs":[{"ip":%q},{"ip":%q}]}}`, four, six))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			expectImported(t, a.west.Cluster, services[name], typed(map[corev1.IPFamily]string{v4: four, v6: six}, tc.want))
			for _, m := range []*fleettest.Part{a.east, a.west} {
				fleettest.ExpectEventually(t, m.Cluster, services[name], func(s *corev1.Service) error {
					if !slices.Equal(s.Spec.IPFamilies, tc.want) || s.Spec.ClusterIP != corev1.ClusterIPNone && len(s.Spec.ClusterIPs) != len(tc.want) {
						return fmt.Errorf("addresses are %v of %v, want those of %v", s.Spec.ClusterIPs, s.Spec.IPFamilies, tc.want)
					}
					return nil
				})
			}
		})
	}
}

// typed is the condition of slices that have the address of each of these families, in slices of its type, and nothing else.
func typed(addressOf map[corev1.IPFamily]string, families []corev1.IPFamily) func([]discoveryv1.EndpointSlice) error {
	var want []string
	for _, family := range families {
		want = append(want, string(family)+" "+addressOf[family])
	}
	slices.Sort(want)
	return func(list []discoveryv1.EndpointSlice) error {
		var got []string
		for _, s := range list {
			for _, address := range addresses([]discoveryv1.EndpointSlice{s}) {
				got = append(got, string(s.AddressType)+" "+address)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("endpoints are %v, want %v", got, want)
		}
		return nil
	}
}

// marked is the condition of slices that have exactly these addresses, none of which is ready or serves.
func marked(want ...string) func([]discoveryv1.EndpointSlice) error {
	return func(list []discoveryv1.EndpointSlice) error {
		var got []string
		for _, s := range list {
			for _, e := range s.Endpoints {
				c := e.Conditions
				if c.Ready == nil || *c.Ready || c.Serving == nil || *c.Serving {
					return fmt.Errorf("%v counts", e.Addresses)
				}
				got = append(got, e.Addresses...)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("addresses are %v, want %v", got, want)
		}
		return nil
	}
}

// providerAway: endpoints of a provider or exporting member that is away count for the grace, then they are marked as not
// ready, not removed, whatever becomes of the control plane meanwhile; they count again when it is back, and follow it.
func (a apart) providerAway(t *testing.T) {
	ns := a.exportSpace(t, "away")
	service, mcs := a.outside(t, ns, "outside")
	offered, export := a.exported(t, ns, "offered")
	slice := handmade(service, "a", discoveryv1.AddressTypeIPv4, "192.0.2.1")
	fleettest.Create(t, a.east.Cluster, slice)
	expectImported(t, a.west.Cluster, service, has([]string{"192.0.2.1"}))
	fleettest.ExpectEventually(t, a.hub.Cluster, mcs, conditionIs(exchanged, isTrue, ""))

	a.east.Pause(t)
	expectImported(t, a.west.Cluster, service, marked("192.0.2.1"))
	fleettest.ExpectListed(t, a.west.Cluster, &discoveryv1.EndpointSliceList{}, ns, func(*discoveryv1.EndpointSliceList) error {
		return marked("192.0.2.1")(importedIn(t, a.west.Cluster, offered))
	})
	east := fleettest.ExpectEventually(t, a.hub.Cluster, clusterNamed("east"), fleettest.Exists)
	ready := meta.FindStatusCondition(east.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue || time.Since(ready.LastTransitionTime.Time) < grace {
		t.Errorf("endpoints do not count any more, but the cluster is %+v, and the grace is %s", ready, grace)
	}
	fleettest.ExpectEventually(t, a.hub.Cluster, mcs, conditionIs(exchanged, isFalse, "cluster east has not been ready for more than 5s: its endpoints are marked as not ready"))
	expectEvent(t, a.hub.Cluster, ns, networkingv1alpha1.KindMultiClusterService, events.DispatchEndpointSliceFailed)

	a.hub.Kill()
	a.hub.Start(t)
	_, late := a.outsideLate(t, ns)
	fleettest.ExpectEventually(t, a.hub.Cluster, late, conditionIs(applied, isFalse, "cluster east: the Service is not there yet"))
	if imported, _ := slicesIn(t, a.west.Cluster, service); marked("192.0.2.1")(imported) != nil {
		t.Errorf("after a restart of the control plane: %v", marked("192.0.2.1")(imported))
	}

	a.east.Resume(t)
	expectImported(t, a.west.Cluster, service, has([]string{"192.0.2.1"}))
	expectImportedEndpoints(t, a.west.Cluster, offered, []string{"192.0.2.1"})
	fleettest.Delete(t, a.east.Cluster, export)
	expectImportedEndpoints(t, a.west.Cluster, offered, nil)
	for _, m := range []*fleettest.Part{a.east, a.west} {
		fleettest.ExpectGone(t, m.Cluster, importOf(offered))
		fleettest.ExpectGone(t, m.Cluster, derived(offered))
	}
	fleettest.ExpectEventually(t, a.hub.Cluster, mcs, conditionIs(exchanged, isTrue, ""))
	patch(t, a.east.Cluster, slice, `{"endpoints":[{"addresses":["192.0.2.2"]}]}`)
	expectImported(t, a.west.Cluster, service, has([]string{"192.0.2.2"}))

	a.east.Kill()
	expectImported(t, a.west.Cluster, service, marked("192.0.2.2"))
	a.east.Start(t)
	expectImported(t, a.west.Cluster, service, has([]string{"192.0.2.2"}))
}

// outsideLate shares a Service that a provider which is away cannot have yet.
func (a apart) outsideLate(t *testing.T, ns string) (*corev1.Service, *networkingv1alpha1.MultiClusterService) {
	t.Helper()
	service, mcs := fleettest.Service(ns, "late"), crossCluster(ns, "late", []string{"east"}, []string{"west"})
	fleettest.Create(t, a.hub.Cluster, service, mcs)
	return service, mcs
}

// consumerAway: what changes while a consumer is away arrives when it is back.
func (a apart) consumerAway(t *testing.T) {
	ns := a.space(t, "consumer")
	service, mcs := a.outside(t, ns, "outside")
	slice := handmade(service, "a", discoveryv1.AddressTypeIPv4, "192.0.2.1")
	fleettest.Create(t, a.east.Cluster, slice)
	expectImported(t, a.west.Cluster, service, has([]string{"192.0.2.1"}))
	a.west.Pause(t)
	patch(t, a.east.Cluster, slice, `{"endpoints":[{"addresses":["192.0.2.2"]}]}`)
	gone := handmade(service, "b", discoveryv1.AddressTypeIPv4, "192.0.2.3")
	fleettest.Create(t, a.east.Cluster, gone)
	fleettest.ExpectEventually(t, a.hub.Cluster, mcs, conditionIs(exchanged, isFalse, "cluster west has not been ready for more than 5s: what it has from others may be old"))
	fleettest.Delete(t, a.east.Cluster, gone)
	a.west.Resume(t)
	expectImported(t, a.west.Cluster, service, has([]string{"192.0.2.2"}))
	fleettest.ExpectEventually(t, a.hub.Cluster, mcs, conditionIs(exchanged, isTrue, ""))
}

// restart: a control plane that finds everything in place writes nothing about it, neither to itself nor to members.
func (a apart) restart(t *testing.T) {
	ns := a.space(t, "restart")
	const services = 8
	for i := range services {
		service, mcs := a.outside(t, ns, fmt.Sprintf("outside-%d", i))
		fleettest.Create(t, a.east.Cluster, handmade(service, service.Name, discoveryv1.AddressTypeIPv4, "192.0.2.1"))
		expectImported(t, a.west.Cluster, service, has([]string{"192.0.2.1"}))
		for _, condition := range []string{applied, exchanged} {
			fleettest.ExpectEventually(t, a.hub.Cluster, mcs, conditionIs(condition, isTrue, ""))
		}
	}
	probe, about := a.outside(t, ns, "probe")
	fleettest.ExpectEventually(t, a.hub.Cluster, about, conditionIs(applied, isTrue, ""))
	before, west, east := a.versions(t, ns), fleettest.CountRequests(t, a.west.Cluster), fleettest.CountRequests(t, a.east.Cluster)

	a.hub.Kill()
	a.hub.Start(t)
	// A new slice that arrives shows that every loop has been through its queue.
	fleettest.Create(t, a.east.Cluster, handmade(probe, "probe", discoveryv1.AddressTypeIPv4, "192.0.2.9"))
	expectImported(t, a.west.Cluster, probe, has([]string{"192.0.2.9"}))
	fleettest.ExpectEventually(t, a.hub.Cluster, about, func(m *networkingv1alpha1.MultiClusterService) error {
		return conditionIs(exchanged, isTrue, "of east are in west")(m)
	})
	after := a.versions(t, ns)
	for name, version := range before {
		if after[name] != version {
			t.Errorf("%s was written: it was at version %s, it is at %s", name, version, after[name])
		}
	}
	// A request for each of the Services would be as many, whether it changes something or not. A few more are those that were repeated
	// since their answer was lost.
	of := []string{"services", "endpointslices", "namespaces"}
	written := fleettest.CountRequests(t, a.west.Cluster).Since(west).Of(of...).Writes().Accepted()
	if written.Total() < 1 || written.Total() > services {
		t.Errorf("writes to the consumer, the probe needs one:\n%s", written)
	}
	// The test itself makes the slice of the probe.
	if written := fleettest.CountRequests(t, a.east.Cluster).Since(east).Of(of...).Writes().Accepted(); written.Total() > services {
		t.Errorf("writes to the provider, the test needs one:\n%s", written)
	}
	// The probe has a record and a Work, whose status is written once or twice, and a condition that turns.
	onHub := fleettest.CountRequests(t, a.hub.Cluster).Of("works", "resourcebindings", "multiclusterservices", "services").Writes().Accepted()
	if limit := 4 + services - 1; onHub.Total() > limit {
		t.Errorf("the control plane wrote %d times, the probe needs at most 6:\n%s", onHub.Total(), onHub)
	}
}

// versions are the resource versions of everything about the Services of a namespace on the control plane, but for the probe.
func (a apart) versions(t *testing.T, ns string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for what, list := range map[string]client.ObjectList{
		"Service": &corev1.ServiceList{}, "MultiClusterService": &networkingv1alpha1.MultiClusterServiceList{},
		"ResourceBinding": &workv1alpha2.ResourceBindingList{}, "Work": &workv1alpha1.WorkList{},
	} {
		if err := a.hub.List(t.Context(), list); err != nil {
			t.Fatalf("listing: %v", err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			m := o.(client.Object)
			probe := m.GetName() == "probe" || m.GetName() == "probe-service" || m.GetLabels()[networkingv1alpha1.MultiClusterServiceNameLabel] == "probe"
			if !probe && (m.GetNamespace() == ns || what == "Work" && m.GetLabels()[networkingv1alpha1.MultiClusterServiceNamespaceLabel] == ns) {
				found[what+" "+m.GetNamespace()+"/"+m.GetName()] = m.GetResourceVersion()
			}
		}
	}
	return found
}
