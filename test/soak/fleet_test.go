package soak_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// near is beside the control plane, far behind a network that fails, and pulled has an agent, with a network that fails between it and the
	// control plane.
	near, far, pulled = "near", "far", "pulled"
	// ns is a namespace that is never deleted.
	ns = "soak"
	// tier is a label of Clusters that placements select by.
	tier, gold, silver = "tier", "gold", "silver"
	// unready is for how long a cluster that does not answer is still ready. A cluster that leaves must be ready, since one that cannot be reached
	// keeps its objects: it is more than a busy machine makes a request wait.
	unready = "5s"
)

var names = []string{near, far, pulled}

// fleet is what runs.
type fleet struct {
	hub     *fleettest.Part
	members map[string]*fleettest.Part
	agent   *fleettest.Agent
	// agentPages is where the agent serves its profiles.
	agentPages *rest.Config
	// links are the networks that fail, by cluster.
	links map[string]*fleettest.Link
	// kubeconfigs are those with which clusters in Push mode join.
	kubeconfigs map[string]string
	// foreign has the resourceVersion of an object of others in each member.
	foreign map[string]string
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{members: map[string]*fleettest.Part{}, links: map[string]*fleettest.Link{}, foreign: map[string]string{}}
	thresholds := []string{"--cluster-probe-period=1s", "--cluster-failure-threshold=" + unready, "--cluster-success-threshold=1s"}
	f.hub = fleettest.StartHub(t, append([]string{"--enable-bootstrap-token-auth", "--profiling"}, thresholds...)...)
	for _, name := range names {
		f.members[name] = fleettest.StartMember(t, name, "--bare")
	}
	f.links[far] = fleettest.StartLink(t, f.members[far].Cluster)
	f.kubeconfigs = map[string]string{near: f.members[near].Kubeconfig, far: f.links[far].Kubeconfig}
	for cluster, kubeconfig := range f.kubeconfigs {
		f.hub.Join(t, cluster, kubeconfig)
	}
	address := "127.0.0.1:" + fleettest.FreePort(t)
	f.agentPages = &rest.Config{Host: "http://" + address}
	f.agent = f.hub.StartAgent(t, pulled, f.members[pulled].Kubeconfig, append(thresholds, "--pprof-bind-address="+address, "--cluster-lease-duration="+unready)...)
	f.links[pulled], _ = f.agent.StartLink(t)
	for _, name := range names {
		fleettest.Update(t, f.hub.Cluster, cluster(name), func(c *clusterv1alpha1.Cluster) {
			metav1.SetMetaDataLabel(&c.ObjectMeta, tier, gold)
		})
	}
	fleettest.Create(t, f.hub.Cluster, namespace(ns))
	for name, member := range f.members {
		fleettest.ExpectEventually(t, member.Cluster, namespace(ns), fleettest.Exists)
		theirs := fleettest.ConfigMap(ns, "foreign", map[string]string{"whose": "theirs"})
		fleettest.Create(t, member.Cluster, theirs)
		f.foreign[name] = theirs.ResourceVersion
	}
	return f
}

func cluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
