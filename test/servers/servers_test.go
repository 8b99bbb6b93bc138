package servers_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestServers shares the servers among faults of each kind, since they take long to start. It takes three minutes beside other tests: three
// servers and three etcds are started in turn, and leases run out twice.
func TestServers(t *testing.T) {
	s := start(t)
	first := s.leader(t)
	s.put(t, s.other(first), 20, "first")
	s.converges(t, s.other(first))
	load := s.startLoad(t)
	t.Run("OtherKeys", func(t *testing.T) { otherKeys(t, s) })
	t.Run("Tunnels", func(t *testing.T) { tunnelsEverywhere(t, s) })
	t.Run("Paused", func(t *testing.T) { leaderPaused(t, s) })
	t.Run("Partitioned", func(t *testing.T) { leaderPartitioned(t, s) })
	t.Run("Etcd", func(t *testing.T) { etcdFails(t, s) })
	t.Run("Rolled", func(t *testing.T) { load.during(t, func() { serversRolled(t, s) }) })
	t.Run("Killed", func(t *testing.T) { load.during(t, func() { leaderKilled(t, s) }) })
	t.Run("Followers", func(t *testing.T) { followersServe(t, s) })
	load.end(t)
}

// otherKeys: a server without the keys of the others, or with one of its own, is refused, in one line, and changes nothing. Before that line,
// gRPC may log that a connection to another server of etcd was closed while it was being made.
func otherKeys(t *testing.T, s *servers) {
	dir := filepath.Join(t.TempDir(), "other")
	s.refused(t, dir, "these are missing: ca.key, front-proxy-ca.key, service-account.key, secret-encryption.key")
	pki := filepath.Join(dir, "pki")
	if err := os.CopyFS(pki, os.DirFS(filepath.Join(s.all[0].Dir, "pki"))); err != nil {
		t.Fatal(err)
	}
	own := base64.StdEncoding.AppendEncode(nil, make([]byte, 32))
	if err := os.WriteFile(filepath.Join(pki, "secret-encryption.key"), own, 0o600); err != nil {
		t.Fatal(err)
	}
	s.refused(t, dir, "are not those of the control plane in this etcd (secret-encryption.key): copy the directory")
}

// refused expects that a server on the etcd of the others ends with one line that has a reason.
func (s *servers) refused(t *testing.T, dir, reason string) {
	t.Helper()
	r := fleettest.Flagship(t, "server", "--data-dir", dir, "--port", "0", "--etcd-servers", strings.Join(s.etcd.endpoints(), ","))
	var lines []string
	for line := range strings.Lines(r.Stderr) {
		if !strings.Contains(line, "grpc: addrConn.createTransport failed to connect") {
			lines = append(lines, line)
		}
	}
	if r.Code == 0 || len(lines) != 1 || !strings.HasPrefix(lines[0], "error: ") || !strings.Contains(lines[0], reason) {
		t.Errorf("the server ended with code %d and printed\n%swant a failure and one line with %q", r.Code, r.Stderr, reason)
	}
}

// leaderPaused stops the leader in the middle of its work for longer than the lease. Others take over and write newer versions. When it goes
// on, with queues full of the older version, it writes nothing.
func leaderPaused(t *testing.T, s *servers) {
	const objects = 60
	old := s.leader(t)
	through := s.other(old)
	s.put(t, through, objects, "older")
	s.all[old].Pause(t)
	paused := time.Now()
	now := s.leader(t, old)
	t.Logf("paused: another server ran the loops after %s", time.Since(paused).Round(time.Millisecond))
	s.put(t, through, objects, "newer")
	before := s.converges(t, through)
	bindings := s.bindings(t, through)

	s.all[old].Resume(t)
	s.follows(t, old)
	after := s.converges(t, through)
	for key, was := range before {
		is := after[key]
		if strings.HasPrefix(key.Name, "object-") && is.ResourceVersion != was.ResourceVersion {
			t.Errorf("%s was written after the pause:\n%s", key, cmp.Diff(was, is))
		}
	}
	for name, generation := range s.bindings(t, through) {
		if strings.HasPrefix(name, "object-") && generation != bindings[name] {
			t.Errorf("binding %s was written after the pause: generation %d, then %d", name, bindings[name], generation)
		}
	}
	if leads := s.leader(t); leads != now {
		t.Logf("%s runs the loops now, and %s did: it had no processor time to renew the lease", s.all[leads].Name, s.all[now].Name)
	}
}

// bindings are the generations of bindings by name. No evictions are among them.
func (s *servers) bindings(t *testing.T, through *fleettest.Part) map[string]int64 {
	t.Helper()
	list := &workv1alpha2.ResourceBindingList{}
	s.read(t, through, list, s.ns)
	found := map[string]int64{}
	for i := range list.Items {
		b := &list.Items[i]
		found[b.Name] = b.Generation
		if len(b.Spec.GracefulEvictionTasks) > 0 {
			t.Errorf("%s is evicted: %v", b.Name, b.Spec.GracefulEvictionTasks)
		}
	}
	return found
}

