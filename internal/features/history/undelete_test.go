package history

import (
	"testing"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

// TestRightsOnWhatWasDeletedWithItsNamespace: the rights of the next tenant of a namespace do not reach what the last one deleted there.
func TestRightsOnWhatWasDeletedWithItsNamespace(t *testing.T) {
	inNamespace := func(r explain.Right) bool { return r.Namespace == "shop" }
	policy := map[string]any{"kind": "PropagationPolicy", "metadata": map[string]any{"namespace": "shop", "name": "web"}}
	for foreign, want := range map[bool]bool{false: true, true: false} {
		f := found{ref: hubstore.Ref{Namespace: "shop", Name: "web"}, foreign: foreign}
		v := f.view(inNamespace)
		if got := v.Policy(policy); got != want {
			t.Errorf("foreign %v: the policy is visible: %v, want %v", foreign, got, want)
		}
		if v.Clusters != want {
			t.Errorf("foreign %v: the clusters are visible: %v, want %v", foreign, v.Clusters, want)
		}
	}
}
