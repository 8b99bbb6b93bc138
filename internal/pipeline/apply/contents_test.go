package apply

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects"
)

const namespaceShop = `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`

// liveShop is the namespace in the member, as we applied it.
var liveShop = strings.ReplaceAll(strings.Replace(inMember("shop", "w"), `"kind":"ConfigMap"`, `"kind":"Namespace"`, 1), `"namespace":"shop",`, "")

// shop has the member hold a namespace and ConfigMaps in it.
func (b *bench) shop(code int, configMaps ...string) {
	b.server.set(func(w http.ResponseWriter, r *http.Request, _ string) {
		switch {
		case r.URL.Path == "/api/v1/namespaces/shop" && r.Method == http.MethodGet:
			_, _ = w.Write([]byte(liveShop))
		case r.Method != http.MethodGet:
			_, _ = w.Write([]byte(liveShop))
		case code != http.StatusOK:
			refuse(w, code, metav1.StatusReasonForbidden)
		case r.URL.Path == "/api/v1/namespaces/shop/configmaps/deleted": // since the list
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		case r.URL.Path == "/api/v1/namespaces/shop/configmaps/unreadable":
			refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		case r.URL.Path == "/api/v1/namespaces/shop/configmaps/a":
			_, _ = w.Write([]byte(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"shop"}}`))
		default:
			fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[%s]}`, strings.Join(configMaps, ","))
		}
	})
}

func TestANamespaceIsDeletedOnlyIfItHoldsNothingElse(t *testing.T) {
	const list, remove, release = "GET /api/v1/namespaces/shop/configmaps", "DELETE /api/v1/namespaces/shop", "PATCH /api/v1/namespaces/shop"
	sibling := deleting(t)
	sibling.Name = "sibling"
	alive := work(t)
	alive.Name = "alive"
	meta := func(name, rest string) string {
		return fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q%s}}`, name, rest)
	}
	ofWork := func(name, work, id string) string {
		return meta(name, fmt.Sprintf(`,"labels":{"karmada.io/managed":"true"},"annotations":{"work.karmada.io/namespace":"karmada-es-member1","work.karmada.io/name":%q,"flagship.io/control-plane":%q}`, work, id))
	}
	tests := map[string]struct {
		reason string
		holds  []string
		want   []string
		stays  bool // the Work does, too
	}{
		"Empty":     {"nothing else", nil, []string{list, remove}, false},
		"Furniture": {"what every namespace has", []string{meta("kube-root-ca.crt", "")}, []string{list, remove}, false},
		"Theirs":    {"what its owner made", []string{meta("theirs", "")}, []string{list, release}, false},
		"Deleted":   {"what is being deleted", []string{meta("theirs", `,"deletionTimestamp":"2026-01-01T00:00:00Z"`)}, []string{list, remove}, false},
		"Owned":     {"what goes with its owner", []string{meta("theirs", `,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u"}]`)}, []string{list, remove}, false},
		"OwnedFromOutside": {"an owner that the namespace does not hold", []string{meta("theirs", `,"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"o","uid":"u"}]`)},
			[]string{list, release}, false},
		"Leaving":    {"an object of ours on its way out", []string{ofWork("a", "sibling", "")}, []string{list}, true},
		"Wanted":     {"an object of ours that is still wanted", []string{ofWork("a", "alive", "")}, []string{list, release}, false},
		"Orphan":     {"an object of a Work that is gone", []string{ofWork("a", "gone", "")}, []string{list, "GET /api/v1/namespaces/shop/configmaps/a", release}, false},
		"Finished":   {"an object that was deleted with its Work", []string{ofWork("deleted", "gone", "")}, []string{list, "GET /api/v1/namespaces/shop/configmaps/deleted", remove}, false},
		"OtherPlane": {"an object of another control plane", []string{ofWork("a", "sibling", "other")}, []string{list, release}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := deleting(t, namespaceShop)
			b := newBench(t, cluster(), w, sibling.DeepCopy(), alive.DeepCopy())
			b.server.shownOf, b.server.lies = map[string][]string{"namespaces": {liveShop}}, tc.stays
			b.shop(http.StatusOK, tc.holds...)
			if _, err := b.reconcileWatched(); err != nil {
				t.Fatal(err)
			}
			b.wantRequests(tc.want...)
			if b.exists() != tc.stays {
				t.Errorf("%s: the Work stays: %t", tc.reason, b.exists())
			}
			released := tc.want[len(tc.want)-1] == release
			if published := len(b.events) == 1 && strings.Contains(b.events[0], "NamespaceReleased"); published != released {
				t.Errorf("%s: events are %q", tc.reason, b.events)
			}
		})
	}
}

func TestANamespaceOfWhichNotEverythingCanBeListedWaitsAndIsReleased(t *testing.T) {
	b := newBench(t, cluster(), deleting(t, namespaceShop))
	clock := clocktesting.NewFakeClock(b.clock.Now())
	b.setClock(clock)
	b.server.shownOf = map[string][]string{"namespaces": {liveShop}}
	b.shop(http.StatusForbidden)
	if _, err := b.reconcileWatched(); err == nil || !strings.Contains(err.Error(), "configmaps (Forbidden)") {
		t.Fatalf("got %v", err)
	}
	if c := b.condition(workv1alpha1.WorkApplied); c == nil || !strings.Contains(c.Message, "cannot list configmaps") {
		t.Errorf("Applied is %+v", c)
	}
	b.server.taken()
	clock.Step(objects.DoubtPatience)
	if _, err := b.reconcileWatched(); err != nil {
		t.Fatal(err)
	}
	b.wantRequests("GET /api/v1/namespaces/shop/configmaps", "PATCH /api/v1/namespaces/shop")
	if b.exists() {
		t.Error("the Work is still there")
	}
}

// TestANamespaceWithAnObjectThatCannotBeReadWaits: the object may have gone with its Work.
func TestANamespaceWithAnObjectThatCannotBeReadWaits(t *testing.T) {
	b := newBench(t, cluster(), deleting(t, namespaceShop))
	b.server.shownOf = map[string][]string{"namespaces": {liveShop}}
	b.shop(http.StatusOK, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"unreadable","labels":{"karmada.io/managed":"true"},
		"annotations":{"work.karmada.io/namespace":"karmada-es-member1","work.karmada.io/name":"gone","flagship.io/control-plane":""}}}`)
	if _, err := b.reconcileWatched(); err == nil || !strings.Contains(err.Error(), "configmaps (InternalError)") {
		t.Errorf("got %v, want the kind with the object that cannot be read", err)
	}
	b.wantRequests("GET /api/v1/namespaces/shop/configmaps", "GET /api/v1/namespaces/shop/configmaps/unreadable")
	if !b.exists() || strings.Contains(strings.Join(b.events, "\n"), "NamespaceReleased") {
		t.Errorf("the Work exists: %t, events are %q", b.exists(), b.events)
	}
}

// reconcileWatched reconciles once the watch of namespaces is complete.
func (b *bench) reconcileWatched() (time.Duration, error) {
	b.t.Helper()
	again, err := b.confirmed(b.reconcile(b.t.Context(), "member1", theWork))
	if err != nil || again != patienceWithWatch {
		return again, err
	}
	conn, _ := b.fleet.Get("member1")
	complete := make(chan struct{})
	conn.WhenSynced(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, func() { close(complete) })
	select {
	case <-complete:
	case <-time.After(3 * time.Minute):
		b.t.Fatal("the watch is not complete")
	}
	return b.confirmed(b.reconcile(b.t.Context(), "member1", theWork))
}