// follows waits until a server runs no loops beside another one, serves what the others wrote, and is ready.
func (s *servers) follows(t *testing.T, i int) {
	t.Helper()
	mark := fleettest.ConfigMap(metav1.NamespaceDefault, "mark-"+fmt.Sprint(time.Now().UnixNano()), nil)
	s.mark(t, s.other(i), mark)
	eventually(t, s.all[i].Name+" follows", func(ctx context.Context) error {
		if is, err := leads(ctx, s.all[i]); err != nil || is && !s.alone(ctx, i) {
			return fmt.Errorf("it runs the loops: %t, %w", is, err)
		}
		list := &corev1.ConfigMapList{} // from its watch cache
		if err := s.all[i].List(ctx, list, client.InNamespace(metav1.NamespaceDefault), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
			return err
		}
		for _, c := range list.Items {
			if c.Name == mark.Name {
				return s.ready(ctx, i)
			}
		}
		return errors.New("it does not have what another server wrote")
	})
}

// alone returns whether no other server runs the loops: one that had no processor time has lost the lease.
func (s *servers) alone(ctx context.Context, i int) bool {
	for j, hub := range s.all {
		if is, err := leads(ctx, hub); j != i && (err != nil || is) {
			return false
		}
	}
	return true
}

// ready returns what /readyz of a server lacks.
func (s *servers) ready(ctx context.Context, i int) error {
	kube, err := kubernetes.NewForConfig(s.all[i].Config)
	if err != nil {
		return err
	}
	return kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// leaderPartitioned: the leader does not reach etcd. It serves on once it does, and another server runs the loops.
func leaderPartitioned(t *testing.T, s *servers) {
	fleettest.Nightly(t, "Paused and Killed guard a change of the leader")
	old := s.leader(t)
	for _, link := range s.links[old] {
		link.Set(fleettest.Trouble{Held: true})
	}
	cut := time.Now()
	s.leader(t, old)
	t.Logf("partitioned: another server ran the loops after %s", time.Since(cut).Round(time.Millisecond))
	eventually(t, "the server without storage runs no loops", func(ctx context.Context) error {
		is, err := leads(ctx, s.all[old])
		if err == nil && is {
			err = errors.New("it does")
		}
		return err
	})
	// The alert FlagshipStorageRefuses is about these metrics.
	before, err := etcdRequests(t.Context(), s.all[old])
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server counts the requests to etcd that fail", func(ctx context.Context) error {
		now, err := etcdRequests(ctx, s.all[old])
		if err != nil {
			return err
		}
		for operation, n := range now {
			if failed, all := n.failed-before[operation].failed, n.all-before[operation].all; failed > 0 && failed > all/2 {
				return nil
			}
		}
		return fmt.Errorf("there were %v, and then %v", before, now)
	})
	t.Logf("partitioned: requests to etcd were counted as failed after %s", time.Since(cut).Round(time.Millisecond))
	for _, link := range s.links[old] {
		link.Set(fleettest.Trouble{})
	}
	s.follows(t, old)
	select {
	case <-s.all[old].Ended():
		t.Error("it ended")
	default:
	}
}

// etcdFails: another server of etcd leads, one is lost, and what watches continue from is compacted.
func etcdFails(t *testing.T, s *servers) {
	fleettest.Nightly(t, "it guards what etcd and its client do")
	s.etcd.move(t)
	s.works(t, "moved")
	leads := -1
	eventually(t, "etcd has a leader", func(ctx context.Context) (err error) {
		leads, _, err = s.etcd.leader(ctx)
		return err
	})
	s.etcd.kill(leads)
	s.works(t, "lost")
	s.etcd.compact(t)
	s.works(t, "compacted")
	s.etcd.start(t, leads)
	eventually(t, "etcd is whole", func(ctx context.Context) error {
		_, _, err := s.etcd.leader(ctx)
		return err
	})
	s.works(t, "whole")
}

// works writes a version through each server in turn, and waits until the member has it.
func (s *servers) works(t *testing.T, version string) {
	t.Helper()
	began := time.Now()
	for i, hub := range s.all {
		s.put(t, hub, 5, fmt.Sprintf("%s-%d", version, i))
	}
	s.converges(t, s.all[0])
	t.Logf("%s: everything was written after %s", version, time.Since(began).Round(time.Millisecond))
}

