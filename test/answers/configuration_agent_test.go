package answers_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestTheConfigurationOfAnAgentIsReloaded: a running agent brakes by the share and the minimum that its file has since its start.
func TestTheConfigurationOfAnAgentIsReloaded(t *testing.T) {
	path, write := configuration(t, "AgentConfiguration")
	write("brakeWindow: 10m\n")
	hub := fleettest.StartHub(t, "--enable-bootstrap-token-auth")
	far := fleettest.StartMember(t, "member1", "--bare")
	address := "127.0.0.1:" + fleettest.FreePort(t)
	hub.StartAgent(t, "member1", far.Kubeconfig, "--config", path, "--metrics-bind-address", address)
	var prices []client.Object
	for i := range 4 {
		prices = append(prices, fleettest.ConfigMap("shop", fmt.Sprint("prices", i), nil))
	}
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	fleettest.Create(t, hub.Cluster, append(prices, fleettest.Policy("shop", "prices", fleettest.To("member1"), prices...))...)
	for _, object := range prices {
		fleettest.ExpectEventually(t, far.Cluster, object, fleettest.Exists)
	}
	fleettest.Delete(t, hub.Cluster, prices[0])
	fleettest.ExpectGone(t, far.Cluster, prices[0]) // the member is below the minimum

	write("brakeWindow: 20m\nbrakeMinimum: 1\nbrakeShare: 0.1\n")
	fleettest.Eventually(t, "the field that is read at the start only is reported", func() bool {
		return servedAt(t, "http://"+address+"/metrics", `flagship_configuration_restart_required{field="brakeWindow"} 1`)
	})
	fleettest.Delete(t, hub.Cluster, prices[1])
	fleettest.ExpectEventually(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}, func(c *clusterv1alpha1.Cluster) error {
		return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionBrakeEngaged)
	})
	fleettest.ExpectEventually(t, far.Cluster, prices[1], fleettest.Exists)
}

// servedAt returns whether a page that needs no credential has a line.
func servedAt(t *testing.T, url, line string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return err == nil && strings.Contains(string(body), "\n"+line+"\n")
}
