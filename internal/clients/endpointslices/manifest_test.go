package endpointslices

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// full is a slice with everything in it.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func full() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-x7k2p", ResourceVersion: "7", Generation: 3,
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
				corev1.IsHeadlessService: "", "karmada.io/managed": "true", "team": "a",
			},
			Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: "now"},
		},
		AddressType: discoveryv1.AddressTypeIPv6,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP), AppProtocol: new("h2c")}},
		Endpoints: []discoveryv1.Endpoint{
			{
				Addresses: []string{"2001:db8::1"}, Hostname: new("web-0"), NodeName: new("node-1"), Zone: new("z1"),
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: "web-0"},
				Hints:      &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z1"}}},
			},
			{Addresses: []string{"2001:db8::2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}},
		},
	}
}

func TestCollected(t *testing.T) {
	source := full()
	want := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-x7k2p", Labels: map[string]string{
			discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io", corev1.IsHeadlessService: "",
		}},
		AddressType: discoveryv1.AddressTypeIPv6, Ports: source.Ports,
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"2001:db8::1"}, Hostname: new("web-0"), Zone: new("z1"), Conditions: source.Endpoints[0].Conditions},
			{Addresses: []string{"2001:db8::2"}, Conditions: source.Endpoints[1].Conditions},
		},
	}
	if diff := cmp.Diff(want, Collected(source)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(full(), source); diff != "" {
		t.Errorf("the slice itself was changed:\n%s", diff)
	}
}

func TestSomeSlicesAreNotCollected(t *testing.T) {
	for reason, change := range map[string]func(*discoveryv1.EndpointSlice){
		"it came from another cluster":        func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = dispatchedManagers[0] },
		"it was made for an imported service": func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = dispatchedManagers[1] },
		"it belongs to no Service":            func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) },
	} {
		slice := full()
		change(slice)
		if Collected(slice) != nil {
			t.Errorf("%s, but it was collected", reason)
		}
	}
}

func TestDispatched(t *testing.T) {
	source := Collected(full())
	present, away := Dispatched(source, "member1-web-x7k2p", false), Dispatched(source, "member1-web-x7k2p", true)
	if present.Name != "member1-web-x7k2p" || present.Labels[discoveryv1.LabelManagedBy] != "endpointslice-dispatch-controller.karmada.io" ||
		present.Labels[discoveryv1.LabelServiceName] != "web" {
		t.Errorf("it is called %s and labelled %v", present.Name, present.Labels)
	}
	if diff := cmp.Diff(source.Endpoints, present.Endpoints); diff != "" {
		t.Errorf("endpoints differ while the provider is there:\n%s", diff)
	}
	for i, e := range away.Endpoints {
		if *e.Conditions.Ready || *e.Conditions.Serving {
			t.Errorf("endpoint %d is ready although its provider is away", i)
		}
		if !slices.Equal(e.Addresses, source.Endpoints[i].Addresses) || *e.Conditions.Terminating != *source.Endpoints[i].Conditions.Terminating {
			t.Errorf("endpoint %d became %+v: only its readiness should change", i, e)
		}
	}
	if !*source.Endpoints[0].Conditions.Ready {
		t.Error("the record itself was changed")
	}
}

func TestSliceNames(t *testing.T) {
	long := strings.Repeat("s", 253)
	registered := []string{"eu", "eu-west", "member1"}
	name := func(provider, slice string) string {
		return DistinctName(networkingv1alpha1.DispatchedEndpointSliceName(provider, slice), provider, slice, registered)
	}
	if got := name("member1", "web-x"); got != "member1-web-x" {
		t.Errorf("name is %s, want the contract's", got)
	}
	if got := name("eu", "web"); got != "eu-web" {
		t.Errorf("name is %s: no name is the first part of eu", got)
	}
	// A slice of eu that is called as the name of one of eu-west goes on.
	forged := strings.TrimPrefix(name("eu-west", "web"), "eu-")
	seen := map[string]string{}
	for _, of := range [][2]string{{"eu", forged}, {"eu", "west-web"}, {"eu-west", "web"}, {"eu", "west-web-2"}, {"eu-west", "web-2"}, {"eu", long}, {"eu-west", long}, {"member1", long}} {
		name := name(of[0], of[1])
		if other, taken := seen[name]; taken {
			t.Errorf("%v and %s are both called %s", of, other, name)
		}
		if len(name) > 253 {
			t.Errorf("the name of %v has %d characters", of, len(name))
		}
		seen[name] = strings.Join(of[:], "/")
	}
}

// TestRecordsAreReduced: the agent of a member writes its records itself, with what a slice has that means something to other clusters.
func TestRecordsAreReduced(t *testing.T) {
	forged := full()
	forged.TypeMeta = TypeMeta
	forged.OwnerReferences, forged.Finalizers = []metav1.OwnerReference{{Kind: "Node", Name: "node-1"}}, []string{"a/b"}
	forged.Labels[corev1.IsHeadlessService] = "not a value"
	got := must(DecodeRecord(must(Encode(forged)), Collected))
	if diff := cmp.Diff(Collected(full()), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for reason, change := range map[string]func(*discoveryv1.EndpointSlice){
		"another kind":              func(s *discoveryv1.EndpointSlice) { s.Kind = "Secret" },
		"it came from elsewhere":    func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = dispatchedManagers[0] },
		"an address of the machine": func(s *discoveryv1.EndpointSlice) { s.Endpoints[1].Addresses = []string{"::1"} },
		"many bytes": func(s *discoveryv1.EndpointSlice) {
			s.Annotations = map[string]string{"a": strings.Repeat("x", bounds.MaxSliceBytes)}
		},
	} {
		wrong := full()
		wrong.TypeMeta = TypeMeta
		change(wrong)
		if _, err := DecodeRecord(must(Encode(wrong)), Collected); err == nil {
			t.Errorf("%s, and it is read", reason)
		}
	}
}

// TestCheckOwner: a cluster has no endpoint at the API server of another.
func TestCheckOwner(t *testing.T) {
	cluster := func(name, endpoint string) *clusterv1alpha1.Cluster {
		return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1alpha1.ClusterSpec{APIEndpoint: endpoint}}
	}
	clusters := []*clusterv1alpha1.Cluster{
		cluster("a", "https://192.0.2.1:6443"), cluster("b", "https://192.0.2.2:6443"), cluster("c", "https://[2001:db8::3]:6443"), cluster("d", ""),
		cluster("e", "https://192.0.2.9/a"), cluster("f", "https://192.0.2.9/b"), cluster("g", "https://g.example.com"),
	}
	for _, c := range []struct {
		name, address string
		refused       bool
	}{
		{"a", "192.0.2.1", false}, {"a", "192.0.2.2", true}, {"b", "2001:db8::3", true}, {"d", "192.0.2.1", true}, {"a", "10.0.0.1", false},
		{"e", "192.0.2.9", false}, {"a", "192.0.2.9", true},
	} {
		slice := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.7"}}, {Addresses: []string{c.address}}}}
		if err := CheckOwner(clusters, c.name, slice); (err != nil) != c.refused {
			t.Errorf("%s in cluster %s: %v", c.address, c.name, err)
		}
	}
}
