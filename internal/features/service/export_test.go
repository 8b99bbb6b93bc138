package service

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func webExport() *multiclusterv1beta1.ServiceExport {
	return &multiclusterv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", Generation: 3, CreationTimestamp: metav1.NewTime(noon)},
		Spec:       multiclusterv1beta1.ServiceExportSpec{ExportedLabels: map[string]string{"team": "shop"}},
	}
}

// TestExportRecordKeepsWhatMatters: what is read from a record is what was exported, and the same is written only once.
func TestExportRecordKeepsWhatMatters(t *testing.T) {
	spec := corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, ClusterIP: "10.0.0.7", Selector: map[string]string{"app": "web"},
		Ports:           []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 30080, Protocol: corev1.ProtocolTCP}},
		SessionAffinity: corev1.ServiceAffinityNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
	record := must(exportRecord("a", webExport(), exportedSpec(&spec), nil))
	if !multiclusterv1beta1.IsRecord(record) || networkingv1alpha1.IsRecord(record) || !*record.Spec.SuspendDispatching {
		t.Errorf("the record has labels %v; want one of an export, suspended", record.Labels)
	}
	got := must(readExport(record))
	if got.Cluster != "a" || !got.Created.Equal(noon) || got.Labels["team"] != "shop" {
		t.Errorf("what is read is %+v", got)
	}
	want := corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		SessionAffinity: corev1.ServiceAffinityNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
	if diff := cmp.Diff(want, got.Service); diff != "" {
		t.Errorf("the Service differs (-want +got):\n%s", diff)
	}
	stored := record.DeepCopy()
	stored.Annotations = map[string]string{multiclusterv1beta1.VerdictAnnotation: "{}"}
	if again := must(exportRecord("a", webExport(), exportedSpec(&spec), stored)); !cmp.Equal(stored, again) {
		t.Errorf("the same export gives another record:\n%s", cmp.Diff(stored, again))
	}
	spec.ClusterIP = corev1.ClusterIPNone
	if headless := must(readExport(must(exportRecord("a", webExport(), exportedSpec(&spec), record)))); headless.Service.ClusterIP != corev1.ClusterIPNone {
		t.Error("that it is headless was lost")
	}
}

func TestExportConditions(t *testing.T) {
	service := &corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}
	noted := func(text string) *workv1alpha1.Work {
		return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{multiclusterv1beta1.VerdictAnnotation: text}}}
	}
	cases := map[string]struct {
		service *corev1.ServiceSpec
		record  *workv1alpha1.Work
		want    []string
	}{
		"no Service":       {nil, nil, []string{"Ready=False/Failed", "Valid=False/NoService"}},
		"an external name": {&corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}, nil, []string{"Ready=False/Failed", "Valid=False/InvalidServiceType"}},
		"no record yet":    {service, nil, []string{"Ready=False/Pending", "Valid=True/Valid"}},
		"nothing noted":    {service, &workv1alpha1.Work{}, []string{"Ready=False/Pending", "Valid=True/Valid"}},
		"all agree":        {service, noted(`{}`), []string{"Conflict=False/NoConflicts", "Ready=True/Exported", "Valid=True/Valid"}},
		"they differ": {service, noted(`{"reasons":["PortConflict","TypeConflict"],"message":"m"}`),
			[]string{"Conflict=True/PortConflict,TypeConflict", "Ready=True/Exported", "Valid=True/Valid"}},
		"not everywhere": {service, noted(`{"obstacles":"cluster b: there is another"}`), []string{"Conflict=False/NoConflicts", "Ready=True/Exported", "Valid=True/Valid"}},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			e := webExport()
			e.Status.Conditions = []metav1.Condition{{Type: "Others", Status: metav1.ConditionTrue, Reason: "x"}}
			conditions := exportConditions(e, validity(e, c.service), c.record, noon)
			var got []string
			for _, condition := range conditions {
				if condition.Type == "Others" {
					continue
				}
				got = append(got, condition.Type+"="+string(condition.Status)+"/"+condition.Reason)
				if condition.ObservedGeneration != 3 || condition.LastTransitionTime.IsZero() || condition.Message == "" {
					t.Errorf("condition %+v lacks something", condition)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if meta.FindStatusCondition(conditions, "Others") == nil {
				t.Error("a condition of somebody else's is lost")
			}
			e.Status.Conditions = conditions
			if again := exportConditions(e, validity(e, c.service), c.record, noon.Add(time.Hour)); !cmp.Equal(conditions, again) {
				t.Errorf("they change with time:\n%s", cmp.Diff(conditions, again))
			}
		})
	}
}

