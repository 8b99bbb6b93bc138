package aggregate

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
)

// renaming converts from v1beta1, in which a field of the status has another name.
type renaming struct {
	conversion.Unchanged
	err error
}

func (r *renaming) From(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if r.err != nil {
		return nil, r.err
	}
	out := obj.DeepCopy()
	value, _, err := unstructured.NestedString(obj.Object, "status", "old")
	out.Object["status"] = map[string]any{"new": value}
	return out, err
}

// The agent of a cluster cannot convert a status: it is converted when it is aggregated. That of a cluster in Push mode is converted
// already.
func TestStatusesOfAgentsAreConverted(t *testing.T) {
	inBeta := func(w *workv1alpha1.Work) {
		w.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{
			Raw: []byte(`{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"}}`),
		}}}
		for i := range w.Status.ManifestStatuses {
			w.Status.ManifestStatuses[i].Identifier.Version = "v1beta1"
		}
	}
	good := []workOption{appliedAt(1), reporting(`{"old":"x"}`, workv1alpha1.ResourceHealthy), inBeta}
	s := newFixture(t, binding(), work("a", good...), work("b", good...))
	if err := clusterv1alpha1.AddToScheme(s.client.Scheme()); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]clusterv1alpha1.ClusterSyncMode{"a": clusterv1alpha1.Pull, "b": clusterv1alpha1.Push} {
		cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: mode}}
		if err := s.client.Create(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
	adviser := &renaming{}
	s.loop.conversion = adviser
	s.reconcile()
	s.expectWrites("both", "binding", "template")
	expect := func(reason, a, b string) {
		t.Helper()
		items := s.status().AggregatedStatus
		if got := [2]string{string(items[0].Status.Raw), string(items[1].Status.Raw)}; got != [2]string{a, b} {
			t.Errorf("%s: statuses %q, want %q and %q", reason, got, a, b)
		}
	}
	expect("converted", `{"new":"x"}`, `{"old":"x"}`)
	s.reconcile()
	s.expectWrites("nothing new")

	adviser.err = errors.New("the webhook does not answer")
	s.report("a", reporting(`{"old":"y"}`, workv1alpha1.ResourceHealthy), inBeta)
	s.report("b", reporting(`{"old":"y"}`, workv1alpha1.ResourceHealthy), inBeta)
	if _, err := s.loop.Reconcile(t.Context(), web); err == nil || !strings.Contains(err.Error(), "cluster a") {
		t.Errorf("the failure is %v, want one that names cluster a", err)
	}
	expect("a status that cannot be converted stays", `{"new":"x"}`, `{"old":"y"}`)
}
