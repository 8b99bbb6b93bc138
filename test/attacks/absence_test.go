package attacks_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const lifetimeExpected = 59 * 24 * time.Hour

func credentialSecret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}}
}

// expiredToken is a token that expired 30 days ago. The member does not accept it.
func expiredToken() []byte {
	issued := time.Now().Add(-90 * 24 * time.Hour)
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d}`, issued.Unix(), issued.Add(60*24*time.Hour).Unix())
	return []byte("e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln")
}

// remaining is how long a token is still valid; a token that is none has no time left.
func remaining(token []byte) time.Duration {
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 {
		return 0
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return 0
	}
	return time.Until(time.Unix(claims.Expires, 0))
}

// expire stops a member and replaces its tokens, which are not renewed at once then.
func expire(t *testing.T, hub, member *fleettest.Part) {
	t.Helper()
	member.Kill()
	for _, name := range []string{member.Name, member.Name + "-impersonator"} {
		fleettest.Update(t, hub.Cluster, credentialSecret(name), func(s *corev1.Secret) { s.Data["token"] = expiredToken() })
	}
	forget(t, hub, member.Name)
}

// forget has the control plane read the credential of a member again: it uses a known one for a minute, unless the Cluster
// changes.
func forget(t *testing.T, hub *fleettest.Part, member string) {
	t.Helper()
	fleettest.Update(t, hub.Cluster, clusterNamed(member), func(c *clusterv1alpha1.Cluster) { c.Spec.Region += "a" })
}

// passesThrough waits until a Cluster was in a state after a list was made. That state may be over already: the watch begins in the past. It
// does not begin at the version of an object, which may be older than all that a server that has restarted has.
func passesThrough(t *testing.T, hub *fleettest.Part, name string, since *clusterv1alpha1.ClusterList, condition func(*clusterv1alpha1.Cluster) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
	defer cancel()
	changes, err := hub.Watch(ctx, &clusterv1alpha1.ClusterList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	last := errors.New("it has not changed")
	for change := range changes.ResultChan() {
		switch c := change.Object.(type) {
		case *clusterv1alpha1.Cluster:
			if c.Name != name {
				continue
			}
			if last = condition(c); last == nil {
				return
			}
		case *metav1.Status:
			last = errors.New(c.Message)
		}
	}
	t.Fatalf("Cluster %s: %v", name, last)
}

func metricsOf(t *testing.T, hub *fleettest.Part) string {
	t.Helper()
	c, err := kubernetes.NewForConfig(hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	body, err := c.Discovery().RESTClient().Get().AbsPath("/metrics/flagship").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// expectReturn waits until the control plane has new tokens and uses them.
func expectReturn(t *testing.T, hub *fleettest.Part, member string) {
	t.Helper()
	for _, name := range []string{member, member + "-impersonator"} {
		fleettest.ExpectEventually(t, hub.Cluster, credentialSecret(name), func(s *corev1.Secret) error {
			if left := remaining(s.Data["token"]); left < lifetimeExpected {
				return fmt.Errorf("the token in %s is valid for %s", name, left)
			}
			return nil
		})
	}
	fleettest.ExpectEventually(t, hub.Cluster, clusterNamed(member), ready)
}

// TestLongAbsence: a member that cannot be reached, or a control plane that is stopped, until all tokens have expired, gets
// new ones by itself. Without a renewal token the Cluster says why it is not ready, and joining again is the remedy. It takes 75 s beside other
// tests, for tokens that expire.
func TestLongAbsence(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t, fast...)
	member := fleettest.StartMember(t, "m", "--bare")
	hub.Join(t, "m", member.Kubeconfig)
	fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), ready)
	fleettest.ExpectEventually(t, hub.Cluster, credentialSecret("m"), fleettest.HasRenewalToken)
	expectReturn(t, hub, "m")

	t.Run("the member cannot be reached", func(t *testing.T) {
		expire(t, hub, member)
		fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), unready(clusterv1alpha1.ClusterNotReachableReason))
		member.Start(t)
		expectReturn(t, hub, "m")
	})

	t.Run("the control plane is stopped", func(t *testing.T) {
		expire(t, hub, member)
		hub.Kill()
		member.Start(t)
		hub.Start(t)
		expectReturn(t, hub, "m")
	})

	t.Run("tokens of an earlier version", func(t *testing.T) {
		fleettest.Update(t, hub.Cluster, credentialSecret("m"), func(s *corev1.Secret) {
			now := time.Now()
			claims := fmt.Sprintf(`{"iat":%d,"exp":%d}`, now.Unix(), now.Add(24*time.Hour).Unix())
			s.Data["token"] = []byte("e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln")
			delete(s.Annotations, clusterv1alpha1.TokenLifetimeAnnotation)
		})
		expectReturn(t, hub, "m")
	})

	t.Run("the token is refused", func(t *testing.T) {
		fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), ready)
		before := &clusterv1alpha1.ClusterList{}
		if err := hub.List(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		fleettest.Update(t, hub.Cluster, credentialSecret("m"), func(s *corev1.Secret) { s.Data["token"] = append(s.Data["token"], "x"...) })
		forget(t, hub, "m")
		passesThrough(t, hub, "m", before, unready(clusterv1alpha1.CredentialsRefusedReason)) // until the token is replaced, which takes a moment
		expectReturn(t, hub, "m")
	})

	t.Run("without a renewal token", func(t *testing.T) {
		hub.Kill()
		hub.Start(t, "--no-renewal-tokens")
		fleettest.ExpectGone(t, member.Cluster, credentialSecret("karmada-m"))
		fleettest.ExpectEventually(t, hub.Cluster, credentialSecret("m"), func(s *corev1.Secret) error {
			if len(s.Data[clusterv1alpha1.SecretRenewalTokenKey]) > 0 {
				return fmt.Errorf("the renewal token is still kept")
			}
			return nil
		})
		expire(t, hub, member)
		hub.Kill()
		member.Start(t)
		hub.Start(t)
		fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), unready(clusterv1alpha1.CredentialsExpiredReason))
		until(t, func() error { // another loop than that of the condition sets it
			if !strings.Contains(metricsOf(t, hub), `flagship_credential_expiry_timestamp_seconds{cluster="m",use="controller"}`) {
				return errors.New("there is no metric for the expired token")
			}
			return nil
		})
		hub.Join(t, "m", member.Kubeconfig)
		expectReturn(t, hub, "m")
	})
}
