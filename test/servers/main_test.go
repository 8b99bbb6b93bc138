// Package servers_test runs three servers on an etcd cluster of three, real processes, and makes each of them fail: the API has to be
// there for clients that try again at another server, no object may be lost, and a server that was the leader may write nothing.
package servers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// patience is how long everything may take to be as it should be after a fault.
	patience = 5 * time.Minute
	// pause is between two checks: most of them read all metrics of each server, which takes its processor tens of milliseconds.
	pause = 500 * time.Millisecond
	// oneTry is how long one check may take: a server that is paused, or without storage, may never answer.
	oneTry = 20 * time.Second
	// member is the name of the one cluster.
	member = "member1"
)

// eventually calls check until it returns nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("never checked")
	err := wait.PollUntilContextTimeout(t.Context(), pause, patience, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, oneTry)
		defer cancel()
		err := check(ctx)
		if err != nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v: %v", what, err, last)
	}
}

// servers are several servers on one etcd, and a member.
type servers struct {
	etcd *etcdCluster
	all  []*fleettest.Part
	// links are the connections of each server to each server of etcd.
	links  [][]*fleettest.Link
	member *fleettest.Part
	ns     string
}

// start runs three servers and a member that each object of a namespace goes to.
func start(t *testing.T) *servers {
	t.Helper()
	s := startServers(t)
	s.member = fleettest.StartMember(t, member, "--bare")
	s.all[0].Join(t, member, s.member.Kubeconfig)
	s.propagate(t, member)
	return s
}

// propagate has every ConfigMap of the namespace go to clusters.
func (s *servers) propagate(t *testing.T, clusters ...string) {
	t.Helper()
	fleettest.Create(t, s.all[0].Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}},
		fleettest.Policy(s.ns, "all", fleettest.To(clusters...), &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}))
}

// startServers runs three servers with the same flags.
func startServers(t *testing.T, flags ...string) *servers {
	t.Helper()
	return startEachServer(t, func(dir string, _ int, common []string) *fleettest.Part {
		return fleettest.StartHubIn(t, dir, append(common, flags...)...)
	})
}

// startEachServer runs three servers by a function, one after the other, with flags that all have. The first one leads unless it has no
// processor time. The second and the third have the keys of the first.
func startEachServer(t *testing.T, run func(dir string, i int, common []string) *fleettest.Part) *servers {
	t.Helper()
	s := &servers{etcd: startEtcd(t), ns: "load"}
	for i := range 3 {
		dir := t.TempDir()
		if i > 0 {
			if err := os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(filepath.Join(s.all[0].Dir, "pki"))); err != nil {
				t.Fatal(err)
			}
		}
		var links []*fleettest.Link
		var urls []string
		for _, m := range s.etcd.members {
			link := fleettest.LinkTo(t, m.Client)
			links, urls = append(links, link), append(urls, "http://"+link.Address())
		}
		s.links = append(s.links, links)
		hub := run(dir, i, []string{
			"--etcd-servers", strings.Join(urls, ","), "--enable-bootstrap-token-auth", "--cluster-probe-period=1s", "--cluster-failure-threshold=3s", "--cluster-success-threshold=1s",
		})
		hub.Name = fmt.Sprintf("server%d", i)
		s.all = append(s.all, hub)
	}
	return s
}

// requests are how many of a kind failed, and all.
type requests struct{ failed, all float64 }

// etcdRequests are the requests of a server to etcd since its start, by operation.
func etcdRequests(ctx context.Context, hub *fleettest.Part) (map[string]requests, error) {
	text, err := metrics(ctx, hub)
	if err != nil {
		return nil, err
	}
	found := map[string]requests{}
	for _, sample := range regexp.MustCompile(`(?m)^etcd_request(_errors|s)_total\{.*operation="(\w+)".*\} (\S+)$`).FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(sample[3]), 64)
		if err != nil {
			return nil, err
		}
		sum := found[string(sample[2])]
		if string(sample[1]) == "s" {
			sum.all += n
		} else {
			sum.failed += n
		}
		found[string(sample[2])] = sum
	}
	return found, nil
}

func metrics(ctx context.Context, hub *fleettest.Part) ([]byte, error) {
	kube, err := kubernetes.NewForConfig(hub.Config)
	if err != nil {
		return nil, err
	}
	return kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
}

// leads returns whether a server runs the loops.
func leads(ctx context.Context, hub *fleettest.Part) (bool, error) {
	text, err := metrics(ctx, hub)
	if err != nil {
		return false, err
	}
	const metric = `leader_election_master_status{name="flagship"} `
	for line := range bytes.Lines(text) {
		if value, found := strings.CutPrefix(string(line), metric); found {
			return strings.TrimSpace(value) == "1", nil
		}
	}
	return false, errors.New("it has no metric of the leader election")
}

