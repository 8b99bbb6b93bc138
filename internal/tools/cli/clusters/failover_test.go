package clusters

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// failed is when the cluster m2 of these tests failed.
var failed = metav1.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)

// failedFleet has m1, which is ready, and m2, which failed and whose evictions are held.
func failedFleet(t *testing.T) *fleettest.ObjectServer {
	t.Helper()
	m2 := cluster("m2")
	meta.SetStatusCondition(&m2.Status.Conditions, metav1.Condition{
		Type: clusterv1alpha1.ClusterConditionReady, Status: metav1.ConditionFalse, Reason: "Test", LastTransitionTime: failed})
	meta.SetStatusCondition(&m2.Status.Conditions, clusterv1alpha1.EvictionHeld(clusterv1alpha1.ZoneDisruptedReason, "3 of 4"))
	return hub(t, cluster("m1", clusterv1alpha1.ClusterConditionReady), m2)
}

func TestAPersonDecidesAboutFailover(t *testing.T) {
	const released, fenced = clusterv1alpha1.EvictionsReleasedUntilAnnotation, clusterv1alpha1.FencedAnnotation
	for args, tc := range map[string]struct {
		code      int
		out, errs string // the output begins with, and the errors end with them
		want      map[string]string
	}{
		"release m1":                 {0, "objects may leave cluster m1 until 2", "", map[string]string{"m1": released}},
		"release --all --for 2h":     {0, "objects may leave cluster m2 until 2", "", map[string]string{"m2": released}},
		"release":                    {2, "", "release needs either the names of clusters or --all\n", nil},
		"release m2 --for 25h":       {2, "", "--for must be more than 0 and at most 24h0m0s\n", nil},
		"release absent":             {1, "", `reading cluster "absent": clusters.cluster.karmada.io "absent" not found` + "\n", nil},
		"fence m2 --confirm":         {0, "cluster m2 is fenced until it is ready again\n", "", map[string]string{"m2": fenced}},
		"fence m2":                   {2, "", "Then run the command again with --confirm\n", nil},
		"fence m1 m2 --confirm":      {1, "cluster m2 is fenced", `cluster "m1" has not failed: only a cluster that is not ready can be fenced` + "\n", map[string]string{"m2": fenced}},
		"fence absent --confirm":     {1, "", `there is no cluster "absent"` + "\n", nil},
		"fence --confirm":            {2, "", "usage: flagship failover fence NAME... [flags]\n", nil},
		"relase m1":                  {2, "", "run 'flagship failover --help' for what they do\n", nil},
		"status --output wide extra": {2, "", "", nil},
	} {
		t.Run(args, func(t *testing.T) {
			server := failedFleet(t)
			code, out, errs := run(strings.Fields("failover " + args)...)
			if code != tc.code || !strings.HasPrefix(out, tc.out) || (tc.out == "") != (out == "") || !strings.HasSuffix(errs, tc.errs) || (code == 0) != (errs == "") {
				t.Errorf("code %d, output %q, errors %q; want %d, %q, %q", code, out, errs, tc.code, tc.out, tc.errs)
			}
			for _, name := range []string{"m1", "m2"} {
				annotations := stored(t, server, name).Annotations
				if want := tc.want[name]; want == "" && len(annotations) > 0 || want != "" && (len(annotations) != 1 || annotations[want] == "") {
					t.Errorf("annotations of %s are %v, want %q only", name, annotations, want)
				}
			}
			if c := stored(t, server, "m2"); c.Annotations[fenced] != "" && (c.Annotations[fenced] != failed.UTC().Format(time.RFC3339) || !clusterv1alpha1.IsFenced(c)) {
				t.Errorf("m2 is fenced since %s, want the time at which it failed", c.Annotations[fenced])
			}
		})
	}
}

func TestWhatFailoverWaitsFor(t *testing.T) {
	server := failedFleet(t)
	add := func(name string, task bool, conditions ...metav1.Condition) {
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name + "-statefulset"}}
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: "shop", Name: name}
		if task {
			b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: "m2", Message: "it failed"}}
		}
		b.Status.Conditions = conditions
		server.Add(t, "/apis/work.karmada.io/v1alpha2/resourcebindings", workv1alpha2.GroupVersion.WithKind("ResourceBinding"), b)
	}
	add("calm", false)
	add("moves", true)
	add("held", false, workv1alpha2.EvictionHeldCondition(1, workv1alpha2.AwaitsEndReason, "fence it"))
	add("state", false, workv1alpha2.StateNotPreservedCondition(1, workv1alpha2.StateNotReadableReason, "no\x1b[2J\nlabel"))
	const want = "CLUSTER   KIND          NAMESPACE   NAME    REASON             MESSAGE\n" +
		"m2        Cluster       -           m2      ZoneDisrupted      3 of 4\n" +
		"-         StatefulSet   shop        held    AwaitsEnd          fence it\n" +
		"m2        StatefulSet   shop        moves   Leaving            it failed\n" +
		"-         StatefulSet   shop        state   StateNotReadable   no?[2J?label\n"
	if code, out, errs := run("failover", "status"); code != 0 || out != want || errs != "" {
		t.Errorf("code %d, errors %q, output\n%s\nwant\n%s", code, errs, out, want)
	}
	code, out, _ := run("failover", "status", "-o", "json")
	var got []membership.Waiting
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got) != 4 || got[2].Clusters[0] != "m2" {
		t.Errorf("code %d, %v, output\n%s", code, err, out)
	}
}

// The last line of a refusal has the right that is missing.
func TestFailoverNeedsTheRightToChangeClusters(t *testing.T) {
	for _, args := range []string{"failover fence m2 --confirm", "failover release m2"} {
		server := failedFleet(t)
		server.Handle("PATCH "+clustersPath+"/m2", func(w http.ResponseWriter, _ *http.Request) {
			fleettest.WriteJSON(w, http.StatusForbidden, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: "no"})
		})
		code, out, errs := run(strings.Fields(args)...)
		lines := strings.Split(strings.TrimSpace(errs), "\n")
		if code != 1 || out != "" || !strings.HasSuffix(lines[len(lines)-1], "needs the verbs get, list and patch for clusters.cluster.karmada.io; ask an operator of the control plane") {
			t.Errorf("%s: code %d, output %q, errors %q", args, code, out, errs)
		}
	}
}
