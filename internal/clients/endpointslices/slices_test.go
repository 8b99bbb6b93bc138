package endpointslices

import (
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
)

// TestNamespaceScope: all slices of a namespace that belong to Services, and none that came from another cluster.
func TestNamespaceScope(t *testing.T) {
	got := Scope{Namespace: "shop"}.selector()
	for _, part := range []string{discoveryv1.LabelServiceName, "notin", networkingv1alpha1.EndpointSliceControllerLabelValue, networkingv1alpha1.EndpointSliceDispatchControllerLabelValue} {
		if !strings.Contains(got, part) {
			t.Errorf("the selector %q lacks %q", got, part)
		}
	}
}

func TestWatchKeepsWhatRecordsHave(t *testing.T) {
	var changed []string
	complete := 0
	w := NewSlices(Collected, func(key types.NamespacedName) { changed = append(changed, key.Name) }, func() { complete++ })
	expect := func(what string, want ...string) {
		t.Helper()
		slices.Sort(changed)
		if !slices.Equal(changed, want) {
			t.Errorf("%s: changed are %v, want %v", what, changed, want)
		}
		changed = nil
	}
	one, other := full(), full()
	other.Name = "web-other"
	if err := w.Replace([]any{one, other}, "1"); err != nil {
		t.Fatal(err)
	}
	expect("first list", "web-other", "web-x7k2p")
	if complete != 1 || !w.Synced() || len(w.Keys(Of(webKey))) != 2 {
		t.Errorf("complete %d times, synced %v", complete, w.Synced())
	}
	hinted := full()
	hinted.Endpoints[0].Hints, hinted.ResourceVersion = nil, "8"
	if err := w.Update(hinted); err != nil {
		t.Fatal(err)
	}
	expect("a change of hints")
	unready := full()
	unready.Endpoints[0].Conditions.Ready = new(false)
	if err := w.Update(unready); err != nil {
		t.Fatal(err)
	}
	expect("a change of readiness", "web-x7k2p")
	if err := w.Replace([]any{other}, "2"); err != nil {
		t.Fatal(err)
	}
	expect("a list without it", "web-x7k2p")
	if err := w.Delete(other); err != nil {
		t.Fatal(err)
	}
	expect("a deletion", "web-other")
	if _, exists, certain := w.Get(client.ObjectKeyFromObject(other)); exists || !certain {
		t.Error("it is still there")
	}
}

var webKey = types.NamespacedName{Namespace: "shop", Name: "web"}
