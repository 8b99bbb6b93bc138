package imports

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

func TestDerivedService(t *testing.T) {
	http := multiclusterv1beta1.ServicePort{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}
	nameless := multiclusterv1beta1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 81}
	cases := map[string]struct {
		spec multiclusterv1beta1.ServiceImportSpec
		want corev1.ServiceSpec
	}{
		"everything": {
			multiclusterv1beta1.ServiceImportSpec{
				Type: multiclusterv1beta1.ClusterSetIP, Ports: []multiclusterv1beta1.ServicePort{http}, SessionAffinity: corev1.ServiceAffinityClientIP,
				IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol}, InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal), TrafficDistribution: new("PreferClose"),
			},
			corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}, SessionAffinity: corev1.ServiceAffinityClientIP,
				IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol}, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack),
				InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal), TrafficDistribution: new("PreferClose"),
			},
		},
		"headless": {
			multiclusterv1beta1.ServiceImportSpec{Type: multiclusterv1beta1.Headless, SessionAffinity: corev1.ServiceAffinityNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
			corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone},
		},
		"both families": {
			multiclusterv1beta1.ServiceImportSpec{Type: multiclusterv1beta1.ClusterSetIP, IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}},
			corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyPreferDualStack)},
		},
		"a nameless port of the oldest stands alone": {
			multiclusterv1beta1.ServiceImportSpec{Type: multiclusterv1beta1.ClusterSetIP, Ports: []multiclusterv1beta1.ServicePort{nameless, http}},
			corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 81}}},
		},
		"a nameless port of another gives way": {
			multiclusterv1beta1.ServiceImportSpec{Type: multiclusterv1beta1.ClusterSetIP, Ports: []multiclusterv1beta1.ServicePort{http, nameless}},
			corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}},
		},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			got := derivedService(webKey, c.spec)
			if got.Name != "derived-web" || got.Namespace != "shop" {
				t.Errorf("it is called %s/%s", got.Namespace, got.Name)
			}
			if diff := cmp.Diff(c.want, got.Spec); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImportedSlice(t *testing.T) {
	source := full()
	record := exportwork.Exported(source)
	if record.Endpoints[0].NodeName == nil || record.Endpoints[0].TargetRef != nil {
		t.Errorf("the record has %+v; want the node, for the cluster itself, and no pod", record.Endpoints[0])
	}
	way := transfer{from: "a", to: "b", service: webKey, name: "imported-a-x", spec: multiclusterv1beta1.ServiceImportSpec{Type: multiclusterv1beta1.ClusterSetIP}}
	got := imported(record, way)
	want := map[string]string{
		"kubernetes.io/service-name": "derived-web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.karmada.io",
		"multicluster.kubernetes.io/service-name": "web", "multicluster.kubernetes.io/source-cluster": "a",
	}
	if diff := cmp.Diff(want, got.Labels); diff != "" {
		t.Errorf("labels differ (-want +got):\n%s", diff)
	}
	if got.Name != "imported-a-x" || got.Endpoints[0].NodeName != nil {
		t.Errorf("it is %s with the node %v; want no node of another cluster", got.Name, got.Endpoints[0].NodeName)
	}
	if endpointslices.Collected(got) != nil {
		t.Error("it would be collected again")
	}
	way.to = "a"
	if imported(record, way).Endpoints[0].NodeName == nil {
		t.Error("in its own cluster an endpoint has lost its node")
	}
	way.expired = true
	if e := imported(record, way).Endpoints[0]; *e.Conditions.Ready {
		t.Error("an endpoint of a cluster that is expired is ready")
	}
	way.spec.Type = multiclusterv1beta1.Headless
	if _, marked := imported(record, way).Labels[corev1.IsHeadlessService]; !marked {
		t.Error("a slice of a headless import has no mark")
	}
	way.spec.TrafficDistribution = new("PreferClose")
	for i := range record.Endpoints {
		record.Endpoints[i].Zone = new("z")
	}
	for _, e := range imported(record, way).Endpoints {
		if e.Hints == nil || e.Hints.ForZones[0].Name != "z" {
			t.Errorf("endpoint %v is not hinted at in its zone", e.Addresses)
		}
	}
	record.Endpoints[0].Zone = nil
	if e := imported(record, way).Endpoints[1]; e.Hints != nil {
		t.Error("some endpoints have hints, and others no zone")
	}
}

func TestImportedSliceNames(t *testing.T) {
	name := func(cluster, slice string, registered ...string) string {
		return endpointslices.DistinctName(networkingv1alpha1.ImportedEndpointSliceName(cluster, slice), cluster, slice, registered)
	}
	if got := name("a", "web-x", "a", "b"); got != "imported-a-web-x" {
		t.Errorf("got %s", got)
	}
	if one, two := name("eu", "west-x", "eu", "eu-west"), name("eu-west", "x", "eu", "eu-west"); one == two {
		t.Errorf("two slices are called %s", one)
	}
	if got := name("a", strings.Repeat("x", 253)); len(got) > 253 {
		t.Errorf("a name of %d characters", len(got))
	}
	if multiclusterv1beta1.EndpointsRecordName("shop", "x") == networkingv1alpha1.CollectedWorkName("shop", "x") {
		t.Error("a MultiClusterService's record has the same name")
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
