package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/fleettest"
)

// page reads a path of a cluster's API server; the code is what it answered with.
func page(ctx context.Context, config *rest.Config, path string) (code int, body string, err error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(config.Host, "/")+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func TestRoomsTellHowTheirWorkGoes(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), bindingIs("FullyApplied", metav1.ConditionTrue, ""))
	code, body, err := page(t.Context(), fleet.Hub.Config, "/metrics/flagship")
	if err != nil || code != http.StatusOK {
		t.Fatalf("answered %d: %v", code, err)
	}
	for _, room := range []string{"propagate", "render", "apply", "observe", "aggregate"} {
		if line := fmt.Sprintf(`flagship_%s_seconds_count{result="ok"}`, room); !strings.Contains(body, line) {
			t.Errorf("%s says nothing of its work", room)
		}
	}
	if !strings.Contains(body, `flagship_apply_writes_total{operation="apply",result="ok"}`) {
		t.Error("apply does not count its writes")
	}
	stranger := rest.AnonymousClientConfig(fleet.Hub.Config)
	if code, _, err := page(t.Context(), stranger, "/metrics/flagship"); err != nil || code != http.StatusForbidden && code != http.StatusUnauthorized {
		t.Errorf("a stranger is answered %d: %v", code, err)
	}
}
