package sharding_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/sharding"
)

// storage is what the servers share.
type storage struct {
	mu      sync.Mutex
	leases  map[string]*coordinationv1.Lease
	version int
}

func newStorage() *storage { return &storage{leases: map[string]*coordinationv1.Lease{}} }

// lead writes the Lease of the leader.
func (s *storage) lead(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[leader.Name] = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leader.Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &identity},
	}
}

func (s *storage) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.leases)
}

// client is that of one server. It fails as the test requires.
type client struct {
	coordinationv1client.LeaseInterface
	storage *storage

	mu sync.Mutex
	// away is whether no request arrives; unanswered whether they arrive, and their answers do not. delay is how long each takes.
	away, unanswered bool
	delay            time.Duration
}

var errNoAnswer = errors.New("no answer")

func (c *client) set(away, unanswered bool, delay time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away, c.unanswered, c.delay = away, unanswered, delay
}

// request does f as the state of the connection allows.
func (c *client) request(ctx context.Context, f func(*storage) error) error {
	c.mu.Lock()
	away, unanswered, delay := c.away, c.unanswered, c.delay
	c.mu.Unlock()
	if away {
		<-ctx.Done()
		return ctx.Err()
	}
	<-time.After(delay)
	c.storage.mu.Lock()
	err := f(c.storage)
	c.storage.mu.Unlock()
	if unanswered {
		<-ctx.Done()
		return errors.Join(errNoAnswer, ctx.Err())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

var resource = schema.GroupResource{Resource: "leases"}

func (c *client) Get(ctx context.Context, name string, _ metav1.GetOptions) (out *coordinationv1.Lease, err error) {
	err = c.request(ctx, func(s *storage) error {
		found, ok := s.leases[name]
		if !ok {
			return apierrors.NewNotFound(resource, name)
		}
		out = found.DeepCopy()
		return nil
	})
	return out, err
}

func (c *client) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	list := &coordinationv1.LeaseList{}
	err := c.request(ctx, func(s *storage) error {
		for _, l := range s.leases {
			if _, selected := l.Labels[o.LabelSelector]; selected {
				list.Items = append(list.Items, *l.DeepCopy())
			}
		}
		return nil
	})
	return list, err
}

func (c *client) Create(ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (out *coordinationv1.Lease, err error) {
	return c.write(ctx, l, func(present *coordinationv1.Lease) error {
		if present != nil {
			return apierrors.NewAlreadyExists(resource, l.Name)
		}
		return nil
	})
}

func (c *client) Update(ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return c.write(ctx, l, func(present *coordinationv1.Lease) error {
		switch {
		case present == nil:
			return apierrors.NewNotFound(resource, l.Name)
		case present.ResourceVersion != l.ResourceVersion:
			return apierrors.NewConflict(resource, l.Name, errors.New("it was changed"))
		}
		return nil
	})
}

func (c *client) write(ctx context.Context, l *coordinationv1.Lease, check func(*coordinationv1.Lease) error) (out *coordinationv1.Lease, err error) {
	err = c.request(ctx, func(s *storage) error {
		if err := check(s.leases[l.Name]); err != nil {
			return err
		}
		s.version++
		out = l.DeepCopy()
		out.ResourceVersion = strconv.Itoa(s.version)
		s.leases[l.Name] = out.DeepCopy()
		return nil
	})
	return out, err
}

func (c *client) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	return c.request(ctx, func(s *storage) error {
		delete(s.leases, name)
		return nil
	})
}

// server is one of a test.
type server struct {
	*sharding.Server
	client *client
	cancel context.CancelFunc
	ended  chan error
	// behind is why the caches do not have what others wrote; guarded by the lock of the storage.
	behind error
}

func start(t *testing.T, shared *storage, key string, run int) *server {
	s := &server{client: &client{storage: shared}, ended: make(chan error, 1)}
	s.Server = sharding.New(sharding.Config{
		Leases: s.client, Key: key, ID: fmt.Sprintf("%s-%d", key, run), URL: "https://" + key, Election: key, Clock: clock.RealClock{},
		CatchUp: func(ctx context.Context) error {
			return s.client.request(ctx, func(*storage) error { return s.behind })
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	go func() { s.ended <- s.Start(ctx) }()
	return s
}

// stop ends a server in order.
func (s *server) stop(t *testing.T) {
	s.cancel()
	<-s.ended
	if err := s.Release(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

var members = func() (all []string) {
	for i := range 60 {
		all = append(all, fmt.Sprintf("member-%d", i))
	}
	return all
}()

// owners counts the servers that may write to each member.
func owners(t *testing.T, servers map[string]*server) (unserved int, shares map[string]int) {
	t.Helper()
	shares = map[string]int{}
	for _, member := range members {
		var may []string
		for key, s := range servers {
			if s.MayWrite(member) == nil {
				may = append(may, key)
				shares[key]++
			}
		}
		if len(may) == 0 {
			unserved++
		}
		if len(may) > 1 {
			t.Fatalf("%v may write to %s", may, member)
		}
	}
	return unserved, shares
}

// within checks that no member has two servers until all of them have one, and returns how long that took.
func within(t *testing.T, limit time.Duration, servers map[string]*server) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		unserved, _ := owners(t, servers)
		if unserved == 0 {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			t.Fatalf("%d members have no server after %s", unserved, limit)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// bubble runs a test with a clock of its own. It skips it in short mode, in which the race detector runs: that crashes in its own code now and
// then, with a segmentation violation in goroutine 0, when many timers of a bubble fire.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if testing.Short() {
		t.Skip("not with the race detector, which crashes in its own code")
	}
	synctest.Test(t, test)
}

// TestMembersAreShared: every server gets a share, one that comes takes from all, one that ends in order or crashes leaves its share to
// the others, and nothing else moves.
func TestMembersAreShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shared := newStorage()
		servers := map[string]*server{"a": start(t, shared, "a", 1), "b": start(t, shared, "b", 1)}
		shared.lead("a")
		within(t, 10*time.Second, servers)
		_, before := owners(t, servers)
		if before["a"] < len(members)/4 || before["b"] < len(members)/4 {
			t.Errorf("shares of two servers: %v", before)
		}
		of := func(key string) (all []string) {
			for _, m := range members {
				if servers[key].MayWrite(m) == nil {
					all = append(all, m)
				}
			}
			return all
		}
		servers["c"] = start(t, shared, "c", 1)
		hadA := of("a")
		took := within(t, 5*time.Second, servers)
		<-time.After(5 * time.Second)
		_, now := owners(t, servers)
		if now["c"] < len(members)/6 || now["a"] > before["a"] || now["b"] > before["b"] || now["a"]+now["b"]+now["c"] != len(members) {
			t.Errorf("shares before a third server came: %v, and after it (%s): %v", before, took, now)
		}
		servers["c"].stop(t)
		if took := within(t, 2*time.Second, servers); took > 2*leader.RetryPeriod+50*time.Millisecond {
			t.Errorf("after an orderly end its members had no server for %s", took)
		}
		delete(servers, "c")
		if got := of("a"); fmt.Sprint(got) != fmt.Sprint(hadA) {
			t.Errorf("members of a server before another one came, and after it left: %v, %v", hadA, got)
		}
		servers["b"].client.set(true, false, 0)
		if took := within(t, leader.Duration+leader.RenewDeadline, servers); took > leader.Duration+2*leader.RetryPeriod+50*time.Millisecond {
			t.Errorf("after a crash its members had no server for %s", took)
		}
		if err := <-servers["b"].ended; !errors.Is(err, sharding.ErrLost) {
			t.Errorf("a server without storage ends with %v", err)
		}
		if url, ok := servers["b"].Peer("member-1"); ok && url != "https://a" {
			t.Errorf("the other server is at %q", url)
		}
		delete(servers, "b")
		// The same server under the same name gets the same members, and the Lease of its former self goes.
		servers["b"] = start(t, shared, "b", 2)
		within(t, 10*time.Second, servers)
		<-time.After(2 * time.Minute)
		if _, again := owners(t, servers); again["b"] != before["b"] || shared.count() != 3 {
			t.Errorf("a server that is back has %d members, %d before; there are %d Leases, want that of the leader and two", again["b"], before["b"], shared.count())
		}
		for _, s := range servers {
			s.stop(t)
		}
	})
}

// TestCachesCatchUpFirst: a member that another server had is served only when the caches have what that server wrote.
func TestCachesCatchUpFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shared := newStorage()
		servers := map[string]*server{"a": start(t, shared, "a", 1), "b": start(t, shared, "b", 1)}
		shared.lead("a")
		within(t, 10*time.Second, servers)
		_, before := owners(t, servers)
		setBehind := func(err error) {
			shared.mu.Lock()
			defer shared.mu.Unlock()
			servers["a"].behind = err
		}
		setBehind(errors.New("the caches are old"))
		servers["b"].stop(t)
		<-time.After(20 * time.Second)
		delete(servers, "b")
		if unserved, now := owners(t, servers); unserved != before["b"] || now["a"] != before["a"] {
			t.Errorf("%d members have no server, want %d; the other server has %d, want %d", unserved, before["b"], now["a"], before["a"])
		}
		setBehind(nil)
		within(t, time.Second, servers)
		servers["a"].stop(t)
	})
}