// serversRolled: each server ends in order and starts again, the leader, too.
func serversRolled(t *testing.T, s *servers) {
	before := s.converges(t, s.all[0])
	for i, hub := range s.all {
		was := s.leader(t)
		began := time.Now()
		hub.Stop(t)
		stopped := time.Now()
		if was == i {
			s.leader(t, i)
			t.Logf("stopped in order: another server ran the loops %s after the signal and %s after the end", time.Since(began).Round(time.Millisecond), time.Since(stopped).Round(time.Millisecond))
		}
		hub.Start(t)
	}
	s.leader(t)
	for key, is := range s.converges(t, s.all[0]) {
		if was, existed := before[key]; existed && was.UID != is.UID {
			t.Errorf("%s was created again", key)
		}
	}
}

// leaderKilled: a crash. A watch at another server has what is written while no server leads.
func leaderKilled(t *testing.T, s *servers) {
	old := s.leader(t)
	through := s.other(old)
	watched := record(t, through, &corev1.ConfigMapList{}, s.ns)
	s.all[old].Kill()
	killed := time.Now()
	mark := fleettest.ConfigMap(s.ns, "without-leader", nil)
	s.mark(t, s.all[(old+2)%len(s.all)], mark)
	written := time.Now()
	watched.until(t, mark.Name)
	late := time.Since(written)
	t.Logf("killed: an object was written after %s, and a watch at another server had it %s later", written.Sub(killed).Round(time.Millisecond), late.Round(time.Millisecond))
	if late >= leader.RenewDeadline { // no server leads before
		t.Errorf("the watch had an object %s after it was written", late)
	}
	s.leader(t, old)
	t.Logf("killed: another server ran the loops after %s", time.Since(killed).Round(time.Millisecond))
	if _, err := watched.all(); err != nil {
		t.Errorf("when another server had taken over: %v", err)
	}
	s.put(t, through, 20, "after a crash")
	s.converges(t, through)
	fleettest.ExpectEventually(t, through.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member}}, func(c *clusterv1alpha1.Cluster) error {
		return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	})
	s.all[old].Start(t)
	s.follows(t, old)
}

