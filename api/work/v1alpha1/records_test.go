package v1alpha1_test

import (
	"testing"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// TestIsRecord compares with what the two APIs of services return for their own Works.
func TestIsRecord(t *testing.T) {
	service, role, provider := networkingv1alpha1.MultiClusterServiceNameLabel, multiclusterv1beta1.ExportRoleLabel, networkingv1alpha1.EndpointSliceProvisionClusterAnnotation
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		want                bool
	}{
		"Template":        {nil, nil, false},
		"Provider":        {map[string]string{service: "web"}, nil, true},
		"DispatchedSlice": {map[string]string{service: "web"}, map[string]string{provider: "member1"}, false},
		"Export":          {map[string]string{role: multiclusterv1beta1.RoleExport}, nil, true},
		"Endpoints":       {map[string]string{role: multiclusterv1beta1.RoleEndpoints}, nil, true},
		"Events":          {map[string]string{workv1alpha1.EventsRecordLabel: "true"}, nil, true},
		"Import":          {map[string]string{role: "import"}, nil, false},
	} {
		work := &workv1alpha1.Work{}
		work.Labels, work.Annotations = tc.labels, tc.annotations
		theirs := networkingv1alpha1.IsRecord(work) || multiclusterv1beta1.IsRecord(work)
		theirs = theirs || tc.labels[workv1alpha1.EventsRecordLabel] != ""
		if got := workv1alpha1.IsRecord(work); got != tc.want || theirs != tc.want {
			t.Errorf("%s: it is a record: %t, by the APIs of services %t, want %t", name, got, theirs, tc.want)
		}
	}
}
