package servers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// shards are servers that share members.
type shards struct {
	*servers
	names   []string
	members map[string]*fleettest.Part
}

// TestShards: three servers share four members. Each member is always served by one, and what fails takes no member's objects away and
// writes nothing old. It takes two minutes beside other tests, for ten processes that start in turn, and a lease that runs out.
func TestShards(t *testing.T) {
	s := &shards{servers: startServers(t, "--shard-members"), members: map[string]*fleettest.Part{}}
	for i := range 4 {
		name := fmt.Sprintf("shard%d", i)
		s.names = append(s.names, name)
		s.members[name] = fleettest.StartMember(t, name, "--bare")
		s.all[i%3].Join(t, name, s.members[name].Kubeconfig)
	}
	s.propagate(t, s.names...)
	s.put(t, s.all[0], 20, "first")
	s.everywhere(t, s.all[0])
	t.Run("Shared", func(t *testing.T) { membersShared(t, s) })
	t.Run("Reports", func(t *testing.T) { reportsFromEverywhere(t, s) })
	t.Run("Warnings", func(t *testing.T) { warningsReachTemplates(t, s) })
	t.Run("Paused", func(t *testing.T) { shardPaused(t, s) })
	t.Run("Killed", func(t *testing.T) { shardKilled(t, s) })
	t.Run("Leaderless", func(t *testing.T) { shardsWithoutLeader(t, s) })
	t.Run("Left", func(t *testing.T) { memberLeavesShards(t, s) })
}

// everywhere waits until all members have what the control plane has, and returns the versions of all copies.
func (s *shards) everywhere(t *testing.T, through *fleettest.Part) map[string]map[types.NamespacedName]corev1.ConfigMap {
	t.Helper()
	all := map[string]map[types.NamespacedName]corev1.ConfigMap{}
	for _, name := range s.names {
		all[name] = s.convergesIn(t, through, s.members[name])
	}
	return all
}

var connected = regexp.MustCompile(`flagship_member_reachable\{cluster="([^"]+)"\}`)

// served are the members that a server is connected to.
func served(ctx context.Context, hub *fleettest.Part) ([]string, error) {
	kube, err := kubernetes.NewForConfig(hub.Config)
	if err != nil {
		return nil, err
	}
	text, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, found := range connected.FindAllSubmatch(bytes.TrimSpace(text), -1) {
		names = append(names, string(found[1]))
	}
	slices.Sort(names)
	return names, nil
}

// shares waits until each member is served by one server, but for those that are left out, and returns the members of each.
func (s *shards) shares(t *testing.T, without ...int) [][]string {
	t.Helper()
	shares := make([][]string, len(s.all))
	eventually(t, "each member has a server", func(ctx context.Context) error {
		of := map[string]int{}
		for i, hub := range s.all {
			if contains(without, i) {
				continue
			}
			names, err := served(ctx, hub)
			if err != nil {
				return err
			}
			shares[i] = names
			for _, name := range names {
				of[name]++
			}
		}
		for _, name := range s.names {
			if of[name] != 1 {
				return fmt.Errorf("%s is served by %d servers: %v", name, of[name], shares)
			}
		}
		return nil
	})
	return shares
}

// busiest is the server with most members.
func busiest(shares [][]string) (most int) {
	for i := range shares {
		if len(shares[i]) > len(shares[most]) {
			most = i
		}
	}
	return most
}

// membersShared: what others change in a member is repaired, and the Clusters are Ready, whichever server serves them.
func membersShared(t *testing.T, s *shards) {
	t.Logf("shares: %v", s.shares(t))
	for _, name := range s.names {
		fleettest.ExpectEventually(t, s.all[0].Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(c *clusterv1alpha1.Cluster) error {
			return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
		})
		s.repaired(t, name)
	}
}

// repaired changes a copy in a member, and waits until it is as it was.
func (s *shards) repaired(t *testing.T, name string) {
	t.Helper()
	changed := fleettest.ConfigMap(s.ns, "object-0", nil)
	fleettest.Update(t, s.members[name].Cluster, changed, func(c *corev1.ConfigMap) { c.Data["version"] = "theirs" })
	fleettest.ExpectEventually(t, s.members[name].Cluster, changed, func(c *corev1.ConfigMap) error {
		if c.Data["version"] == "theirs" {
			return errors.New("it has what others wrote")
		}
		return nil
	})
}

// reportsFromEverywhere: each server reports the drift of all members, and what a restored control plane would do in them.
func reportsFromEverywhere(t *testing.T, s *shards) {
	for i, hub := range s.all {
		eventually(t, fmt.Sprintf("server %d reports the drift of all members", i), func(ctx context.Context) error {
			q := &fleetv1alpha1.DriftReport{}
			if err := hub.Create(ctx, q); err != nil {
				return err
			}
			of := map[string]bool{}
			for _, o := range q.Status.Objects {
				of[o.Cluster] = true
			}
			if len(of) != len(s.names) || len(q.Status.Unanswered) > 0 {
				return fmt.Errorf("it reports %v, without an answer %v", of, q.Status.Unanswered)
			}
			return nil
		})
		r := fleettest.Flagship(t, "orphans", "--kubeconfig", hub.Kubeconfig, "-o", "json")
		for _, name := range s.names {
			if r.Code != 0 || !bytes.Contains([]byte(r.Stdout), []byte(`"`+name+`"`)) || bytes.Contains([]byte(r.Stdout), []byte("error")) {
				t.Errorf("'flagship orphans' at server %d ended with code %d, and has not %s:\n%s%s", i, r.Code, name, r.Stdout, r.Stderr)
			}
		}
	}
}

