package mcsapi

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func webExport() *multiclusterv1beta1.ServiceExport {
	return &multiclusterv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", Generation: 3, CreationTimestamp: metav1.NewTime(noon)},
		Spec:       multiclusterv1beta1.ServiceExportSpec{ExportedLabels: map[string]string{"team": "shop"}},
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
		"refused":        {service, noted(`{"refused":"not here"}`), []string{"Ready=False/Refused", "Valid=True/Valid"}},
		"not everywhere": {service, noted(`{"obstacles":"cluster b: there is another"}`), []string{"Conflict=False/NoConflicts", "Ready=True/Exported", "Valid=True/Valid"}},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			e := webExport()
			e.Status.Conditions = []metav1.Condition{{Type: "Others", Status: metav1.ConditionTrue, Reason: "x"}}
			conditions := exportConditions(e, validity(e, c.service), c.record, "", noon)
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
				t.Error("a condition of others is lost")
			}
			e.Status.Conditions = conditions
			if again := exportConditions(e, validity(e, c.service), c.record, "", noon.Add(time.Hour)); !cmp.Equal(conditions, again) {
				t.Errorf("they change with time:\n%s", cmp.Diff(conditions, again))
			}
		})
	}
}

// TestInvalidExportHasNoConflict: a conflict that was there goes with the Service.
func TestInvalidExportHasNoConflict(t *testing.T) {
	e := webExport()
	e.Status.Conditions = []metav1.Condition{multiclusterv1beta1.NoConflicts(1)}
	if got := exportConditions(e, validity(e, nil), nil, "", noon); meta.FindStatusCondition(got, multiclusterv1beta1.ExportConflict) != nil {
		t.Errorf("conditions are %+v", got)
	}
}
