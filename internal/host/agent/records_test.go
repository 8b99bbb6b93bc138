package agent_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/host/admission/agents"
)

// TestRecordsOfCollectorsAreAdmitted: admission takes exactly what the collectors write, with every field that they keep.
func TestRecordsOfCollectorsAreAdmitted(t *testing.T) {
	plugin := agents.New(nil, nil)
	agent := &user.DefaultInfo{Name: clusterv1alpha1.AgentUser("eu"), Groups: clusterv1alpha1.AgentGroups("1")}
	admit := func(what string, work *workv1alpha1.Work) {
		t.Helper()
		work.AddLabels(map[string]string{workv1alpha1.WorkPermanentIDLabel: "id"}) // as admission stamps it before
		a := admission.NewAttributesRecord(work, nil, workv1alpha1.GroupVersion.WithKind(workv1alpha1.KindWork), work.Namespace, work.Name,
			workv1alpha1.GroupVersion.WithResource("works"), "", admission.Create, nil, false, agent)
		if err := plugin.Validate(t.Context(), a, nil); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	service := types.NamespacedName{Namespace: "shop", Name: "web"}
	mcs := &networkingv1alpha1.MultiClusterService{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Labels: map[string]string{networkingv1alpha1.MultiClusterServicePermanentIDLabel: "id"},
	}}
	for _, name := range []string{"web-x7k2p", "web-" + strings.Repeat("x", 100)} { // the second is too long for a label
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: name, UID: "u", Annotations: map[string]string{"a": "b"}, OwnerReferences: []metav1.OwnerReference{{Kind: "Service"}},
				Labels: map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io", corev1.IsHeadlessService: "", "team": "a"},
			},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP), AppProtocol: new("h2c")}},
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{"10.0.0.1"}, Hostname: new("web-0"), NodeName: new("n"), Zone: new("z"), TargetRef: &corev1.ObjectReference{Kind: "Pod"},
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)}, Hints: &discoveryv1.EndpointHints{},
			}},
		}
		key := types.NamespacedName{Namespace: "shop", Name: name}
		raw := func(s *discoveryv1.EndpointSlice) []byte {
			data, err := endpointslices.Encode(s)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		admit("a collected slice", mcswork.Collected("eu", mcswork.OwnerLabels(mcs), key, raw(endpointslices.Collected(slice)), nil))
		admit("an exported slice", exportwork.EndpointsRecord("eu", service, key, raw(exportwork.Exported(slice)), nil))
	}
	export := &multiclusterv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u", CreationTimestamp: metav1.NewTime(time.Unix(1, 0)), Labels: map[string]string{"a": "b"},
	}, Spec: multiclusterv1beta1.ServiceExportSpec{ExportedLabels: map[string]string{"a": "b"}}, Status: multiclusterv1beta1.ServiceExportStatus{Conditions: []metav1.Condition{{Type: "Valid"}}}}
	full := corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ClusterIP: corev1.ClusterIPNone, SessionAffinity: corev1.ServiceAffinityClientIP, IPFamilies: []corev1.IPFamily{"IPv4", "IPv6"},
		SessionAffinityConfig: &corev1.SessionAffinityConfig{}, InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyLocal), TrafficDistribution: new("PreferClose"),
		Selector: map[string]string{"a": "b"}, ExternalIPs: []string{"10.0.0.1"}, Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, AppProtocol: new("h2c"), Port: 80, NodePort: 30000}},
	}
	record, err := exportwork.ExportRecord("eu", export, exportwork.ExportedSpec(&full), nil)
	if err != nil {
		t.Fatal(err)
	}
	admit("an export", record)
}
