package exportwork

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func TestVerdict(t *testing.T) {
	for text, given := range map[string]bool{"": false, "not JSON": false, `{"message":"m","obstacles":"o","reasons":["PortConflict"]}`: true} {
		record := must(ExportRecord("a", webExport(), corev1.ServiceSpec{}, nil))
		if text != "" {
			record.Annotations = map[string]string{multiclusterv1beta1.VerdictAnnotation: text}
		}
		verdict, ok := ReadVerdict(record)
		if ok != given || given && (verdict.Message != "m" || verdict.Obstacles != "o" || !slices.Equal(verdict.Reasons, []multiclusterv1beta1.ConflictReason{multiclusterv1beta1.PortConflict})) {
			t.Errorf("%q is read as %+v, %v", text, verdict, ok)
		}
	}
	if _, ok := ReadVerdict(nil); ok {
		t.Error("an export without a record has a verdict")
	}
}

// TestEditedRecordsAreNotRead: others may have changed a record; half of an export is none.
func TestEditedRecordsAreNotRead(t *testing.T) {
	for what, edit := range map[string]func([]workv1alpha1.Manifest) []workv1alpha1.Manifest{
		"without the Service": func(m []workv1alpha1.Manifest) []workv1alpha1.Manifest { return m[:1] },
		"not JSON":            func(m []workv1alpha1.Manifest) []workv1alpha1.Manifest { m[1].Raw = []byte("{"); return m },
	} {
		record := must(ExportRecord("a", webExport(), corev1.ServiceSpec{}, nil))
		record.Spec.Workload.Manifests = edit(record.Spec.Workload.Manifests)
		if export, err := ReadExport(record); err == nil {
			t.Errorf("%s: it is read as %+v", what, export)
		}
	}
}

// TestExportedSlices: the exporting cluster imports its slices too, so that their nodes are recorded; a slice from another cluster is not.
func TestExportedSlices(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, NodeName: new("node-1")}},
	}
	if got := Exported(slice); got == nil || got.Endpoints[0].NodeName == nil || *got.Endpoints[0].NodeName != "node-1" {
		t.Errorf("what is recorded is %+v, want the node too", got)
	}
	slice.Labels[discoveryv1.LabelManagedBy] = networkingv1alpha1.EndpointSliceControllerLabelValue
	if got := Exported(slice); got != nil {
		t.Errorf("a slice that came from another cluster is recorded: %+v", got)
	}
}

func TestRefusal(t *testing.T) {
	work := &workv1alpha1.Work{}
	if got := Refusal(work); got != nil {
		t.Errorf("before the first attempt it is refused: %+v", got)
	}
	work.Status.Conditions = []metav1.Condition{workv1alpha1.Applied(1)}
	if got := Refusal(work); got != nil {
		t.Errorf("what is applied is refused: %+v", got)
	}
	work.Status.Conditions = []metav1.Condition{workv1alpha1.FamilyUnsupported(1, "no IPv6")}
	if got := Refusal(work); got == nil || got.Message != "no IPv6" || got.Reason != workv1alpha1.AppliedFamilyUnsupportedReason {
		t.Errorf("the refusal is %+v", got)
	}
}

// TestLists: Works are found by the service, the cluster and the record that they are about; a service in several clusters is listed once.
func TestLists(t *testing.T) {
	web, slice := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "web-1"}
	other := webExport()
	other.Namespace = "other"
	imported := workv1alpha1.NewWork(endpointslices.WorkKey("b", "imported"), nil)
	endpointslices.SetSlice(imported, multiclusterv1beta1.KindServiceExport, Labels(web, multiclusterv1beta1.RoleImportedEndpoints), slice)
	imported.AddAnnotations(map[string]string{networkingv1alpha1.EndpointSliceProvisionClusterAnnotation: "a"})
	reader := fleettest.InMemory(t, []fleettest.Index{AddIndexes},
		must(ExportRecord("a", webExport(), corev1.ServiceSpec{}, nil)), must(ExportRecord("b", webExport(), corev1.ServiceSpec{}, nil)),
		must(ExportRecord("a", other, corev1.ServiceSpec{}, nil)), EndpointsRecord("a", web, slice, []byte("{}"), nil), imported).Client
	for what, tc := range map[string]struct {
		works []*workv1alpha1.Work
		want  int
	}{
		"of a service": {must(ListOf(t.Context(), reader, web)), 4}, "records of a cluster": {must(ListRecords(t.Context(), reader, "a")), 3},
		"records of the other cluster": {must(ListRecords(t.Context(), reader, "b")), 1}, "made from a slice": {must(ListFrom(t.Context(), reader, EndpointsKey("a", slice))), 1},
	} {
		if len(tc.works) != tc.want {
			t.Errorf("%s: %d Works, want %d", what, len(tc.works), tc.want)
		}
	}
	for namespace, want := range map[string]int{"": 2, "shop": 1, "none": 0} {
		if services := must(ListServices(t.Context(), reader, namespace)); len(services) != want {
			t.Errorf("services of namespace %q are %v, want %d", namespace, services, want)
		}
	}
	if source := must(ListFrom(t.Context(), reader, EndpointsKey("a", slice)))[0]; client.ObjectKeyFromObject(source) != client.ObjectKeyFromObject(imported) {
		t.Errorf("made from the slice is %s", client.ObjectKeyFromObject(source))
	}
}
