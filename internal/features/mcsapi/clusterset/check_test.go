package clusterset_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/flagship-k8s/flagship/internal/features/mcsapi/clusterset"
)

// TestCheck has a case for everything in an export that an API server would refuse in an import, and what is only large.
func TestCheck(t *testing.T) {
	service := func(edit func(*corev1.ServiceSpec)) func(*clusterset.Export) {
		return func(e *clusterset.Export) { edit(&e.Service) }
	}
	many := make([]corev1.ServicePort, 101)
	for i := range many {
		many[i] = port("p", int32(i+1), "TCP")
	}
	for reason, c := range map[string]struct {
		edit func(*clusterset.Export)
		want string // in the error; empty means none
	}{
		"as it should be": {func(*clusterset.Export) {}, ""},
		"everything set": {func(e *clusterset.Export) {
			sticky(600)(e)
			local(e)
			near(e)
			speaks(corev1.IPv6Protocol, corev1.IPv4Protocol)(e)
			labelled("team", "a")(e)
			speaking("kubernetes.io/h2c")(e)
		}, ""},
		"a port without a name":   {withPorts(port("", 80, "")), ""},
		"two, one without a name": {withPorts(port("", 80, ""), port("b", 81, "")), "ports[0].name"},
		"no ports":                {withPorts(), "spec.ports"},
		"no ports and no address": {service(func(s *corev1.ServiceSpec) { s.Ports, s.ClusterIP = nil, corev1.ClusterIPNone }), ""},
		"a number of none":        {withPorts(port("a", 0, "TCP")), "ports[0].port"},
		"a number too large":      {withPorts(port("a", 70000, "TCP")), "ports[0].port"},
		"a protocol of its own":   {withPorts(port("a", 80, "HTTP")), "ports[0].protocol"},
		"a name with spaces":      {withPorts(port("a b", 80, "TCP")), "ports[0].name"},
		"a long name":             {withPorts(port(strings.Repeat("a", 64), 80, "TCP")), "ports[0].name"},
		"too many ports":          {withPorts(many...), "Too many"},
		"an application protocol": {speaking("not a name"), "appProtocol"},
		"an external name":        {service(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeExternalName }), "ExternalName"},
		"an affinity of its own":  {service(func(s *corev1.ServiceSpec) { s.SessionAffinity = "Pod" }), "sessionAffinity"},
		"a timeout of no time":    {sticky(0), "timeoutSeconds"},
		"a timeout of two days":   {sticky(2 * 86400), "timeoutSeconds"},
		"a third family":          {speaks("IPv4", "IPv6", "IPv4"), "ipFamilies"},
		"one family twice":        {speaks("IPv4", "IPv4"), "ipFamilies"},
		"an unknown family":       {speaks("IPX"), "ipFamilies[0]"},
		"a policy of its own": {service(func(s *corev1.ServiceSpec) {
			s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicy("Mine"))
		}), "internalTrafficPolicy"},
		"an unknown distribution":  {service(func(s *corev1.ServiceSpec) { s.TrafficDistribution = new("Mine") }), "trafficDistribution"},
		"a label with spaces":      {labelled("team", "a b"), "exportedLabels"},
		"a key that is none":       {annotated("a b", ""), "exportedAnnotations"},
		"annotations of 17,000":    {annotated("a", strings.Repeat("x", 17_000)), "may have 16384"},
		"a message is not as long": {withPorts(port(strings.Repeat("a", 100_000), 80, "TCP")), "…"},
	} {
		t.Run(reason, func(t *testing.T) {
			err := clusterset.Check(export("a", 0, c.edit))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error is %v, want one with %q", err, c.want)
			case err != nil && len(err.Error()) > 1100:
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

// FuzzALaterExportAddsPortsOnly: whatever a cluster exports later, the service keeps everything that it was, and gets ports at most.
func FuzzALaterExportAddsPortsOnly(f *testing.F) {
	f.Add("http", int32(8080), "UDP", "None", "ClientIP", "IPv6", "Local", "PreferClose", "team", "evil", int64(-1000))
	f.Fuzz(func(t *testing.T, name string, number int32, protocol, clusterIP, affinity, family, policy, distribution, key, value string, _ int64) {
		first := export("b", 0, near, labelled("team", "b"))
		second := clusterset.Export{Cluster: "a", Recorded: first.Recorded.Add(time.Second), Labels: map[string]string{key: value}, Annotations: map[string]string{key: value}}
		second.Service = corev1.ServiceSpec{
			ClusterIP: clusterIP, SessionAffinity: corev1.ServiceAffinity(affinity), IPFamilies: []corev1.IPFamily{corev1.IPFamily(family)},
			InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicy(policy)), TrafficDistribution: &distribution,
			Ports: []corev1.ServicePort{{Name: name, Port: number, Protocol: corev1.Protocol(protocol)}},
		}
		if clusterset.Check(second) != nil {
			return
		}
		alone, merged := clusterset.Merge([]clusterset.Export{first}), clusterset.Merge([]clusterset.Export{second, first})
		if len(merged.Spec.Ports) > 2 || merged.Spec.Ports[0] != alone.Spec.Ports[0] {
			t.Errorf("ports were %v and are %v", alone.Spec.Ports, merged.Spec.Ports)
		}
		merged.Spec.Ports, merged.Clusters, merged.Conflicts = alone.Spec.Ports, alone.Clusters, nil
		if !equality.Semantic.DeepEqual(alone, merged) {
			t.Errorf("it was %+v and is %+v", alone, merged)
		}
	})
}
