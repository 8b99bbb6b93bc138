package pull_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/agents/credential"
	"github.com/flagship-k8s/flagship/internal/tools/cli/agents"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// errKilled is what a process gets that was killed after a write: the write is done, and nothing follows.
var errKilled = errors.New("killed")

// killedAfter returns configurations whose clients are cut off, all at once, after a number of writes.
func killedAfter(writes int64, configs ...*rest.Config) []*rest.Config {
	var left, dead atomic.Int64
	left.Store(writes)
	cut := func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if dead.Load() > 0 {
				return nil, errKilled
			}
			response, err := next.RoundTrip(r)
			if err == nil && r.Method != http.MethodGet && left.Add(-1) == 0 {
				dead.Store(1)
				_ = response.Body.Close()
				return nil, errKilled
			}
			return response, err
		})
	}
	var out []*rest.Config
	for _, config := range configs {
		config = rest.CopyConfig(config)
		config.Wrap(cut)
		out = append(out, config)
	}
	return out
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// repeats registers a cluster, for which the control plane itself stands, and ends after each of the writes. The next attempt succeeds
// every time. Meanwhile the token is deleted once, and expires once: the attempt fails then, and the next one has a new token.
func repeats(t *testing.T, hub *fleettest.Part) {
	dir := t.TempDir()
	bootstrap := newToken(t, hub)
	r := agents.Registration{Registration: credential.Registration{Name: "steps"}}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "steps"}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: "karmada-steps"}}
	stopped := 0
	for writes := int64(1); ; writes++ {
		data := filepath.Join(dir, "data")
		both := killedAfter(writes, bootstrap, hub.Config)
		err := agents.Register(t.Context(), both[0], both[1], data, r)
		if err == nil {
			break // it has no further step
		}
		stopped++
		if writes < 3 {
			bootstrap = replaceToken(t, hub, bootstrap, writes == 1, func() error { return agents.Register(t.Context(), bootstrap, hub.Config, data, r) })
		}
		if err := agents.Register(t.Context(), bootstrap, hub.Config, data, r); err != nil {
			t.Fatalf("after an end at write %d: %v", writes, err)
		}
		agent, err := clientcmd.BuildConfigFromFlags("", filepath.Join(data, "agent.kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		asAgent, err := client.New(agent, client.Options{Scheme: hub.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		if err := asAgent.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster.DeepCopy()); err != nil {
			t.Errorf("after an end at write %d the credential is of no use: %v", writes, err)
		}
		// The Cluster stays, as between the attempts of a user; the account in the cluster is created by each attempt.
		fleettest.Delete(t, hub.Cluster, account.DeepCopy())
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
	}
	fleettest.Delete(t, hub.Cluster, cluster, account)
	if stopped < 3 {
		t.Errorf("a registration has %d writes: the Cluster, the request and the account are three", stopped)
	}
}

// newToken is how the control plane is reached with a new token for the cluster "steps".
func newToken(t *testing.T, hub *fleettest.Part) *rest.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bootstrap.kubeconfig")
	if r := fleettest.Flagship(t, "token", "create", "steps", "--kubeconfig", hub.Kubeconfig, "--file", file); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	bootstrap, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	return bootstrap
}

// replaceToken ends a token, which is deleted or expires, checks that an attempt to register with it fails with what can be done, and
// returns how the control plane is reached with a new one.
func replaceToken(t *testing.T, hub *fleettest.Part, bootstrap *rest.Config, deleted bool, register func() error) *rest.Config {
	t.Helper()
	id, _, _ := strings.Cut(bootstrap.BearerToken, ".")
	if deleted {
		if r := fleettest.Flagship(t, "token", "delete", id, "--kubeconfig", hub.Kubeconfig); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
	} else {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}}
		if err := hub.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"expiration":"2020-01-01T00:00:00Z"}}`))); err != nil {
			t.Fatal(err)
		}
	}
	withToken, err := client.New(bootstrap, client.Options{Scheme: hub.Scheme(), Mapper: hub.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, "the token is of no use", func() bool {
		err := withToken.Get(t.Context(), client.ObjectKey{Name: "steps"}, &clusterv1alpha1.Cluster{})
		return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
	})
	if err := register(); err == nil || !strings.Contains(err.Error(), "flagship token create") {
		t.Errorf("a registration with a token that has ended: %v", err)
	}
	return newToken(t, hub)
}
