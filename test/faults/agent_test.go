package faults_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// issueEarlier replaces the certificate of an agent by one that is valid for 30 days and was issued some time ago, by a control plane
// with a clock of its own. It returns its serial number.
func issueEarlier(t *testing.T, hub *fleettest.Part, agent *fleettest.Agent, name string, ago time.Duration) string {
	t.Helper()
	keys, err := pki.Open(filepath.Join(hub.Dir, "pki"), clocktesting.NewFakeClock(time.Now().Add(-ago)))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := keys.Authority("ca", "")
	if err != nil {
		t.Fatal(err)
	}
	cluster := fleettest.ExpectEventually(t, hub.Cluster, clusterNamed(name), fleettest.Exists)
	cert, key, err := authority.Issue(pki.Profile{
		CommonName: clusterv1alpha1.AgentUser(name), Groups: clusterv1alpha1.AgentGroups(cluster.UID), Life: 30 * 24 * time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(agent.Dir, "agent.pem"), slices.Concat(cert, key), 0o600); err != nil {
		t.Fatal(err)
	}
	return serial(t, agent)
}

// serial is the serial number of the certificate of an agent.
func serial(t *testing.T, agent *fleettest.Agent) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(agent.Dir, "agent.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert.SerialNumber.String()
}

func clusterNamed(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