// TestInvalidExportHasNoConflict: a conflict that was there goes with the Service.
func TestInvalidExportHasNoConflict(t *testing.T) {
	e := webExport()
	e.Status.Conditions = []metav1.Condition{multiclusterv1beta1.NoConflicts(1)}
	if got := exportConditions(e, validity(e, nil), nil, noon); meta.FindStatusCondition(got, multiclusterv1beta1.ExportConflict) != nil {
		t.Errorf("conditions are %+v", got)
	}
}

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
	record := exported(source)
	if record.Endpoints[0].NodeName == nil || record.Endpoints[0].TargetRef != nil {
		t.Errorf("the record has %+v; want the node, for the cluster itself, and no pod", record.Endpoints[0])
	}
	way := passage{from: "a", to: "b", service: webKey, name: "imported-a-x", spec: multiclusterv1beta1.ServiceImportSpec{Type: multiclusterv1beta1.ClusterSetIP}}
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
	if collected(got) != nil {
		t.Error("it would be collected again")
	}
	way.to = "a"
	if imported(record, way).Endpoints[0].NodeName == nil {
		t.Error("in its own cluster an endpoint has lost its node")
	}
	way.away = true
	if e := imported(record, way).Endpoints[0]; *e.Conditions.Ready {
		t.Error("an endpoint of a cluster that is away is ready")
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
	if got := importedSliceName("a", "web-x", []string{"a", "b"}); got != "imported-a-web-x" {
		t.Errorf("got %s", got)
	}
	if one, two := importedSliceName("eu", "west-x", []string{"eu", "eu-west"}), importedSliceName("eu-west", "x", []string{"eu", "eu-west"}); one == two {
		t.Errorf("two slices are called %s", one)
	}
	if got := importedSliceName("a", strings.Repeat("x", 253), nil); len(got) > 253 {
		t.Errorf("a name of %d characters", len(got))
	}
	if multiclusterv1beta1.EndpointsRecordName("shop", "x") == networkingv1alpha1.CollectedWorkName("shop", "x") {
		t.Error("a MultiClusterService's record has the same name")
	}
}

func TestAddresses(t *testing.T) {
	v4, v6 := corev1.IPv4Protocol, corev1.IPv6Protocol
	cases := map[string]struct {
		kind     multiclusterv1beta1.ServiceImportType
		families []corev1.IPFamily
		derived  []string
		want     []string
	}{
		"one":                       {multiclusterv1beta1.ClusterSetIP, []corev1.IPFamily{v4}, []string{"10.0.0.1"}, []string{"10.0.0.1"}},
		"in the order of families":  {multiclusterv1beta1.ClusterSetIP, []corev1.IPFamily{v6, v4}, []string{"10.0.0.1", "fd00::1"}, []string{"fd00::1", "10.0.0.1"}},
		"of a family not exported":  {multiclusterv1beta1.ClusterSetIP, []corev1.IPFamily{v6}, []string{"10.0.0.1"}, nil},
		"families that nobody told": {multiclusterv1beta1.ClusterSetIP, nil, []string{"10.0.0.1"}, []string{"10.0.0.1"}},
		"headless":                  {multiclusterv1beta1.Headless, nil, []string{"10.0.0.1"}, nil},
		"about to be headless":      {multiclusterv1beta1.ClusterSetIP, nil, []string{"None"}, nil},
		"none yet":                  {multiclusterv1beta1.ClusterSetIP, nil, nil, nil},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			spec := &multiclusterv1beta1.ServiceImportSpec{Type: c.kind, IPFamilies: c.families}
			got := addressesFor(spec, &corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: c.derived}})
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestImportStatus(t *testing.T) {
	object := importObject(webKey, *clustersetOf("a"))
	cases := map[string]struct {
		ips     []string
		refusal string
		want    string
	}{
		"an address":                {[]string{"10.0.0.1"}, "", "Ready"},
		"no address":                {nil, "", "Pending"},
		"refused":                   {nil, "Service shop/derived-web: it is somebody else's", "Pending"},
		"families it does not have": {nil, `Service "derived-web" is invalid: spec.ipFamilies[0]: not configured on this cluster`, "IPFamilyNotSupported"},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			status := importStatus(object, []string{"a", "b"}, c.ips, c.refusal, noon)
			if got := status.Conditions[0].Reason; got != c.want || (status.Conditions[0].Status == metav1.ConditionTrue) != (c.want == "Ready") {
				t.Errorf("the condition is %+v, want %s", status.Conditions[0], c.want)
			}
			if len(status.Clusters) != 2 || status.EndpointSliceObjects != multiclusterv1beta1.EndpointSliceObjectsPresent {
				t.Errorf("the status is %+v", status)
			}
		})
	}
}

// TestNamespaceScope: all slices of a namespace that belong to Services, and none that came from another cluster.
func TestNamespaceScope(t *testing.T) {
	got := scope{Namespace: "shop"}.selector()
	for _, part := range []string{discoveryv1.LabelServiceName, "notin", networkingv1alpha1.EndpointSliceControllerLabelValue, networkingv1alpha1.EndpointSliceDispatchControllerLabelValue} {
		if !strings.Contains(got, part) {
			t.Errorf("the selector %q lacks %q", got, part)
		}
	}
}
