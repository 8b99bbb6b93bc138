package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/examples"
)

func deployment(replicas, ready, generation, observed int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "nginx", "generation": generation},
		"spec":     map[string]any{"replicas": replicas},
		"status":   map[string]any{"readyReplicas": ready, "observedGeneration": observed},
	}}
}

func binding(edit ...func(*workv1alpha2.ResourceBinding)) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{}
	for _, e := range edit {
		e(b)
	}
	return b
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) {
		b.Status.Conditions = append(b.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func target(name string, replicas int32) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: name, Replicas: replicas})
	}
}

func item(cluster string, applied bool, message, status string) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) {
		b.Status.AggregatedStatus = append(b.Status.AggregatedStatus, workv1alpha2.AggregatedStatusItem{
			ClusterName: cluster, Applied: applied, AppliedMessage: message, Status: &runtime.RawExtension{Raw: []byte(status)},
		})
	}
}

func TestJourneyReportsWhatIsMissing(t *testing.T) {
	scheduled := condition(workv1alpha2.Scheduled, metav1.ConditionTrue, "Success", "")
	fully := condition(workv1alpha2.FullyApplied, metav1.ConditionTrue, "FullyAppliedSuccess", "")
	cases := map[string]struct {
		reason   string
		template *unstructured.Unstructured
		binding  *workv1alpha2.ResourceBinding
		want     string
	}{
		"Gone":      {reason: "a user may delete it in between", want: "it does not exist"},
		"Unclaimed": {reason: "the first step is a binding", template: deployment(5, 0, 1, 0), want: "no binding"},
		"NotScheduled": {
			reason: "the scheduler's own words are the reason", template: deployment(5, 0, 1, 0),
			binding: binding(condition(workv1alpha2.Scheduled, metav1.ConditionFalse, "NoClusterFit", "0/2 clusters are available")),
			want:    "NoClusterFit): 0/2 clusters are available",
		},
		"NotYetScheduled": {reason: "no word is not success", template: deployment(5, 0, 1, 0), binding: binding(), want: "not scheduled yet"},
		"NotApplied": {
			reason: "the message of one cluster has more than the sum", template: deployment(5, 0, 1, 0),
			binding: binding(scheduled, target("member1", 5), item("member1", false, "namespace is terminating", "{}"),
				condition(workv1alpha2.FullyApplied, metav1.ConditionFalse, "FullyAppliedFailed", "see status")),
			want: "member1: namespace is terminating",
		},
		"NotReady": {
			reason: "applied is not running", template: deployment(5, 3, 1, 1),
			binding: binding(scheduled, fully, target("member1", 5)), want: "3 of 5 replicas",
		},
		"StaleStatus": {
			reason: "a status of the generation before says nothing", template: deployment(5, 5, 2, 1),
			binding: binding(scheduled, fully, target("member1", 5)), want: "5 of 5 replicas",
		},
		"Over": {reason: "all is back", template: deployment(5, 5, 2, 2), binding: binding(scheduled, fully, target("member1", 5))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := look("Deployment", "nginx", tc.template, tc.binding).missing
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestTableShowsEveryClusterAndTheSum(t *testing.T) {
	journeys := []journey{
		look("Deployment", "nginx", deployment(5, 4, 1, 1), binding(target("member2", 2), target("member1", 3),
			item("member1", true, "", `{"readyReplicas":3}`), item("member2", true, "", `{"readyReplicas":1}`))),
		look("Service", "nginx", &unstructured.Unstructured{Object: map[string]any{}}, nil),
	}
	want := `TEMPLATE           CLUSTER   REPLICAS   APPLIED   READY
deployment/nginx   member1   3          yes       3/3
                   member2   2          yes       1/2
                   all       5                    4/5
service/nginx      -         -          -         -
`
	if diff := cmp.Diff(want, table(journeys)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestScreenRedrawsOrPrintsLines(t *testing.T) {
	before := []journey{{name: "service/nginx"}}
	after := []journey{{name: "service/nginx", stops: []stop{{cluster: "member1", applied: true}}}}

	var drawn strings.Builder
	terminal := &screen{out: &drawn, redraw: true}
	terminal.show(before)
	length := drawn.Len()
	terminal.show(before)
	if drawn.Len() != length {
		t.Error("drew the same table again")
	}
	terminal.show(after)
	if !strings.Contains(drawn.String()[length:], "\x1b[2A") {
		t.Errorf("did not go up over the two lines drawn before: %q", drawn.String()[length:])
	}

	var printed strings.Builder
	pipe := &screen{out: &printed}
	pipe.show(before)
	pipe.show(after)
	pipe.show(after)
	if want := "service/nginx → member1: applied\n"; printed.String() != want {
		t.Errorf("printed %q, want %q", printed.String(), want)
	}
}

// TestExampleDividesOverTheFirstMembers: the demo is the first thing a person sees; it must fit a playground of two.
func TestExampleDividesOverTheFirstMembers(t *testing.T) {
	manifests, err := examples.Nginx()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, manifest := range manifests {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(manifest, &object.Object); err != nil {
			t.Fatal(err)
		}
		if object.GetName() != "nginx" || object.GetNamespace() != "" {
			t.Errorf("%s is called %s/%s, want a namespace-less nginx", object.GetKind(), object.GetNamespace(), object.GetName())
		}
		kinds[object.GetKind()] = true
	}
	if diff := cmp.Diff(map[string]bool{"Deployment": true, "Service": true, "PropagationPolicy": true}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}
