package services_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// price: a change of one endpoint is written once for the record, and for each consumer once for the Work, once for its
// status, and once to the consumer; and the metrics show it. A write more for some of the changes is one whose answer was lost.
func (a apart) price(t *testing.T) {
	ns := a.space(t, "price")
	service, mcs := a.outside(t, ns, "priced")
	slice := handmade(service, "by-hand", discoveryv1.AddressTypeIPv4, "192.0.2.1")
	fleettest.Create(t, a.east.Cluster, slice)
	expectImported(t, a.west.Cluster, service, has([]string{"192.0.2.1"}))
	for _, condition := range []string{applied, exchanged} {
		fleettest.ExpectEventually(t, a.hub.Cluster, mcs, conditionIs(condition, isTrue, ""))
	}
	const changes = 10
	hub, west := fleettest.CountRequests(t, a.hub.Cluster), fleettest.CountRequests(t, a.west.Cluster)
	for i := range changes {
		address := fmt.Sprintf("192.0.2.%d", i+2)
		patch(t, a.east.Cluster, slice, fmt.Sprintf(`{"endpoints":[{"addresses":[%q]}]}`, address))
		expectImported(t, a.west.Cluster, service, has([]string{address}))
		// The next change would make the status of this one a conflict, if it is not written yet.
		fleettest.ExpectListed(t, a.hub.Cluster, &workv1alpha1.WorkList{}, workv1alpha1.ExecutionNamespace(a.west.Name), func(works *workv1alpha1.WorkList) error {
			for _, work := range works.Items {
				manifest := work.Spec.Workload.Manifests[0].Raw
				if !bytes.Contains(manifest, []byte(strconv.Quote(address))) || !bytes.Contains(manifest, []byte(strconv.Quote(ns))) {
					continue
				}
				if c := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied); c != nil && c.ObservedGeneration == work.Generation {
					return nil
				}
			}
			return fmt.Errorf("no Work with the address %s is applied", address)
		})
	}
	written := fleettest.CountRequests(t, a.hub.Cluster).Since(hub).Of("works", "multiclusterservices", "resourcebindings", "services").Writes().Accepted()
	if total := written.Total(); total > changes*3+changes/2 || total < changes*2 {
		t.Errorf("%d changes cost the control plane %d writes, want 3 for each at most:\n%s", changes, total, written)
	}
	written = fleettest.CountRequests(t, a.west.Cluster).Since(west).Of("endpointslices").Writes().Accepted()
	if total := written.Total(); total > changes+changes/2 || total < changes {
		t.Errorf("%d changes cost the consumer %d writes:\n%s", changes, written.Total(), written)
	}

	page := metricsPage(t, a.hub.Config)
	for _, line := range []string{
		`controller_runtime_reconcile_time_seconds_count{controller="service"} `, `controller_runtime_reconcile_time_seconds_count{controller="service-dispatch"} `,
		`flagship_collect_seconds_count{result="ok"} `, "flagship_service_arrival_seconds_count ", "flagship_collect_endpoints ", "flagship_service_endpoints ",
	} {
		_, rest, found := strings.Cut(page, "\n"+line)
		if value, _, _ := strings.Cut(rest, "\n"); !found || value == "0" {
			t.Errorf("the metrics say %s%q", line, value)
		}
	}
	for _, line := range []string{`workqueue_depth\{[^}]*name="service"[,}]`, `flagship_loop_queue_depth\{loop="collect"\} `} {
		if !regexp.MustCompile("(?m)^" + line).MatchString(page) {
			t.Errorf("the metrics lack%s", line)
		}
	}
}

func metricsPage(t *testing.T, config *rest.Config) string {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(config.Host, "/")+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	return body(t, httpClient, request)
}

// body is the text of an answer.
func body(t *testing.T, c *http.Client, request *http.Request) string {
	t.Helper()
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
