package exportwork

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
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
	record := must(ExportRecord("a", webExport(), ExportedSpec(&spec), nil))
	if !multiclusterv1beta1.IsRecord(record) || networkingv1alpha1.IsRecord(record) || !*record.Spec.SuspendDispatching {
		t.Errorf("the record has labels %v; want one of an export, suspended", record.Labels)
	}
	record.CreationTimestamp = metav1.NewTime(noon.Add(time.Hour)) // by the control plane
	got := must(ReadExport(record))
	if got.Cluster != "a" || !got.Recorded.Equal(noon.Add(time.Hour)) || got.Labels["team"] != "shop" {
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
	if again := must(ExportRecord("a", webExport(), ExportedSpec(&spec), stored)); !cmp.Equal(stored, again) {
		t.Errorf("the same export gives another record:\n%s", cmp.Diff(stored, again))
	}
	spec.ClusterIP = corev1.ClusterIPNone
	if headless := must(ReadExport(must(ExportRecord("a", webExport(), ExportedSpec(&spec), record)))); headless.Service.ClusterIP != corev1.ClusterIPNone {
		t.Error("that it is headless was lost")
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
