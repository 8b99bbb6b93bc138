package pull_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// losesTheControlPlane has the network between an agent and the control plane drop everything and forget its connections. The agent goes
// on in its member, where nothing is deleted. When the network carries new connections, it opens some and does what it missed.
func losesTheControlPlane(t *testing.T, hub, member *fleettest.Part, agent *fleettest.Agent, cluster *clusterv1alpha1.Cluster) {
	network, direct := agent.StartLink(t)
	settings := fleettest.ConfigMap("shop", "settings", map[string]string{"value": "first"})
	fleettest.Create(t, hub.Cluster, fleettest.Policy("shop", "settings", fleettest.To("far"), settings), settings)
	has := func(value string) func(*corev1.ConfigMap) error {
		return func(c *corev1.ConfigMap) error {
			if c.Data["value"] != value {
				return fmt.Errorf("it has %v, want %s", c.Data, value)
			}
			return nil
		}
	}
	there := fleettest.ConfigMap("shop", "settings", nil)
	fleettest.ExpectEventually(t, member.Cluster, there, has("first"))
	web := fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), fleettest.Available)

	network.Set(fleettest.Trouble{Lost: true})
	fleettest.ExpectEventually(t, hub.Cluster, cluster,
		ready(metav1.ConditionUnknown, clusterv1alpha1.ClusterStatusUnknownReason, clusterv1alpha1.TaintClusterUnreachable))
	fleettest.Update(t, hub.Cluster, settings, func(c *corev1.ConfigMap) { c.Data["value"] = "second" })
	fleettest.Delete(t, member.Cluster, there)
	fleettest.ExpectEventually(t, member.Cluster, there, has("first")) // what it had
	network.Set(fleettest.Trouble{})
	fleettest.ExpectEventually(t, hub.Cluster, cluster, ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))
	fleettest.ExpectEventually(t, member.Cluster, there, has("second"))
	fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), func(d *appsv1.Deployment) error {
		if d.UID != web.UID || d.Generation != web.Generation {
			return fmt.Errorf("its generation went from %d to %d", web.Generation, d.Generation)
		}
		return nil
	})
	direct()
	fleettest.ExpectEventually(t, hub.Cluster, cluster, ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))
}

// getsWorksCompressed: Works are compressed between control plane and agent, in a watch and in the first list.
func getsWorksCompressed(t *testing.T, hub, member *fleettest.Part, agent *fleettest.Agent) {
	network, direct := agent.StartLink(t)
	const size = 600_000
	large := fleettest.ConfigMap("shop", "large", map[string]string{"text": strings.Repeat("a line of a configuration\n", size/26)})
	before := network.Sent()
	fleettest.Create(t, hub.Cluster, fleettest.Policy("shop", "large", fleettest.To("far"), large), large)
	fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap("shop", "large", nil), fleettest.Exists)
	if sent := network.Sent() - before; sent > size/2 {
		t.Errorf("for an object of %d bytes the control plane sent %d", size, sent)
	}
	agent.Kill()
	before = network.Sent()
	agent.Start(t)
	// What is newer than the large object comes after it.
	last := fleettest.ConfigMap("shop", "listed", nil)
	fleettest.Create(t, hub.Cluster, fleettest.Policy("shop", "listed", fleettest.To("far"), last), last)
	fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap("shop", "listed", nil), fleettest.Exists)
	if sent := network.Sent() - before; sent > size/2 {
		t.Errorf("in its first lists an agent with an object of %d bytes got %d", size, sent)
	}
	direct()
}

// startsWithTheControlPlane has an agent start while the control plane starts, too, and cannot answer everything yet. It waits.
func startsWithTheControlPlane(t *testing.T, hub, member *fleettest.Part, agent *fleettest.Agent) {
	const early = 3
	proxy := fleettest.StartProxy(t, agent.Cluster)
	var requests atomic.Int64
	proxy.Misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/resourceinterpretercustomizations") || requests.Add(1) > early {
			return false
		}
		http.Error(w, "the rights of the agent cannot be read yet: the control plane is starting", http.StatusInternalServerError)
		return true
	})
	direct := agent.StartThrough(t, proxy.Kubeconfig)
	settings := fleettest.ConfigMap("shop", "early", nil)
	fleettest.Create(t, hub.Cluster, fleettest.Policy("shop", "early", fleettest.To("far"), settings), settings)
	fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap("shop", "early", nil), fleettest.Exists)
	if n := requests.Load(); n <= early {
		t.Errorf("%d requests for customizations came, want more than %d", n, early)
	}
	direct()
}
