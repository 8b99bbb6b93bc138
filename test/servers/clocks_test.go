package servers_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// The servers by their clocks.
const (
	ahead = iota
	behind
	right
)

// offsets are how far the clocks are off.
var offsets = []time.Duration{ahead: time.Hour, behind: -time.Hour, right: 0}

// TestClocksOfServersAreOff runs a server whose clock is an hour ahead, which leads first and makes the keys and certificates, one whose clock
// is an hour behind, and one whose clock is right, as that of the test is. Each of them leads in turn. Two never lead at once, no leader writes
// what another one wrote, and clients with a right clock use all of them. All that a server links is compiled anew for it, which takes two
// processors some minutes: it runs by make test-clocks.
func TestClocksOfServersAreOff(t *testing.T) {
	if os.Getenv("FLAGSHIP_TEST_CLOCKS") == "" {
		t.Skip("compiles a server anew: make test-clocks runs it")
	}
	s := startEachServer(t, func(dir string, i int, common []string) *fleettest.Part {
		if offsets[i] == 0 {
			return fleettest.StartHubIn(t, dir, common...)
		}
		return fleettest.StartShiftedHubIn(t, offsets[i], dir, common...)
	})
	for i, name := range []string{"ahead", "behind", "right"} {
		s.all[i].Name = name
	}
	s.member = fleettest.StartMember(t, member, "--bare")
	s.all[ahead].Join(t, member, s.member.Kubeconfig)
	s.propagate(t, member)
	leases := s.recordLeader(t)
	load := s.startLoad(t)
	s.handOver(t, ahead)
	s.clockInSync(t, ahead)
	s.works(t, "led-by-ahead")
	s.tokens(t)
	leaderPaused(t, s)
	if s.leader(t) != behind {
		s.handOver(t, behind)
	}
	for _, to := range []int{ahead, right} {
		from := s.leader(t)
		s.clockInSync(t, from)
		s.leaderMoves(t, "to-"+s.all[to].Name, from, to, func() { s.handOver(t, to) })
	}
	s.clockInSync(t, right)
	s.works(t, "led-by-right")
	s.agent(t)
	load.end(t)
	s.bindings(t, s.all[right]) // none is evicted
	leases.expectOneLeader(t)
}

// agent: the certificate of an agent, which the leader signs, is accepted by each server whose clock is not behind that of the leader. Kubernetes'
// signer has certificates begin five minutes before.
func (s *servers) agent(t *testing.T) {
	t.Helper()
	const name = "far"
	far := fleettest.StartMember(t, name, "--bare")
	agent := s.all[right].StartAgent(t, name, far.Kubeconfig)
	fleettest.ExpectEventually(t, s.all[right].Cluster, cluster(name), func(c *clusterv1alpha1.Cluster) error {
		return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	})
	for checker, checks := range s.all {
		config := rest.CopyConfig(agent.Config)
		config.Host = checks.Config.Host
		s.expectAccepted(t, "the certificate of the agent", config, checks, offsets[checker] >= 0)
	}
}

// handOver has a server lead: it kills the leader, ends the other one in order before, and starts both.
func (s *servers) handOver(t *testing.T, to int) {
	t.Helper()
	was := s.leader(t)
	if was == to {
		return
	}
	for i, hub := range s.all {
		if i != to && i != was {
			hub.Stop(t)
		}
	}
	s.all[was].Kill()
	killed := time.Now()
	s.leads(t, to)
	t.Logf("the server %q was killed: %q ran the loops after %s", s.all[was].Name, s.all[to].Name, time.Since(killed).Round(time.Millisecond))
	for i, hub := range s.all {
		if i != to {
			hub.Start(t)
		}
	}
}

