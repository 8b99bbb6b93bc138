package apply

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// TestAppliedNamesFieldsThatTheMemberLacks: also after a restart, which does not know any more which they are.
func TestAppliedNamesFieldsThatTheMemberLacks(t *testing.T) {
	plain, without := workv1alpha1.Applied(2), workv1alpha1.AppliedWithout(2, "Pod a/b: .spec.x, .spec.y; Pod a/c: .spec.z")
	dropped := []outcome{{what: "Pod a/b", dropped: []string{".spec.x", ".spec.y"}, unknownFields: true}, {what: "Pod a/c", dropped: []string{".spec.z"}, unknownFields: true}, {what: "Pod a/d"}}
	for name, tc := range map[string]struct {
		present []metav1.Condition
		results []outcome
		want    metav1.Condition
	}{
		"nothing is left out":      {nil, []outcome{{}}, plain},
		"fields are left out":      {[]metav1.Condition{plain}, dropped, without},
		"after a restart":          {[]metav1.Condition{without}, []outcome{{unknownFields: true}}, without},
		"after an upgrade":         {[]metav1.Condition{without}, []outcome{{}}, plain},
		"of an earlier generation": {[]metav1.Condition{workv1alpha1.AppliedWithout(1, "x")}, []outcome{{unknownFields: true}}, plain},
		"after it was not applied": {[]metav1.Condition{workv1alpha1.NotApplied(2, "x")}, []outcome{{unknownFields: true}}, plain},
	} {
		if got := appliedCondition(2, tc.present, tc.results); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
