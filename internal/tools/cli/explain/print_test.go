package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

func TestAnswersFitATerminal(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago, soon := metav1.NewTime(now.Add(-3*time.Minute)), metav1.NewTime(now.Add(90*time.Second))
	status := &fleetv1alpha1.ExplanationStatus{
		Object:          &fleetv1alpha1.ObjectIdentity{Kind: "Deployment", Namespace: "shop", Name: "web"},
		Summary:         "Binding waits: " + strings.Repeat("word ", 40),
		OmittedClusters: 3,
		Steps: []fleetv1alpha1.ExplanationStep{
			{Stage: fleetv1alpha1.StageTemplate, Outcome: fleetv1alpha1.OutcomeDone, Actor: "kubectl", Time: &ago, Object: &fleetv1alpha1.ObjectIdentity{Kind: "Deployment", Name: "web"}},
			{Stage: fleetv1alpha1.StageBinding, Outcome: fleetv1alpha1.OutcomeWaiting, Reason: "Unschedulable", Message: "no replica fits", NextTry: &soon},
			{Stage: fleetv1alpha1.StageCluster, Cluster: "m1", Outcome: fleetv1alpha1.OutcomeDropped, Reason: "NoReplicas", Message: "no replica fits", Available: ptr.To(int32(0)),
				Remedies: []string{"1 cpu more"}, Scores: []fleetv1alpha1.ClusterScore{{Scorer: "ClusterLocality", Points: 7}}},
			{Stage: fleetv1alpha1.StageOverride, Cluster: "m1", Outcome: fleetv1alpha1.OutcomeDone, Fields: []fleetv1alpha1.FieldEdit{{Path: "/a", To: `"x"`}, {Path: ".spec"}}},
			{Stage: fleetv1alpha1.StageWork, Outcome: fleetv1alpha1.OutcomeHidden, Message: "needs get on works.work.karmada.io"},
		},
	}
	want := `Deployment shop/web
Binding waits: word word word word word word word word word word word word word word word word word word word
word word word word word word word word word word word word word word word word word word word word word
ok      template    (kubectl, 3m ago)
wait    binding     Unschedulable: no replica fits (next try in 90s)
hidden  work        needs get on works.work.karmada.io
cluster m1
  no      cluster     NoReplicas: no replica fits; 0 more fit, ClusterLocality 7
                      to let it in: 1 cpu more
  ok      override
                      /a: nothing → "x"
                      .spec
and 3 more clusters: name one with --cluster
`
	got := tree(status, now)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, text := range []string{got, table(status, now)} {
		for _, line := range strings.Split(text, "\n") {
			if len([]rune(line)) > width {
				t.Errorf("%d letters wide: %s", len([]rune(line)), line)
			}
		}
	}
}
