package addresses

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/clusterset"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestAddresses(t *testing.T) {
	v4, v6 := corev1.IPv4Protocol, corev1.IPv6Protocol
	cases := map[string]struct {
		kind     multiclusterv1beta1.ServiceImportType
		families []corev1.IPFamily
		derived  []string
		want     []string
	}{
		"one":                         {multiclusterv1beta1.ClusterSetIP, []corev1.IPFamily{v4}, []string{"10.0.0.1"}, []string{"10.0.0.1"}},
		"in the order of families":    {multiclusterv1beta1.ClusterSetIP, []corev1.IPFamily{v6, v4}, []string{"10.0.0.1", "fd00::1"}, []string{"fd00::1", "10.0.0.1"}},
		"of a family not exported":    {multiclusterv1beta1.ClusterSetIP, []corev1.IPFamily{v6}, []string{"10.0.0.1"}, nil},
		"families that are not known": {multiclusterv1beta1.ClusterSetIP, nil, []string{"10.0.0.1"}, []string{"10.0.0.1"}},
		"headless":                    {multiclusterv1beta1.Headless, nil, []string{"10.0.0.1"}, nil},
		"about to be headless":        {multiclusterv1beta1.ClusterSetIP, nil, []string{"None"}, nil},
		"none yet":                    {multiclusterv1beta1.ClusterSetIP, nil, nil, nil},
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
	object := &multiclusterv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: webKey.Namespace, Name: webKey.Name}, Spec: clustersetOf("a").Spec}
	cases := map[string]struct {
		ips     []string
		refusal *metav1.Condition
		want    string
	}{
		"an address":                {[]string{"10.0.0.1"}, nil, "Ready"},
		"no address":                {nil, nil, "Pending"},
		"refused":                   {nil, new(workv1alpha1.NotApplied(1, "Service shop/derived-web: the field spec.ipFamilies belongs to another manager")), "Pending"},
		"families it does not have": {nil, new(workv1alpha1.FamilyUnsupported(1, `Service "derived-web" is invalid: spec.ipFamilies[0]: not configured on this cluster`)), "IPFamilyNotSupported"},
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

func clustersetOf(cluster string) *clusterset.Service {
	service := clusterset.Merge([]clusterset.Export{{Cluster: cluster, Service: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}})
	return &service
}

var webKey = types.NamespacedName{Namespace: "shop", Name: "web"}
