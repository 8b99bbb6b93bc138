package memberproxy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
)

// TestTheEpisodesOfDriftAreForTheControlPlaneAlone: they are answered by the host of a request, which users of the proxy do not choose. Without
// the header that names the user, which a user can have a proxy on the way remove, nothing but a refusal is answered.
func TestTheEpisodesOfDriftAreForTheControlPlaneAlone(t *testing.T) {
	proxy, received := newProxy(t, clocktesting.NewFakeClock(time.Now()))
	proxy.drift = drift.New(proxy.clock)
	proxy.drift.PutBack(drift.Key{Cluster: "m", Work: types.NamespacedName{Name: "w"}}, []fleetv1alpha1.DriftedField{{Path: "/data/a"}})
	for host, want := range map[string]int{drift.Host: http.StatusOK, "tunnel": http.StatusBadRequest, "": http.StatusBadRequest, "x." + drift.Host: http.StatusBadRequest} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		r.Header.Set("X-Forwarded-Host", drift.Host)
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, r)
		var objects []fleetv1alpha1.DriftedObject
		if w.Code != want || want == http.StatusOK && (json.Unmarshal(w.Body.Bytes(), &objects) != nil || len(objects) != 1 || objects[0].Work != "w") {
			t.Errorf("host %q: %d %s", host, w.Code, w.Body)
		}
	}
	if len(*received) > 0 {
		t.Errorf("the member has received %d requests", len(*received))
	}
}
