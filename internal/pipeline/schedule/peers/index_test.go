package peers_test

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/peers"
)

func binding(namespace, name, affinity, anti string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if affinity != "" || anti != "" {
		b.Spec.WorkloadAffinityGroups = &workv1alpha2.WorkloadAffinityGroups{AffinityGroup: affinity, AntiAffinityGroup: anti}
	}
	return b
}

func keyOf(b *workv1alpha2.ResourceBinding) types.NamespacedName {
	return types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
}

func targets(names ...string) (out []workv1alpha2.TargetCluster) {
	for _, name := range names {
		out = append(out, workv1alpha2.TargetCluster{Name: name})
	}
	return out
}

func clustersOf(p *decision.Peers) []string {
	if p == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(p.Clusters))
}

func TestPlaceReturnsChangesOfGroups(t *testing.T) {
	index := peers.New()
	for _, step := range []struct {
		name    string
		binding *workv1alpha2.ResourceBinding
		at      []string
		changed bool
	}{
		{"in no group", binding("ns", "alone", "", ""), []string{"a"}, false},
		{"first", binding("ns", "one", "g", ""), []string{"a"}, true},
		{"same", binding("ns", "one", "g", ""), []string{"a"}, false},
		{"moved", binding("ns", "one", "g", ""), []string{"b"}, true},
		{"another group", binding("ns", "one", "h", ""), []string{"b"}, true},
		{"out of its group", binding("ns", "one", "", ""), []string{"b"}, true},
		{"still in no group", binding("ns", "one", "", ""), []string{"a"}, false},
	} {
		if got := index.Place(keyOf(step.binding), step.binding, targets(step.at...)); got != step.changed {
			t.Errorf("%s: changed is %v, want %v", step.name, got, step.changed)
		}
	}
}

func TestFillHasTheOtherMembersOfTheGroups(t *testing.T) {
	index := peers.New()
	own := binding("ns", "own", "g", "h")
	for _, other := range []struct {
		binding *workv1alpha2.ResourceBinding
		at      []string
	}{
		{own, []string{"own"}},
		{binding("ns", "together", "g", ""), []string{"a", "b"}},
		{binding("ns", "also", "g", ""), []string{"b", "c"}},
		{binding("ns", "apart", "", "h"), []string{"d"}},
		{binding("ns", "crossed", "h", "g"), []string{"e"}},
		{binding("other", "elsewhere", "g", "h"), []string{"f"}},
	} {
		index.Place(keyOf(other.binding), other.binding, targets(other.at...))
	}
	for _, step := range []struct {
		remove          string
		together, apart []string
	}{
		{"", []string{"a", "b", "c"}, []string{"d"}},
		{"also", []string{"a", "b"}, []string{"d"}},
		{"apart", []string{"a", "b"}, nil},
	} {
		if step.remove != "" && !index.Remove(types.NamespacedName{Namespace: "ns", Name: step.remove}) {
			t.Errorf("%s was in no group", step.remove)
		}
		var request decision.Request
		index.Fill(&request, keyOf(own), own)
		if got := clustersOf(request.AffinityPeers); !slices.Equal(got, step.together) {
			t.Errorf("without %q: the same group is in %v, want %v", step.remove, got, step.together)
		}
		if got := clustersOf(request.AntiAffinityPeers); !slices.Equal(got, step.apart) {
			t.Errorf("without %q: the other group is in %v, want %v", step.remove, got, step.apart)
		}
	}
	if index.Remove(types.NamespacedName{Namespace: "ns", Name: "absent"}) {
		t.Error("a binding that was never placed was in a group")
	}
}