// followersServe: a server that does not lead answers lists and watches from its own caches, also while it does not reach etcd.
func followersServe(t *testing.T, s *servers) {
	fleettest.Nightly(t, "it guards the caches of the API server of Kubernetes")
	leads := s.leader(t)
	follower, links := s.other(leads), s.links[(leads+1)%len(s.all)]
	known := fleettest.ConfigMap(s.ns, "known", nil)
	s.mark(t, s.all[leads], known)
	cached := &client.ListOptions{Namespace: s.ns, Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	eventually(t, "the follower has what was written through the leader", func(ctx context.Context) error {
		return has(ctx, follower, cached, known.Name)
	})
	for _, link := range links {
		link.Set(fleettest.Trouble{Held: true})
	}
	defer func() {
		for _, link := range links {
			link.Set(fleettest.Trouble{})
		}
		s.follows(t, (leads+1)%len(s.all))
	}()
	fromEtcd, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := follower.Get(fromEtcd, client.ObjectKeyFromObject(known), known.DeepCopy()); err == nil {
		t.Fatal("the follower reaches etcd")
	}
	began := time.Now()
	eventually(t, "the follower answers a list from its cache", func(ctx context.Context) error {
		return has(ctx, follower, cached, known.Name)
	})
	t.Logf("a follower that does not reach etcd answered a list from its cache after %s", time.Since(began).Round(time.Millisecond))
	ctx, done := context.WithTimeout(t.Context(), oneTry)
	defer done()
	w, err := follower.Watch(ctx, &corev1.ConfigMapList{}, cached)
	if err != nil {
		t.Fatalf("the follower begins no watch from its cache: %v", err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		c, ok := e.Object.(*corev1.ConfigMap)
		if !ok {
			t.Fatalf("the watch has %v", e.Object)
		}
		if c.Name == known.Name {
			return
		}
	}
	t.Error("the watch from the cache ended without what is in it")
}

// has returns an error unless a list has an object.
func has(ctx context.Context, in *fleettest.Part, o client.ListOption, name string) error {
	list := &corev1.ConfigMapList{}
	if err := in.List(ctx, list, o); err != nil {
		return err
	}
	for _, c := range list.Items {
		if c.Name == name {
			return nil
		}
	}
	return fmt.Errorf("%s is not among %d objects", name, len(list.Items))
}

const (
	// oneRequest is how long the load waits for an answer before it tries the next server.
	oneRequest = 2 * time.Second
	// betweenWrites is the pause of the load after each object, which three servers and etcds and a member have to store.
	betweenWrites = 500 * time.Millisecond
	// available bounds how long no request of a client may succeed that tries again, while etcd is well: far more than it takes.
	available = 30 * time.Second
)

// load writes objects and reads each of them as long as the test runs, as a client that tries again at the next server.
type load struct {
	servers *servers
	cancel  context.CancelFunc
	running sync.WaitGroup
	written map[types.NamespacedName]types.UID
	// at is the server that answered last.
	at int

	mu sync.Mutex
	// tries are attempts that failed, gap is the longest time without success, and phase the same since during began.
	tries, requests int
	gap, phase      time.Duration
	last            time.Time
	err             error
}

func (s *servers) startLoad(t *testing.T) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{servers: s, cancel: cancel, written: map[types.NamespacedName]types.UID{}, last: time.Now()}
	l.running.Go(func() { l.run(ctx) })
	t.Cleanup(func() {
		cancel()
		l.running.Wait()
	})
	return l
}

func (l *load) run(ctx context.Context) {
	for number := 0; ctx.Err() == nil; number++ {
		c := fleettest.ConfigMap(l.servers.ns, fmt.Sprintf("load-%d", number), map[string]string{"version": "1"})
		key := client.ObjectKeyFromObject(c)
		created, read := c.DeepCopy(), c.DeepCopy()
		err := l.request(ctx, func(ctx context.Context, hub *fleettest.Part, again bool) error {
			err := hub.Create(ctx, created)
			if apierrors.IsAlreadyExists(err) && again { // the answer to an earlier try was lost
				err = hub.Get(ctx, key, created)
			}
			return err
		})
		if err == nil {
			l.written[key] = created.UID
			// Through another server, which has to have it.
			l.at = (l.at + 1) % len(l.servers.all)
			err = l.request(ctx, func(ctx context.Context, hub *fleettest.Part, _ bool) error { return hub.Get(ctx, key, read) })
		}
		if err == nil && read.UID != created.UID {
			err = fmt.Errorf("another object was read than written")
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			l.mu.Lock()
			l.err = fmt.Errorf("object %d: %w", number, err)
			l.mu.Unlock()
			return
		}
		select {
		case <-time.After(betweenWrites):
		case <-ctx.Done():
		}
	}
}

// request makes a request until it succeeds. An object that is not found is none of the failures that are tried again.
func (l *load) request(ctx context.Context, send func(ctx context.Context, hub *fleettest.Part, again bool) error) error {
	began := time.Now()
	for tried := 0; ; tried++ {
		one, cancel := context.WithTimeout(ctx, oneRequest)
		err := send(one, l.servers.all[l.at], tried > 0)
		cancel()
		switch {
		case err == nil:
			l.succeeded()
			return nil
		case ctx.Err() != nil || apierrors.IsNotFound(err):
			return err
		case time.Since(began) > patience:
			return fmt.Errorf("no server answers: %w", err)
		}
		l.mu.Lock()
		l.tries++
		l.mu.Unlock()
		l.at = (l.at + 1) % len(l.servers.all)
		select {
		case <-time.After(20 * time.Millisecond): // a server that does not run refuses at once
		case <-ctx.Done():
		}
	}
}

func (l *load) succeeded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	pause := now.Sub(l.last)
	l.requests++
	l.gap, l.phase, l.last = max(l.gap, pause), max(l.phase, pause), now
}

// during fails if no request succeeded for too long while a fault happens that leaves a server and etcd.
func (l *load) during(t *testing.T, fault func()) {
	t.Helper()
	l.mu.Lock()
	l.phase = 0
	before, tries, began := l.requests, l.tries, time.Now()
	l.mu.Unlock()
	fault()
	l.mu.Lock()
	defer l.mu.Unlock()
	gap := max(l.phase, time.Since(l.last))
	t.Logf("load: %d requests succeeded in %s, %d tries failed, the longest time without success was %s",
		l.requests-before, time.Since(began).Round(time.Second), l.tries-tries, gap.Round(time.Millisecond))
	if gap > available {
		t.Errorf("no request succeeded for %s, want %s at most", gap, available)
	}
}

// end waits until everything that was written is in the member, as it was written.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.cancel()
	l.running.Wait()
	if l.err != nil {
		t.Error(l.err)
	}
	t.Logf("load: %d objects written, %d requests succeeded, %d tries failed, the longest time without success was %s",
		len(l.written), l.requests, l.tries, l.gap.Round(time.Millisecond))
	l.servers.converges(t, l.servers.all[0])
	list := &corev1.ConfigMapList{}
	l.servers.read(t, l.servers.all[0], list, l.servers.ns)
	for _, c := range list.Items {
		key := client.ObjectKeyFromObject(&c)
		if uid, ours := l.written[key]; ours && uid != c.UID {
			t.Errorf("%s is another object than was written", key)
		}
		delete(l.written, key)
	}
	if len(l.written) > 0 {
		t.Errorf("%d objects are lost: %v", len(l.written), l.written)
	}
}
