package servers_test

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// tunnelsEverywhere: the agent of a member connects to an address behind which are all servers. The member is reached through each of them, also
// through one that was started anew.
func tunnelsEverywhere(t *testing.T, s *servers) {
	far := fleettest.StartMember(t, "far", "--bare")
	agent := s.all[0].StartAgent(t, "far", far.Kubeconfig)
	agent.Kill()
	kubeconfig := filepath.Join(agent.Dir, "agent.kubeconfig")
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.ReplaceAll(content, []byte(s.all[0].Config.Host), []byte(startBalancer(t, s).URL))
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	agent.Start(t)
	reached := func() {
		t.Helper()
		for i, hub := range s.all {
			eventually(t, fmt.Sprintf("server %d reaches the member through a tunnel", i), func(ctx context.Context) error {
				kube, err := kubernetes.NewForConfig(hub.Config)
				if err != nil {
					return err
				}
				return kube.Discovery().RESTClient().Get().AbsPath(clusterv1alpha1.ProxyPath("far"), "version").Do(ctx).Error()
			})
		}
	}
	reached()
	s.all[1].Kill()
	s.all[1].Start(t)
	reached()
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "far"}}
	fleettest.Delete(t, s.all[0].Cluster, cluster)
	fleettest.ExpectGone(t, s.all[0].Cluster, cluster)
}

// startBalancer puts one address before all servers until the test ends.
func startBalancer(t *testing.T, s *servers) *fleettest.Link {
	t.Helper()
	var addresses []string
	for _, hub := range s.all {
		target, err := url.Parse(hub.Config.Host)
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, target.Host)
	}
	return fleettest.LinkTo(t, addresses...)
}
