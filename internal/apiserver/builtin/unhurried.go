package builtin

import (
	"net/http"
	"strings"
	"time"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// lull is how long a claim that is deleted with its dependents in mind can be seen in that state.
const lull = 300 * time.Millisecond

// unhurried holds the collector back before it takes its finalizer from an owner in resource.k8s.io/v1alpha2. Clients of
// that version delete with a policy and read back what became of it; a collector in the same process is otherwise
// done before they can.
type unhurried struct{ next http.RoundTripper }

// RoundTrip sends the request, a little later if it ends a deletion.
func (u unhurried) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch && strings.HasPrefix(request.URL.Path, "/apis/"+resourcev1alpha2.GroupVersion.String()+"/") {
		timer := time.NewTimer(lull)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-request.Context().Done():
		}
	}
	return u.next.RoundTrip(request)
}