// TestAForeignLeader: while a server leads that does not share members, which writes to all of them, no other one does.
func TestAForeignLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shared := newStorage()
		shared.lead("old")
		servers := map[string]*server{"a": start(t, shared, "a", 1)}
		<-time.After(20 * time.Second)
		if unserved, _ := owners(t, servers); unserved != len(members) {
			t.Errorf("%d members have no server, want all", unserved)
		}
		shared.lead("a")
		within(t, time.Second, servers)
		unshared := &sharding.Unshared{Leases: &client{storage: shared}, Clock: clock.RealClock{}}
		if err := unshared.Check(t.Context()); err == nil {
			t.Error("a server may serve all members while another one serves a share")
		}
		shared.lead("old")
		<-time.After(2 * leader.RetryPeriod)
		if unserved, _ := owners(t, servers); unserved != len(members) {
			t.Errorf("%d members have no server, want all", unserved)
		}
		if err := unshared.Check(t.Context()); err == nil {
			t.Error("a server may serve all members while requests of another one are on their way")
		}
		<-time.After(leader.Duration - leader.RenewDeadline + leader.RetryPeriod)
		if err := unshared.Check(t.Context()); err != nil {
			t.Errorf("the leader may not serve all members: %v", err)
		}
		shared.lead("a")
		within(t, time.Second, servers)
		servers["a"].client.set(true, false, 0) // a crash
		if err := unshared.Check(t.Context()); err == nil {
			t.Error("a server may serve all members while one may be alive that serves a share")
		}
		<-time.After(leader.Duration)
		if err := unshared.Check(t.Context()); err != nil || shared.count() != 1 {
			t.Errorf("the leader may not serve all members after a crash: %v; there are %d Leases, want one", err, shared.count())
		}
		servers["a"].client.set(false, false, 0)
		servers["a"].stop(t)
	})
}