// leader waits until one of the servers, but for those that are left out, runs the loops.
func (s *servers) leader(t *testing.T, without ...int) int {
	t.Helper()
	found := -1
	eventually(t, "a server runs the loops", func(ctx context.Context) error {
		var faults []error
		for i, hub := range s.all {
			if contains(without, i) {
				continue
			}
			is, err := leads(ctx, hub)
			if is {
				found = i
				return nil
			}
			faults = append(faults, err)
		}
		return fmt.Errorf("none does: %w", errors.Join(faults...))
	})
	return found
}

func contains(all []int, one int) bool {
	for _, i := range all {
		if i == one {
			return true
		}
	}
	return false
}

// other is a server that is not the given one.
func (s *servers) other(than int) *fleettest.Part { return s.all[(than+1)%len(s.all)] }

// put writes ConfigMaps with a version through a server. It repeats what fails: without processor time, etcd has an election.
func (s *servers) put(t *testing.T, through *fleettest.Part, count int, version string) {
	t.Helper()
	next := 0
	eventually(t, "objects are written through "+through.Name, func(ctx context.Context) error {
		for ; next < count; next++ {
			name := fmt.Sprintf("object-%d", next)
			wanted := fleettest.ConfigMap(s.ns, name, map[string]string{"version": version})
			err := through.Update(ctx, wanted)
			if apierrors.IsNotFound(err) {
				err = through.Create(ctx, wanted)
			}
			if err != nil {
				return fmt.Errorf("writing %s: %w", name, err)
			}
		}
		return nil
	})
}

// mark writes a ConfigMap through a server, as put does.
func (s *servers) mark(t *testing.T, through *fleettest.Part, mark *corev1.ConfigMap) {
	t.Helper()
	eventually(t, "a mark is written through "+through.Name, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(through.Create(ctx, mark.DeepCopy()))
	})
}

// read lists objects through a server, as put writes.
func (s *servers) read(t *testing.T, through *fleettest.Part, list client.ObjectList, namespace string) {
	t.Helper()
	eventually(t, "objects are read through "+through.Name, func(ctx context.Context) error {
		return through.List(ctx, list, client.InNamespace(namespace))
	})
}

// converges waits until the member has what the control plane has in the namespace now, and nothing that the control plane does not have.
// A client goes on writing meanwhile, so that there is always something on its way: the lists are not compared as they are.
func (s *servers) converges(t *testing.T, through *fleettest.Part) map[types.NamespacedName]corev1.ConfigMap {
	t.Helper()
	return s.convergesIn(t, through, s.member)
}

// convergesIn is converges for one member.
func (s *servers) convergesIn(t *testing.T, through, member *fleettest.Part) map[types.NamespacedName]corev1.ConfigMap {
	t.Helper()
	var wanted, present map[types.NamespacedName]corev1.ConfigMap
	eventually(t, "the control plane answers", func(ctx context.Context) (err error) {
		wanted, err = s.list(ctx, through)
		delete(wanted, types.NamespacedName{Namespace: s.ns, Name: "kube-root-ca.crt"}) // of which members have their own
		return err
	})
	eventually(t, "the member has what the control plane has", func(ctx context.Context) (err error) {
		if present, err = s.list(ctx, member, client.MatchingLabels{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue}); err != nil {
			return err
		}
		for key, want := range wanted {
			if got := present[key]; got.Data["version"] != want.Data["version"] {
				return fmt.Errorf("%s has version %q, want %q", key, got.Data["version"], want.Data["version"])
			} else if got.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel] == "" {
				return fmt.Errorf("%s was made while its template had lost its policy to an update, and is written again", key)
			}
		}
		later, err := s.list(ctx, through) // it has what each copy was made of
		for key := range present {
			if _, exists := later[key]; err == nil && !exists {
				err = fmt.Errorf("the member has %s, and the control plane has not", key)
			}
		}
		return err
	})
	return present
}

// list are the ConfigMaps of the namespace.
func (s *servers) list(ctx context.Context, in *fleettest.Part, o ...client.ListOption) (map[types.NamespacedName]corev1.ConfigMap, error) {
	list := &corev1.ConfigMapList{}
	if err := in.List(ctx, list, append(o, client.InNamespace(s.ns))...); err != nil {
		return nil, err
	}
	found := map[types.NamespacedName]corev1.ConfigMap{}
	for _, c := range list.Items {
		found[client.ObjectKeyFromObject(&c)] = c
	}
	return found, nil
}
