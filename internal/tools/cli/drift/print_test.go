package drift

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

func TestAnswersFitATerminal(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	at := ago(2 * time.Minute)
	status := &fleetv1alpha1.DriftReportStatus{
		OmittedObjects: 3, Unanswered: []fleetv1alpha1.UnansweredCluster{{Name: "far", Message: "the agent is away"}},
		Objects: []fleetv1alpha1.DriftedObject{{
			Object: fleetv1alpha1.ObjectIdentity{Kind: "Deployment", Namespace: "shop", Name: "web"}, Cluster: "member1", Mode: "Repair",
			Since: ago(3 * time.Minute), PutBack: 7, Recent: []fleetv1alpha1.PutBack{{Time: ago(time.Second)}, {Time: ago(5 * time.Second)}},
			Fields: []fleetv1alpha1.DriftedField{
				{Path: "/spec/replicas", Wanted: "2", Found: "5", Manager: "kubectl\x1b[2J", Time: &at, Outcome: fleetv1alpha1.DriftPutBack},
				{Path: "/spec/" + strings.Repeat("x", 200), Found: "true", Outcome: fleetv1alpha1.DriftLeft},
			}, OmittedFields: 2,
		}, {
			Object: fleetv1alpha1.ObjectIdentity{Kind: "Namespace", Name: "shop"}, Cluster: "member2", Since: ago(time.Hour), PutBack: 1, ValuesHidden: "values need more",
			Fields: []fleetv1alpha1.DriftedField{{Path: "/metadata/labels/a", Manager: "x", Outcome: fleetv1alpha1.DriftPaused}},
		}, {
			Object: fleetv1alpha1.ObjectIdentity{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}, Cluster: "member3", Since: ago(time.Hour), PutBack: 1,
			Fields: []fleetv1alpha1.DriftedField{{Path: "/", Time: &at, Outcome: fleetv1alpha1.DriftCreatedAgain}},
		}},
	}
	want := `member1  Deployment shop/web  since 3m ago  policy: Repair
  put back  /spec/replicas  by kubectl?[2J 2m ago
            wanted 2, found 5
  left      /spec/` + strings.Repeat("x", 91) + `…
            wanted nothing, found true
  and 2 more fields
  put back 7 times; lately 1s ago, 5s ago
member2  Namespace shop  since 60m ago
  paused    /metadata/labels/a  by x
  values need more
member3  ConfigMap shop/settings  since 60m ago
  created again  2m ago, after others deleted it
and 3 more objects: name a namespace, a type or a cluster
far is not known: the agent is away
`
	if diff := cmp.Diff(want, table(status, now)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := table(&fleetv1alpha1.DriftReportStatus{}, now); !strings.HasPrefix(got, "Nothing that you may get") {
		t.Errorf("without drift: %s", got)
	}
}