// shardPaused stops a server in the middle of its work for longer than its Lease. Others serve its members, and write newer versions. When it
// goes on, with queues full of the older version, it writes nothing.
func shardPaused(t *testing.T, s *shards) {
	fleettest.Nightly(t, "TestServers/Paused guards the same for the leader, and Killed that members move")
	const objects = 60
	old := busiest(s.shares(t))
	through := s.other(old)
	s.put(t, through, objects, "older")
	s.all[old].Pause(t)
	paused := time.Now()
	s.shares(t, old)
	t.Logf("paused: other servers had its members after %s", time.Since(paused).Round(time.Millisecond))
	s.put(t, through, objects, "newer")
	before := s.everywhere(t, through)
	s.all[old].Resume(t)
	s.follows(t, old)
	t.Logf("shares: %v", s.shares(t))
	s.unchanged(t, before, s.everywhere(t, through))
}

// unchanged fails for copies that were written.
func (s *shards) unchanged(t *testing.T, before, after map[string]map[types.NamespacedName]corev1.ConfigMap) {
	t.Helper()
	for _, name := range s.names {
		for key, was := range before[name] {
			if is := after[name][key]; is.ResourceVersion != was.ResourceVersion {
				t.Errorf("%s in %s was written:\n%s", key, name, cmp.Diff(was, is))
			}
		}
	}
}

// shardKilled: a crash. Others serve the members of the server; when it is back it has its share, and writes nothing that is there.
func shardKilled(t *testing.T, s *shards) {
	old := busiest(s.shares(t))
	s.all[old].Kill()
	killed := time.Now()
	s.shares(t, old)
	t.Logf("killed: other servers had its members after %s", time.Since(killed).Round(time.Millisecond))
	through := s.other(old)
	s.put(t, through, 20, "after a crash")
	before := s.everywhere(t, through)
	s.all[old].Start(t)
	eventually(t, "it has members again", func(ctx context.Context) error {
		names, err := served(ctx, s.all[old])
		if err == nil && len(names) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
	t.Logf("shares: %v", s.shares(t))
	s.unchanged(t, before, s.everywhere(t, through))
	s.repaired(t, s.names[0])
}

// shardsWithoutLeader: members are served while no server leads.
func shardsWithoutLeader(t *testing.T, s *shards) {
	fleettest.Nightly(t, "Killed guards that members move")
	shares := s.shares(t)
	leads := s.leader(t)
	other := slices.IndexFunc(shares, func(names []string) bool { return len(names) > 0 && !slices.Equal(names, shares[leads]) })
	if other < 0 {
		t.Skip("the leader serves all members: by their names and the ports of this run")
	}
	s.all[leads].Kill()
	killed := time.Now()
	s.repaired(t, shares[other][0])
	took := time.Since(killed)
	s.leader(t, leads)
	t.Logf("a change in a member was repaired %s after the leader was killed, and another server led after %s", took.Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))
	s.put(t, s.other(leads), 20, "with another leader")
	s.everywhere(t, s.other(leads))
	s.all[leads].Start(t)
	s.follows(t, leads)
}

// memberLeavesShards: a Cluster is deleted, and the server that serves it removes what it has there.
func memberLeavesShards(t *testing.T, s *shards) {
	name := s.names[3]
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	fleettest.Update(t, s.all[0].Cluster, cluster, func(c *clusterv1alpha1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1alpha1.OnRemovalAnnotation, clusterv1alpha1.OnRemovalDeleteObjects)
	})
	fleettest.Delete(t, s.all[0].Cluster, cluster)
	fleettest.ExpectGone(t, s.all[0].Cluster, cluster)
	left := &corev1.ConfigMapList{}
	s.read(t, s.members[name], left, s.ns)
	for _, c := range left.Items {
		if c.Name != "kube-root-ca.crt" {
			t.Errorf("%s is left", client.ObjectKeyFromObject(&c))
		}
	}
	s.names = s.names[:3]
	s.shares(t)
}

// warningsReachTemplates: what happens to a copy in a member is an Event of the template at the leader, whichever server serves the member.
func warningsReachTemplates(t *testing.T, s *shards) {
	for _, name := range s.names {
		deleted := fleettest.ConfigMap(s.ns, "object-1", nil)
		before := fleettest.ExpectEventually(t, s.members[name].Cluster, deleted.DeepCopy(), fleettest.Exists)
		fleettest.Delete(t, s.members[name].Cluster, deleted)
		fleettest.ExpectEventually(t, s.members[name].Cluster, deleted.DeepCopy(), func(c *corev1.ConfigMap) error {
			if c.UID == before.GetUID() {
				return errors.New("it was not deleted yet")
			}
			return nil
		})
		eventually(t, "the event of "+name, func(ctx context.Context) error {
			for _, hub := range s.all { // one of them leads
				list := &corev1.EventList{}
				if err := hub.List(ctx, list, client.InNamespace(s.ns)); err != nil {
					return err
				}
				for _, e := range list.Items {
					if e.InvolvedObject.Name == deleted.Name && e.Reason == "ObjectCreatedAgain" && strings.Contains(e.Message, name) {
						return nil
					}
				}
			}
			return errors.New("no server has it")
		})
	}
}
