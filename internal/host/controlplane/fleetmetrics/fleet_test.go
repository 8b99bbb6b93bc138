package fleetmetrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// TestAgentCertificates: clusters in Pull mode whose agents report when their certificate expires have a sample, and no others.
func TestAgentCertificates(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1alpha1.AddToScheme, workv1alpha1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var objects []client.Object
	for name, tc := range map[string]struct {
		mode   clusterv1alpha1.ClusterSyncMode
		expiry string
	}{
		"far": {clusterv1alpha1.Pull, "2026-01-01T00:00:00Z"}, "silent": {clusterv1alpha1.Pull, ""}, "odd": {clusterv1alpha1.Pull, "tomorrow"},
		"pushed": {clusterv1alpha1.Push, "2026-01-01T00:00:00Z"},
	} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, clusterv1alpha1.AgentCertificateExpiryAnnotation, tc.expiry)
		objects = append(objects, lease, &clusterv1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: tc.mode},
		})
	}
	objects = append(objects, &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull},
	})
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	const metric = "flagship_agent_certificate_expiry_timestamp_seconds"
	want := `# HELP ` + metric + ` When the certificate of the agent of a cluster expires, as the agent reports it, in seconds since 1970.
# TYPE ` + metric + ` gauge
` + metric + `{cluster="far"} 1.7672256e+09
`
	if err := testutil.CollectAndCompare(New(reader, func() error { return nil }), strings.NewReader(want), metric); err != nil {
		t.Error(err)
	}
}