// clockInSync waits until the Cluster has that its clock differs from that of the leader, or does not.
func (s *servers) clockInSync(t *testing.T, leads int) {
	t.Helper()
	direction := map[bool]string{true: "1h0m behind", false: "1h0m ahead of"}[offsets[leads] > 0]
	fleettest.ExpectEventually(t, s.all[right].Cluster, cluster(member), func(c *clusterv1alpha1.Cluster) error {
		found := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionClockInSync)
		differs := found != nil && found.Status == metav1.ConditionFalse && strings.Contains(found.Message, direction)
		if offsets[leads] != 0 && !differs || offsets[leads] == 0 && found != nil {
			return fmt.Errorf("with the leader %q the condition of the clock is %+v", s.all[leads].Name, found)
		}
		return nil
	})
}

// tokens: a token of a service account is accepted by each server whose clock is not behind that of the server that issued it.
func (s *servers) tokens(t *testing.T) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "clocks"}}
	fleettest.Create(t, s.all[right].Cluster, account)
	for issuer, issues := range s.all {
		kube, err := kubernetes.NewForConfig(issues.Config)
		if err != nil {
			t.Fatal(err)
		}
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 60 * 60))}}
		eventually(t, issues.Name+" issues a token", func(ctx context.Context) (err error) {
			request, err = kube.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name, request, metav1.CreateOptions{})
			return err
		})
		for checker, checks := range s.all {
			config := rest.AnonymousClientConfig(checks.Config)
			config.BearerToken = request.Status.Token
			s.expectAccepted(t, "a token of the server "+issues.Name, config, checks, offsets[issuer] <= offsets[checker])
		}
	}
}

// expectAccepted waits until a server accepts a credential, or refuses it.
func (s *servers) expectAccepted(t *testing.T, what string, config *rest.Config, by *fleettest.Part, want bool) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, what+" is checked by the server "+by.Name, func(ctx context.Context) error {
		err := kube.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
		if accepted := !apierrors.IsUnauthorized(err); accepted != want || want && err != nil {
			return fmt.Errorf("it is accepted: %t, want %t: %w", accepted, want, err)
		}
		return nil
	})
}

// holders are the versions of the Lease of the leader, as they are in etcd.
type holders struct {
	mu     sync.Mutex
	names  []string
	times  []time.Time
	faults []error
}

// recordLeader watches the Lease of the leader until the test ends.
func (s *servers) recordLeader(t *testing.T) *holders {
	t.Helper()
	r := &holders{}
	ctx, cancel := context.WithCancel(t.Context())
	versions := s.etcd.client.Watch(ctx, "/registry/leases/"+clusterv1alpha1.SystemNamespace+"/"+leader.Name)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for answer := range versions {
			for _, e := range answer.Events {
				r.see(e.Kv.Value)
			}
			if err := answer.Err(); err != nil {
				r.fault(err)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

func (r *holders) see(value []byte) {
	lease := &coordinationv1.Lease{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, lease); err != nil {
		r.fault(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names, r.times = append(r.names, ptr.Deref(lease.Spec.HolderIdentity, "")), append(r.times, time.Now())
}

func (r *holders) fault(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, err)
}

// expectOneLeader fails if a server took the Lease over before the term of the one before had ended, or held it again in a term that had ended.
func (r *holders) expectOneLeader(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.faults {
		t.Errorf("the Lease of the leader: %v", err)
	}
	ended, moves := map[string]bool{}, 0
	for i := 1; i < len(r.names); i++ {
		before, now, pause := r.names[i-1], r.names[i], r.times[i].Sub(r.times[i-1])
		if now == before {
			continue
		}
		moves++
		ended[before] = before != ""
		if ended[now] {
			t.Errorf("%s led again in a term that had ended", now)
		}
		if before != "" && now != "" && pause < leader.RenewDeadline {
			t.Errorf("%s took over from %s %s after its last renewal, want %s at least", now, before, pause, leader.RenewDeadline)
		}
	}
	if moves < 3 {
		t.Errorf("the leader moved %d times in %d versions of the Lease, want more", moves, len(r.names))
	}
}
