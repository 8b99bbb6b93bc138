package clusterset_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/clusterset"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// export is the Service web as a cluster exports it, so many minutes after the start.
func export(cluster string, minute int, edits ...func(*clusterset.Export)) clusterset.Export {
	e := clusterset.Export{
		Cluster: cluster, Recorded: start.Add(time.Duration(minute) * time.Minute),
		Service: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{port("http", 80, corev1.ProtocolTCP)},
		},
	}
	for _, edit := range edits {
		edit(&e)
	}
	return e
}

func port(name string, number int32, protocol corev1.Protocol) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, Protocol: protocol}
}

func headless(e *clusterset.Export) { e.Service.ClusterIP = corev1.ClusterIPNone }

func withPorts(ports ...corev1.ServicePort) func(*clusterset.Export) {
	return func(e *clusterset.Export) { e.Service.Ports = ports }
}

func speaking(protocol string) func(*clusterset.Export) {
	return func(e *clusterset.Export) {
		e.Service.Ports = slices.Clone(e.Service.Ports)
		e.Service.Ports[0].AppProtocol = &protocol
	}
}

func sticky(seconds int32) func(*clusterset.Export) {
	return func(e *clusterset.Export) {
		e.Service.SessionAffinity = corev1.ServiceAffinityClientIP
		e.Service.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

func local(e *clusterset.Export) {
	e.Service.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
}

func anywhere(e *clusterset.Export) {
	e.Service.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
}

func near(e *clusterset.Export) { e.Service.TrafficDistribution = new("PreferClose") }

func speaks(families ...corev1.IPFamily) func(*clusterset.Export) {
	return func(e *clusterset.Export) { e.Service.IPFamilies = families }
}

func labelled(pairs ...string) func(*clusterset.Export) {
	return func(e *clusterset.Export) { e.Labels = pairsOf(pairs) }
}

func annotated(pairs ...string) func(*clusterset.Export) {
	return func(e *clusterset.Export) { e.Annotations = pairsOf(pairs) }
}

func pairsOf(list []string) map[string]string {
	pairs := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		pairs[list[i]] = list[i+1]
	}
	return pairs
}

// TestMergeSpec has a case for every property: alone, shared, and in contention.
func TestMergeSpec(t *testing.T) {
	http := multiclusterv1beta1.ServicePort{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}
	base := multiclusterv1beta1.ServiceImportSpec{
		Type: multiclusterv1beta1.ClusterSetIP, Ports: []multiclusterv1beta1.ServicePort{http},
		SessionAffinity: corev1.ServiceAffinityNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
	timeout := int32(600)
	v4, v6 := corev1.IPv4Protocol, corev1.IPv6Protocol
	cases := map[string]struct {
		exports []clusterset.Export
		edit    func(*multiclusterv1beta1.ServiceImportSpec)
	}{
		"one export":          {exports: []clusterset.Export{export("a", 0)}},
		"two that agree":      {exports: []clusterset.Export{export("a", 0), export("b", 1)}},
		"headless alone":      {[]clusterset.Export{export("a", 0, headless)}, func(s *multiclusterv1beta1.ServiceImportSpec) { s.Type = multiclusterv1beta1.Headless }},
		"headless comes late": {exports: []clusterset.Export{export("a", 0), export("b", 1, headless)}},
		"headless came first": {[]clusterset.Export{export("b", 1), export("a", 0, headless)}, func(s *multiclusterv1beta1.ServiceImportSpec) { s.Type = multiclusterv1beta1.Headless }},
		"made in one second, the name decides": {[]clusterset.Export{export("b", 0), export("a", 0, headless)},
			func(s *multiclusterv1beta1.ServiceImportSpec) { s.Type = multiclusterv1beta1.Headless }},
		"ports are united": {[]clusterset.Export{export("b", 1, withPorts(port("http", 80, "TCP"), port("stream", 142, "SCTP"))), export("a", 0)},
			func(s *multiclusterv1beta1.ServiceImportSpec) {
				s.Ports = append(s.Ports, multiclusterv1beta1.ServicePort{Name: "stream", Protocol: corev1.ProtocolSCTP, Port: 142})
			}},
		"one name, two numbers":      {exports: []clusterset.Export{export("a", 0), export("b", 1, withPorts(port("http", 81, "TCP")))}},
		"one number, two names":      {exports: []clusterset.Export{export("a", 0), export("b", 1, withPorts(port("web", 80, "TCP")))}},
		"two application protocols":  {exports: []clusterset.Export{export("a", 0), export("b", 1, speaking("https"))}},
		"the application protocol":   {[]clusterset.Export{export("a", 0, speaking("https"))}, func(s *multiclusterv1beta1.ServiceImportSpec) { s.Ports[0].AppProtocol = new("https") }},
		"one number, two protocols":  {[]clusterset.Export{export("a", 0), export("b", 1, withPorts(port("quic", 80, "UDP")))}, withPort("quic", 80, corev1.ProtocolUDP)},
		"no protocol means TCP":      {exports: []clusterset.Export{export("a", 0, withPorts(port("http", 80, "")))}},
		"no ports":                   {[]clusterset.Export{export("a", 0, withPorts())}, func(s *multiclusterv1beta1.ServiceImportSpec) { s.Ports = []multiclusterv1beta1.ServicePort{} }},
		"the oldest has no affinity": {exports: []clusterset.Export{export("a", 0), export("b", 1, sticky(60))}},
		"the oldest sticks to clients": {[]clusterset.Export{export("a", 0, sticky(600)), export("b", 1), export("c", 2, sticky(60))},
			func(s *multiclusterv1beta1.ServiceImportSpec) {
				s.SessionAffinity = corev1.ServiceAffinityClientIP
				s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
			}},
		"the oldest is local": {[]clusterset.Export{export("a", 0, local), export("b", 1, anywhere)}, func(s *multiclusterv1beta1.ServiceImportSpec) {
			s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
		}},
		"the oldest likes it near":    {[]clusterset.Export{export("a", 0, near), export("b", 1)}, func(s *multiclusterv1beta1.ServiceImportSpec) { s.TrafficDistribution = new("PreferClose") }},
		"both families":               {[]clusterset.Export{export("a", 0, speaks(v6, v4)), export("b", 1, speaks(v4, v6))}, inFamilies(v6, v4)},
		"a later one has one family":  {[]clusterset.Export{export("a", 0, speaks(v6, v4)), export("b", 1, speaks(v4))}, inFamilies(v6, v4)},
		"no family that all have":     {[]clusterset.Export{export("a", 0, speaks(v6)), export("b", 1, speaks(v4))}, inFamilies(v6)},
		"one without a family":        {[]clusterset.Export{export("a", 0, speaks()), export("b", 1)}, func(s *multiclusterv1beta1.ServiceImportSpec) { s.IPFamilies = nil }},
		"the order given is no order": {exports: []clusterset.Export{export("c", 2, headless), export("b", 1, sticky(1)), export("a", 0)}},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			want := *base.DeepCopy()
			if c.edit != nil {
				c.edit(&want)
			}
			if diff := cmp.Diff(want, clusterset.Merge(c.exports).Spec); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

func withPort(name string, number int32, protocol corev1.Protocol) func(*multiclusterv1beta1.ServiceImportSpec) {
	return func(s *multiclusterv1beta1.ServiceImportSpec) {
		s.Ports = append(s.Ports, multiclusterv1beta1.ServicePort{Name: name, Port: number, Protocol: protocol})
	}
}

func inFamilies(families ...corev1.IPFamily) func(*multiclusterv1beta1.ServiceImportSpec) {
	return func(s *multiclusterv1beta1.ServiceImportSpec) { s.IPFamilies = families }
}

func TestMergeConflicts(t *testing.T) {
	v4, v6 := corev1.IPv4Protocol, corev1.IPv6Protocol
	cases := map[string]struct {
		exports []clusterset.Export
		want    string
		says    string
	}{
		"one export":            {exports: []clusterset.Export{export("a", 0, sticky(1), near)}},
		"two that agree":        {exports: []clusterset.Export{export("a", 0), export("b", 1)}},
		"the order of ports":    {exports: []clusterset.Export{export("a", 0, withPorts(port("x", 1, "TCP"), port("y", 2, "TCP"))), export("b", 1, withPorts(port("y", 2, "TCP"), port("x", 1, "TCP")))}},
		"types":                 {[]clusterset.Export{export("a", 0), export("b", 1, headless), export("c", 1)}, "TypeConflict", `using "ClusterSetIP" from the oldest export, in cluster a; 1 of 3 clusters disagree`},
		"more ports":            {[]clusterset.Export{export("a", 0), export("b", 1, withPorts(port("http", 80, "TCP"), port("x", 1, "TCP")))}, "PortConflict", "in cluster a; 1 of 2"},
		"other numbers":         {[]clusterset.Export{export("a", 0), export("b", 1, withPorts(port("http", 81, "TCP")))}, "PortConflict", "in cluster a; 1 of 2"},
		"application protocols": {[]clusterset.Export{export("a", 0), export("b", 1, speaking("https"))}, "PortConflict", "in cluster a"},
		"target ports are their own": {exports: []clusterset.Export{export("a", 0), export("b", 1, func(e *clusterset.Export) {
			e.Service.Ports[0].TargetPort.IntVal = 8080
			e.Service.Ports[0].NodePort = 30001
		})}},
		"affinity":                   {[]clusterset.Export{export("a", 0), export("b", 1, sticky(1))}, "SessionAffinityConflict", `using "None"`},
		"timeouts":                   {[]clusterset.Export{export("a", 0, sticky(1)), export("b", 1, sticky(2))}, "SessionAffinityConfigConflict", `using "1"`},
		"the default timeout":        {exports: []clusterset.Export{export("a", 0, sticky(10800)), export("b", 1, sticky(0), func(e *clusterset.Export) { e.Service.SessionAffinityConfig = nil })}},
		"internal traffic":           {[]clusterset.Export{export("a", 0, local), export("b", 1)}, "InternalTrafficPolicyConflict", `using "Local"`},
		"the default policy":         {exports: []clusterset.Export{export("a", 0), export("b", 1, anywhere)}},
		"distribution":               {[]clusterset.Export{export("a", 0), export("b", 1, near)}, "TrafficDistributionConflict", `using "none"`},
		"a family in common":         {exports: []clusterset.Export{export("a", 0, speaks(v4)), export("b", 1, speaks(v4, v6))}},
		"a family less":              {[]clusterset.Export{export("a", 0, speaks(v4, v6)), export("b", 1, speaks(v6))}, "IPFamilyConflict", `using "IPv4, IPv6"`},
		"no family in common":        {[]clusterset.Export{export("a", 0, speaks(v4)), export("b", 1, speaks(v6))}, "IPFamilyConflict", `using "IPv4"`},
		"labels":                     {[]clusterset.Export{export("a", 0, labelled("x", "1")), export("b", 1)}, "LabelsConflict", `using "x=1"`},
		"annotations":                {[]clusterset.Export{export("a", 0), export("b", 1, annotated("x", "1"))}, "AnnotationsConflict", `using "none"`},
		"the control plane's labels": {exports: []clusterset.Export{export("a", 0, labelled("karmada.io/managed", "false", "work.karmada.io/x", "y", "flagship.io/x", "y", "multicluster.kubernetes.io/service-name", "z")), export("b", 1)}},
		"long labels":                {[]clusterset.Export{export("a", 0, annotated("x", strings.Repeat("1", 300))), export("b", 1)}, "AnnotationsConflict", `1…" from`},
		"several": {[]clusterset.Export{export("a", 0), export("b", 1, headless, sticky(1), withPorts(port("x", 1, "TCP")))},
			"TypeConflict,PortConflict,SessionAffinityConflict", "Conflicting types"},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			merged := clusterset.Merge(c.exports)
			var reasons []string
			for _, r := range merged.Reasons() {
				reasons = append(reasons, string(r))
			}
			if got := strings.Join(reasons, ","); got != c.want {
				t.Errorf("conflicts are %q, want %q", got, c.want)
			}
			if !strings.Contains(merged.Messages(), c.says) {
				t.Errorf("the message is %q, want %q in it", merged.Messages(), c.says)
			}
		})
	}
}

func TestMergeCarriesLabelsOfTheOldest(t *testing.T) {
	merged := clusterset.Merge([]clusterset.Export{
		export("b", 1, labelled("team", "b", "more", "b"), annotated("note", "b")),
		export("a", 0, labelled("team", "a", "karmada.io/managed", "false"), annotated("note", "a")),
	})
	if diff := cmp.Diff(map[string]string{"team": "a"}, merged.Labels); diff != "" {
		t.Errorf("labels differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"note": "a"}, merged.Annotations); diff != "" {
		t.Errorf("annotations differ (-want +got):\n%s", diff)
	}
	if want := []string{"a", "b"}; !slices.Equal(merged.Clusters, want) {
		t.Errorf("clusters are %v, want %v", merged.Clusters, want)
	}
}

// TestMergeIgnoresTheOrderGiven: the same exports in any order are the same service and the same conflicts.
func TestMergeIgnoresTheOrderGiven(t *testing.T) {
	exports := []clusterset.Export{export("c", 0, near), export("a", 1, headless), export("b", 1, sticky(3), withPorts(port("x", 80, "TCP")))}
	want := clusterset.Merge(exports)
	for _, order := range [][]int{{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		var shuffled []clusterset.Export
		for _, i := range order {
			shuffled = append(shuffled, exports[i])
		}
		if diff := cmp.Diff(want, clusterset.Merge(shuffled)); diff != "" {
			t.Errorf("in the order %v it differs (-want +got):\n%s", order, diff)
		}
	}
}
