package service

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
)

func clusters(names ...string) (list []networkingv1alpha1.ClusterSelector) {
	for _, name := range names {
		list = append(list, networkingv1alpha1.ClusterSelector{Name: name})
	}
	return list
}

func TestExpose(t *testing.T) {
	type spec = networkingv1alpha1.MultiClusterServiceSpec
	between := []networkingv1alpha1.ExposureType{networkingv1alpha1.ExposureTypeCrossCluster}
	outside := []networkingv1alpha1.ExposureType{networkingv1alpha1.ExposureTypeLoadBalancer}
	within := func(names ...string) networkingv1alpha1.ExposureRange {
		return networkingv1alpha1.ExposureRange{ClusterNames: names}
	}
	for reason, tc := range map[string]struct {
		spec spec
		want Exposure
	}{
		"all unset means everywhere": {spec{Types: between}, Exposure{Providers: []string{"a", "b", "c"}, Consumers: []string{"a", "b", "c"}}},
		"a range is for both":        {spec{Types: between, Range: within("b", "a")}, Exposure{Providers: []string{"a", "b"}, Consumers: []string{"a", "b"}}},
		"the old providers win over the range": {
			spec{Types: between, Range: within("a"), ServiceProvisionClusters: []string{"b"}}, Exposure{Providers: []string{"b"}, Consumers: []string{"a"}}},
		"so do the old consumers": {
			spec{Types: between, Range: within("a"), ServiceConsumptionClusters: []string{"b"}}, Exposure{Providers: []string{"a"}, Consumers: []string{"b"}}},
		"the new fields win over both": {
			spec{Types: between, Range: within("a"), ServiceProvisionClusters: []string{"b"}, ServiceConsumptionClusters: []string{"b"},
				ProviderClusters: clusters("c"), ConsumerClusters: clusters("a", "b")},
			Exposure{Providers: []string{"c"}, Consumers: []string{"a", "b"}}},
		"one who is named twice counts once":  {spec{Types: between, Range: within("a", "a")}, Exposure{Providers: []string{"a"}, Consumers: []string{"a"}}},
		"load balancers have no consumers":    {spec{Types: outside, ConsumerClusters: clusters("a")}, Exposure{Providers: []string{"a", "b", "c"}}},
		"who is not registered is told apart": {spec{Types: between, ProviderClusters: clusters("x", "a"), ConsumerClusters: clusters("x")}, Exposure{Providers: []string{"a"}, Unknown: []string{"x"}}},
	} {
		t.Run(reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Expose(&tc.spec, []string{"a", "b", "c"})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConsumersOf(t *testing.T) {
	e := Exposure{Providers: []string{"a", "b"}, Consumers: []string{"a", "c"}}
	if got := e.ConsumersOf("a"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("a's consumers are %v: a cluster needs no copy of its own", got)
	}
	if got := e.ConsumersOf("b"); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("b's consumers are %v", got)
	}
	if got := e.All(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("all are %v", got)
	}
}

// full is a slice with everything in it.
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
	if diff := cmp.Diff(want, collected(source)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(full(), source); diff != "" {
		t.Errorf("the slice itself was changed:\n%s", diff)
	}
}

func TestSomeSlicesAreNotCollected(t *testing.T) {
	for reason, change := range map[string]func(*discoveryv1.EndpointSlice){
		"it came from another cluster":        func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = madeHere[0] },
		"it was made for an imported service": func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = madeHere[1] },
		"it belongs to no Service":            func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) },
	} {
		slice := full()
		change(slice)
		if collected(slice) != nil {
			t.Errorf("%s, but it was collected", reason)
		}
	}
}

func TestDispatched(t *testing.T) {
	source := collected(full())
	present, away := dispatched(source, "member1-web-x7k2p", false), dispatched(source, "member1-web-x7k2p", true)
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
	if got := sliceName("member1", "web-x", registered); got != "member1-web-x" {
		t.Errorf("name is %s, want the contract's", got)
	}
	if got := sliceName("eu", "west-web", registered); got != "eu-west-web" {
		t.Errorf("name is %s: nobody's name is the first part of eu", got)
	}
	seen := map[string]string{}
	for _, of := range [][2]string{{"eu", "west-web"}, {"eu-west", "web"}, {"eu", "west-web-2"}, {"eu-west", "web-2"}, {"eu", long}, {"eu-west", long}, {"member1", long}} {
		name := sliceName(of[0], of[1], registered)
		if other, taken := seen[name]; taken {
			t.Errorf("%v and %s are both called %s", of, other, name)
		}
		if len(name) > 253 {
			t.Errorf("the name of %v has %d characters", of, len(name))
		}
		seen[name] = strings.Join(of[:], "/")
	}
}

func TestMismatch(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "metrics", Port: 9090}}},
	}
	port := func(name string, number int32) networkingv1alpha1.ExposurePort {
		return networkingv1alpha1.ExposurePort{Name: name, Port: number}
	}
	for reason, tc := range map[string]struct {
		ports []networkingv1alpha1.ExposurePort
		want  string
	}{
		"none asked for":     {},
		"both":               {ports: []networkingv1alpha1.ExposurePort{port("http", 80), port("metrics", 9090)}},
		"a number is enough": {ports: []networkingv1alpha1.ExposurePort{port("", 9090)}},
		"another number":     {ports: []networkingv1alpha1.ExposurePort{port("http", 8080)}, want: "spec.ports asks for http (8080), but Service shop/web has http (80), metrics (9090): correct one of them"},
		"a name of another":  {ports: []networkingv1alpha1.ExposurePort{port("http", 9090), port("", 1)}, want: "spec.ports asks for http (9090), 1, but Service shop/web has http (80), metrics (9090): correct one of them"},
	} {
		if got := mismatch(tc.ports, service); got != tc.want {
			t.Errorf("%s: got %q, want %q", reason, got, tc.want)
		}
	}
}

func TestContentIsWhatUsersChange(t *testing.T) {
	content := func(change func(*corev1.Service)) string {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if change != nil {
			change(service)
		}
		text, err := contentOf(service)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	same := content(nil)
	for what, tc := range map[string]struct {
		change func(*corev1.Service)
		differ bool
	}{
		"status": {func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			s.ResourceVersion = "8"
		}, false},
		"our claim": {func(s *corev1.Service) {
			s.Labels[ownClaimLabels[0]], s.Annotations = "MultiClusterService", map[string]string{ownClaimAnnotations[0]: "shop"}
		}, false},
		"a policy's claim": {func(s *corev1.Service) { s.Labels[policyClaimLabels[0]] = "id" }, false},
		"a port":           {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, true},
		"a label":          {func(s *corev1.Service) { s.Labels["app"] = "other" }, true},
		"an annotation":    {func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} }, true},
	} {
		if differ := content(tc.change) != same; differ != tc.differ {
			t.Errorf("a change of %s makes a difference: %v, want %v", what, differ, tc.differ)
		}
	}
}