// TestNoMemberHasTwoServers: by many seeds, servers come, end in order, lose their storage, and get no answers, at any moment. At no time
// may two of them write to one member, and each member has one a while after the last trouble.
func TestNoMemberHasTwoServers(t *testing.T) {
	for seed := range uint64(30) {
		bubble(t, func(t *testing.T) { troubled(t, rand.New(rand.NewPCG(seed, seed))) })
	}
}

func troubled(t *testing.T, random *rand.Rand) {
	shared := newStorage()
	shared.lead("a")
	keys, runs, servers := []string{"a", "b", "c", "d"}, 1, map[string]*server{"a": start(t, shared, "a", 1)}
	for range 60 {
		key := keys[random.IntN(len(keys))]
		s, runs1 := servers[key], runs+1
		switch {
		case s == nil:
			servers[key], runs = start(t, shared, key, runs1), runs1
		case random.IntN(6) == 0:
			s.client.set(false, false, 0)
			s.stop(t)
			delete(servers, key)
		default:
			s.client.set(random.IntN(3) == 0, random.IntN(3) == 0, time.Duration(random.IntN(1500))*time.Millisecond*time.Duration(random.IntN(2)))
		}
		for wait := time.Duration(random.IntN(4000)) * time.Millisecond; wait > 0; wait -= 50 * time.Millisecond {
			owners(t, servers)
			<-time.After(50 * time.Millisecond)
		}
		for key, s := range servers {
			select {
			case err := <-s.ended: // it lost its Lease, and begins anew
				if !errors.Is(err, sharding.ErrLost) {
					t.Fatal(err)
				}
				s.Term().End()
				delete(servers, key)
			default:
			}
		}
	}
	if len(servers) == 0 {
		servers["a"] = start(t, shared, "a", runs+1)
	}
	for _, s := range servers {
		s.client.set(false, false, 0)
	}
	<-time.After(2*leader.Duration + time.Second)
	for key, s := range servers {
		select {
		case <-s.ended:
			servers[key] = start(t, shared, key, 1000+runs)
		default:
		}
	}
	within(t, 3*leader.Duration, servers)
	for _, s := range servers {
		s.stop(t)
	}
}
