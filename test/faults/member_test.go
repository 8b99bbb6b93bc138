package faults_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// shortTimes are the flags of a control plane for which a member is unreachable, and an object degraded, after seconds.
var shortTimes = []string{
	"--cluster-probe-period=1s", "--cluster-failure-threshold=2s", "--cluster-success-threshold=1s", fmt.Sprintf("--degraded-after=%s", degradedAfter),
	"--cluster-failover-grace-period=1s", "--failover-observation-period=1s", "--cluster-eviction-rate=1",
	"--descheduling-interval=1s", "--unschedulable-threshold=2s",
}

const degradedAfter = 3 * time.Second

// ground is where one test has its objects: a namespace and a policy that sends all its ConfigMaps to one member.
type ground struct {
	t           *testing.T
	hub, member *fleettest.Cluster
	cluster, ns string
	foreign     bystanders
}

func newGround(t *testing.T, hub, member *fleettest.Cluster, cluster string) *ground {
	t.Helper()
	g := &ground{t: t, hub: hub, member: member, cluster: cluster, ns: namespace(t, hub, "ground-"+cluster)}
	everything := fleettest.Policy(g.ns, "everything", fleettest.To(cluster))
	everything.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
	fleettest.Create(t, hub, everything)
	g.foreign = standBy(t, member, cluster)
	fleettest.Create(t, hub, byHand(cluster, g.ns, "by-hand-0", 1, map[string]string{"a": "1"})) // of which a bystander is a copy
	return g
}

// put makes ConfigMaps what they are given to hold.
func (g *ground) put(prefix string, n int, value string) {
	g.t.Helper()
	for i := range n {
		object := fleettest.ConfigMap(g.ns, fmt.Sprintf("%s-%d", prefix, i), map[string]string{"value": value})
		if err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return change(g.t.Context(), g.hub, object) }); err != nil {
			g.t.Fatal(err)
		}
	}
}

func (g *ground) drop(prefix string, n int) {
	g.t.Helper()
	for i := range n {
		fleettest.Delete(g.t, g.hub, fleettest.ConfigMap(g.ns, fmt.Sprintf("%s-%d", prefix, i), nil))
	}
}

// agrees waits until the member has what its Works contain; converges, until the Works also have what the templates contain.
func (g *ground) agrees() {
	g.t.Helper()
	expectConverged(g.t, g.hub, g.member, g.cluster, g.foreign)
}

func (g *ground) converges() {
	g.t.Helper()
	expectCarried(g.t, g.hub, g.cluster, g.ns)
	g.agrees()
}

// version is that of the Work of a ConfigMap.
func (g *ground) version(name string) string {
	g.t.Helper()
	return fleettest.ExpectEventually(g.t, g.hub, g.work(name), fleettest.Exists).ResourceVersion
}

func (g *ground) work(name string) *workv1alpha1.Work {
	return rendered(g.cluster, "ConfigMap", g.ns, name)
}

// One control plane, which is not killed, for members that fail in every way. It takes two minutes beside other tests: a member is away for
// longer than each timeout, and evictions wait for their tolerations.
func TestMembersFail(t *testing.T) {
	// Clusters on paper have no agent that renews a Lease.
	hub := fleettest.StartHub(t, append([]string{"--cluster-monitor-grace-period=1h"}, shortTimes...)...)
	// Whether objects move depends on how many clusters of the whole fleet are ready.
	t.Run("AsAWholeZone", func(t *testing.T) { zoneFails(t, hub) })
	t.Run("AndTheirWorkloadsMove", func(t *testing.T) { workloadsMove(t, hub) })
	t.Run("AndTheirObjectsMove", func(t *testing.T) { objectsMove(t, hub) })
	for name, test := range map[string]func(*testing.T, *fleettest.Part){
		"AndComeBackFromABackup": comesBackFromABackup, "AndRunOutOfSpace": runsOutOfSpace, "AndRevokeCredentials": revokesCredentials,
		"AndRefuseRequests": refusesRequests, "AndLoseWatches": losesWatches,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, hub) })
	}
	t.Run("AndAreLostForLong", func(t *testing.T) { t.Parallel(); isLostForLong(t, fleettest.StartHub(t, shortTimes...)) })
}

// A member that is killed, and brought back as it was before much of what it had: its versions went back, too. Some of our
// objects are missing, some are older than they were, and some are there again that had been removed. Each is put right
// with one write, and nothing else is written.
func comesBackFromABackup(t *testing.T, hub *fleettest.Part) {
	const older, lacking, removed = 5, 10, 4
	member := fleettest.StartMember(t, "restored", "--bare")
	hub.Join(t, "restored", member.Kubeconfig)
	g := newGround(t, hub.Cluster, member.Cluster, "restored")
	g.put("old", 10, "1")
	g.put("removed", removed, "1")
	smaller := byHand("restored", g.ns, "smaller", 3, map[string]string{"a": "1"})
	fleettest.Create(t, hub.Cluster, smaller)
	g.converges()
	member.Kill()
	restore := member.Backup(t)
	member.Start(t)
	g.put("old", older, "2")
	g.put("new", lacking, "1")
	g.drop("removed", removed)
	fleettest.Update(t, hub.Cluster, smaller, func(w *workv1alpha1.Work) { order(w, g.ns, 1, map[string]string{"a": "1"}) })
	fleettest.Create(t, hub.Cluster, byHand("restored", g.ns, "two", 2, map[string]string{"a": "1"}))
	g.converges()

	member.Kill()
	g.drop("old", 2)
	g.put("late", 2, "1")
	restore(t)
	member.Start(t)
	g.converges()
	expectNoStorm(t, member.Cluster, (older-2)+lacking+2+2+removed+2+2) // two of the older ones were dropped meanwhile

	// It does not come back. What is to be removed there waits, with a condition, until the cluster is removed.
	member.Kill()
	two := byHand("restored", g.ns, "two", 2, nil)
	fleettest.Delete(t, hub.Cluster, two)
	fleettest.ExpectEventually(t, hub.Cluster, two, func(w *workv1alpha1.Work) error {
		return hasMessage(w, workv1alpha1.WorkApplied, metav1.ConditionFalse, "Waiting for the cluster, to remove what was applied there")
	})
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "restored"}}
	fleettest.Delete(t, hub.Cluster, cluster)
	for _, o := range []client.Object{two, g.work("new-0"), cluster} {
		fleettest.ExpectGone(t, hub.Cluster, o)
	}
}

// expectNoStorm compares the requests that a member received since it started with how many objects there were to correct.
func expectNoStorm(t *testing.T, member *fleettest.Cluster, objects int) {
	t.Helper()
	requests := fleettest.CountRequests(t, member).Of("configmaps")
	done, reads := 0, 0
	for kind, n := range requests {
		switch {
		case kind.Code == http.StatusUnauthorized, kind.Code == http.StatusForbidden, kind.Code == http.StatusTooManyRequests, kind.Code >= http.StatusInternalServerError:
			delete(requests, kind) // it has just started, and may answer so for a while: such a request is sent again
		case kind.Verb == "GET" || kind.Verb == "WATCH": // lists are mostly the test's own
			reads += n
		case kind.Verb != "LIST" && kind.Code < http.StatusMultipleChoices:
			done += n
		}
	}
	// Before the list is there, something may be done to an object that turns out to be unnecessary.
	if written := requests.Writes().Total(); done < objects || written > objects+objects/2 || reads > objects {
		t.Errorf("%d objects were put right with %d writes, %d of them refused, and %d reads: %s", objects, written, written-done, reads, requests)
	}
}

// A member that does not answer for longer than every timeout: the last known state is kept and marked as such, on the
// Work, on the binding and on the template, and all is well by itself when the member is back.
func isLostForLong(t *testing.T, hub *fleettest.Part) {
	// Longer than a request, a probe, the ping of a connection and the longest backoff of a watch.
	const long = 35 * time.Second
	member := fleettest.StartMember(t, "lost", "--nodes=1")
	hub.Join(t, "lost", member.Kubeconfig)
	g := newGround(t, hub.Cluster, member.Cluster, "lost")
	web := fleettest.Deployment(g.ns, "web", 2)
	fleettest.Create(t, hub.Cluster, fleettest.Policy(g.ns, "web", fleettest.To("lost"), web), web)
	g.put("kept", 4, "1")
	g.put("dropped", 4, "1")
	g.converges()
	webBinding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: g.ns, Name: workv1alpha2.BindingName("Deployment", "web")}}
	webWork := rendered("lost", "Deployment", g.ns, "web")
	fleettest.ExpectEventually(t, hub.Cluster, web, current(2))
	fleettest.ExpectEventually(t, hub.Cluster, webBinding, healthInBinding(workv1alpha2.ResourceHealthy))

	member.Pause(t)
	over := time.NewTimer(long)
	fleettest.ExpectEventually(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}, func(c *clusterv1alpha1.Cluster) error {
		if meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady) {
			return fmt.Errorf("it is ready")
		}
		return nil
	})
	unseen := func() {
		fleettest.ExpectEventually(t, hub.Cluster, webWork, unreachable)
		fleettest.ExpectEventually(t, hub.Cluster, g.work("kept-0"), unreachable)
		fleettest.ExpectEventually(t, hub.Cluster, webBinding, healthInBinding(workv1alpha2.ResourceUnknown))
		fleettest.ExpectEventually(t, hub.Cluster, web, stale(2))
	}
	unseen()
	g.put("kept", 2, "2")
	g.drop("dropped", 2)
	late := byHand("lost", g.ns, "late", 2, map[string]string{"a": "1"}) // no template is scheduled to a member that is lost
	fleettest.Create(t, hub.Cluster, late)
	for _, w := range []*workv1alpha1.Work{g.work("kept-0"), late} {
		fleettest.ExpectEventually(t, hub.Cluster, w, func(w *workv1alpha1.Work) error {
			return hasMessage(w, workv1alpha1.WorkApplied, metav1.ConditionFalse, "cluster")
		})
	}
	hub.Kill()
	hub.Start(t)
	unseen()
	select {
	case <-over.C:
	case <-t.Context().Done():
	}
	unseen()
	member.Resume(t)
	g.converges()
	fleettest.ExpectEventually(t, hub.Cluster, webBinding, healthInBinding(workv1alpha2.ResourceHealthy))
	fleettest.ExpectEventually(t, hub.Cluster, web, current(2))
}

// unreachable is the condition of a Work whose member is unreachable.
func unreachable(w *workv1alpha1.Work) error {
	if err := hasMessage(w, workv1alpha1.WorkAvailable, metav1.ConditionUnknown, "cannot be reached"); err != nil {
		return err
	}
	for _, s := range w.Status.ManifestStatuses {
		if s.Health != workv1alpha1.ResourceUnknown {
			return fmt.Errorf("the health of %s %s is %s", s.Identifier.Kind, s.Identifier.Name, s.Health)
		}
	}
	return nil
}

func hasMessage(w *workv1alpha1.Work, kind string, status metav1.ConditionStatus, text string) error {
	if err := is(w, kind, status); err != nil {
		return err
	}
	if c := meta.FindStatusCondition(w.Status.Conditions, kind); !strings.Contains(c.Message, text) {
		return fmt.Errorf("the message of %s is %q, want %q in it", kind, c.Message, text)
	}
	return nil
}

func healthInBinding(want workv1alpha2.ResourceHealth) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		if items := b.Status.AggregatedStatus; len(items) != 1 || items[0].Health != want {
			return fmt.Errorf("aggregated: %+v, want health %s", items, want)
		}
		return nil
	}
}

// current is the condition of a template whose status is the present one of n replicas; stale, of one that had n when
// they were last seen.
func current(n int32) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas != n || d.Status.ObservedGeneration != d.Generation {
			return fmt.Errorf("status is %+v", d.Status)
		}
		if available := conditionOf(d, string(appsv1.DeploymentAvailable)); available != "True" {
			return fmt.Errorf("Available is %q", available)
		}
		if c := conditionOf(d, workv1alpha2.StatusCurrent); c != "" {
			return fmt.Errorf("StatusCurrent is %s", c)
		}
		return nil
	}
}

func stale(n int32) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas != n {
			return fmt.Errorf("status is %+v", d.Status)
		}
		if c := conditionOf(d, workv1alpha2.StatusCurrent); c != "False" {
			return fmt.Errorf("StatusCurrent is %q", c)
		}
		return nil
	}
}

func conditionOf(d *appsv1.Deployment, kind string) string {
	for _, c := range d.Status.Conditions {
		if string(c.Type) == kind {
			return string(c.Status)
		}
	}
	return ""
}

// A member whose storage is full accepts deletions and no other writes. Conditions name what it did not accept, other objects
// are not affected, and everything is applied when storage is free again.
func runsOutOfSpace(t *testing.T, hub *fleettest.Part) {
	const quota, large = 16 << 20, 900 << 10
	member := fleettest.StartMember(t, "full", "--bare", fmt.Sprintf("--storage-quota=%d", quota))
	hub.Join(t, "full", member.Kubeconfig)
	g := newGround(t, hub.Cluster, member.Cluster, "full")
	g.put("small", 2, "1")
	g.converges()
	filler := map[string]string{"filler": strings.Repeat("x", large)}
	var refused *workv1alpha1.Work
	for i := 0; refused == nil; i++ {
		if i > 2*quota/large {
			t.Fatal("the quota has no effect")
		}
		w := byHand("full", g.ns, fmt.Sprintf("large-%d", i), 1, filler)
		fleettest.Create(t, hub.Cluster, w)
		fleettest.ExpectEventually(t, hub.Cluster, w, func(w *workv1alpha1.Work) error {
			if hasMessage(w, workv1alpha1.WorkApplied, metav1.ConditionFalse, "database space exceeded") == nil {
				refused = w
				return nil
			}
			return is(w, workv1alpha1.WorkApplied, metav1.ConditionTrue)
		})
	}
	fleettest.ExpectEventually(t, hub.Cluster, refused, func(w *workv1alpha1.Work) error {
		return is(w, workv1alpha1.WorkAvailable, metav1.ConditionFalse)
	})
	gone := byHand("full", g.ns, "large-0", 1, nil)
	fleettest.Delete(t, hub.Cluster, gone)
	fleettest.ExpectGone(t, hub.Cluster, gone)
	g.put("small", 1, "2")
	g.put("late", 2, "1")
	fleettest.ExpectEventually(t, hub.Cluster, g.work("late-0"), func(w *workv1alpha1.Work) error {
		return hasMessage(w, workv1alpha1.WorkApplied, metav1.ConditionFalse, "database space exceeded")
	})
	member.Kill()
	member.Start(t, fmt.Sprintf("--storage-quota=%d", 4*quota))
	g.converges()
}

// fault is something that the API server of a member, or the way to it, should not do.
type fault struct {
	name string
	// hopeless means that no request succeeds, which the condition of a Work reports.
	hopeless bool
	// unseen means that no condition changes: Works that do not change are not written.
	unseen bool
	answer fleettest.Misbehaviour
}

// A member whose API server, or the way to it, refuses requests in every way.
func refusesRequests(t *testing.T, hub *fleettest.Part) {
	var received atomic.Int64
	var requests sync.Map // the number of each, by method and path
	misbehaves(t, hub, "refusing", func(*fleettest.Proxy) []fault {
		return []fault{
			{"TooManyRequests", true, false, func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Retry-After", "1")
				return refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
			}},
			{"InternalError", true, false, func(w http.ResponseWriter, _ *http.Request) bool {
				return refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
			}},
			{"Nonsense", true, false, func(w http.ResponseWriter, r *http.Request) bool { return nonsense(w, r, received.Add(1)) }},
			{"EveryOtherRequestFails", false, false, func(w http.ResponseWriter, r *http.Request) bool {
				// Counted for each path. If all requests are counted together, and others are repeated until they succeed, the next one fails: it can
				// be that of the same object each time, for minutes.
				count, _ := requests.LoadOrStore(r.Method+" "+r.URL.Path, &atomic.Int64{})
				return count.(*atomic.Int64).Add(1)%2 == 1 && refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
			}},
			{"NoAnswer", true, false, func(_ http.ResponseWriter, r *http.Request) bool {
				<-r.Context().Done()
				return true
			}},
		}
	})
}

// A member whose watches end, as do those of a proxy that is restarted, or cannot go on where they were.
func losesWatches(t *testing.T, hub *fleettest.Part) {
	misbehaves(t, hub, "losing", func(proxy *fleettest.Proxy) []fault {
		return []fault{
			{"WatchesEnd", false, true, func(_ http.ResponseWriter, r *http.Request) bool {
				if fleettest.IsWatch(r) {
					time.AfterFunc(300*time.Millisecond, proxy.CloseWatches)
				}
				return false
			}},
			{"WatchesAreTooOld", false, true, func(w http.ResponseWriter, r *http.Request) bool {
				return fleettest.IsWatch(r) && refuse(w, http.StatusGone, metav1.StatusReasonExpired)
			}},
			{"WatchesTurnTooOld", false, true, func(w http.ResponseWriter, r *http.Request) bool {
				if !fleettest.IsWatch(r) {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old resource version"}}`)
				return true
			}},
		}
	}, func(t *testing.T, g *ground, proxy *fleettest.Proxy) {
		t.Run("ItsCertificateIsNotValid", func(t *testing.T) { proxy.ExpectCertificates(t, hub.Cluster, clusterNamed(g.cluster)) })
		t.Run("AnObjectIsIllForLong", func(t *testing.T) { isIllForLong(t, g) })
	})
}

// misbehaves has a member behind a proxy that answers in its place.
func misbehaves(t *testing.T, hub *fleettest.Part, cluster string, faultsOf func(*fleettest.Proxy) []fault, first ...func(*testing.T, *ground, *fleettest.Proxy)) {
	member := fleettest.StartMember(t, cluster, "--bare")
	proxy := fleettest.StartProxy(t, member.Cluster)
	hub.Join(t, cluster, proxy.Kubeconfig)
	g := newGround(t, hub.Cluster, member.Cluster, cluster)
	faults := faultsOf(proxy)
	g.put("kept", 5, "0")
	g.put("dropped", len(faults), "0")
	g.put("taken", len(faults), "0")
	g.converges()
	for _, test := range first {
		test(t, g, proxy)
	}
	for i, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			g.t = t
			g.converges() // also after what was first
			before, calm := proxy.Count(http.MethodGet), g.version("kept-4")
			proxy.Misbehave(fault.answer)
			proxy.CloseWatches()
			value := fmt.Sprint(i + 1)
			g.put("kept", 3, value)
			g.put(strings.ToLower(fault.name), 2, value)
			// A Work by hand, since nothing is scheduled to a member that does not seem well.
			late := byHand(g.cluster, g.ns, "late-"+strings.ToLower(fault.name), 2, map[string]string{"value": value})
			fleettest.Create(t, hub.Cluster, late)
			fleettest.Delete(t, hub.Cluster, fleettest.ConfigMap(g.ns, fmt.Sprintf("dropped-%d", i), nil))
			if fault.hopeless {
				fleettest.ExpectEventually(t, hub.Cluster, late, func(w *workv1alpha1.Work) error {
					return is(w, workv1alpha1.WorkApplied, metav1.ConditionFalse)
				})
			} else {
				g.agrees()
			}
			if fault.unseen && g.version("kept-4") != calm {
				t.Error("a Work was written to which nothing happened")
			}
			proxy.Misbehave(nil)
			// A client deletes one of our objects, which is not observed if a watch was lost for good. It is another one each time: the pause
			// before an object is put back grows while it is deleted again and again.
			fleettest.Delete(t, g.member, fleettest.ConfigMap(g.ns, fmt.Sprintf("taken-%d", i), nil))
			g.converges()
			t.Logf("%d reads through the proxy", proxy.Count(http.MethodGet)-before)
		})
	}
}

// An object that is not healthy is reported once it has been so for long, and a rollout that has ended stays so.
func isIllForLong(t *testing.T, g *ground) {
	hub, member, ns := g.hub, g.member, g.ns
	web := fleettest.Deployment(ns, "ill", 1)
	web.APIVersion, web.Kind = "apps/v1", "Deployment"
	raw, err := json.Marshal(web)
	if err != nil {
		t.Fatal(err)
	}
	w := byHand(g.cluster, ns, "ill", 0, nil)
	w.Spec.Workload.Manifests = make([]workv1alpha1.Manifest, 1)
	w.Spec.Workload.Manifests[0].Raw = raw
	fleettest.Create(t, hub, w)
	// The member has no controllers, so that the Deployment is what this test makes of it.
	becomes := func(available int32) {
		fleettest.UpdateStatus(t, member, fleettest.ExpectEventually(t, member, web, fleettest.Exists), func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: available, AvailableReplicas: available,
			}
		})
	}
	expect := func(what string, progressing, degraded metav1.ConditionStatus) *workv1alpha1.Work {
		t.Helper()
		return fleettest.ExpectEventually(t, hub, w, func(w *workv1alpha1.Work) error {
			if err := errors.Join(is(w, workv1alpha1.WorkProgressing, progressing), is(w, workv1alpha1.WorkDegraded, degraded)); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			for _, c := range w.Status.Conditions {
				if c.ObservedGeneration != w.Generation {
					return fmt.Errorf("%s: %s is about generation %d of %d", what, c.Type, c.ObservedGeneration, w.Generation)
				}
			}
			return nil
		})
	}
	ill := expect("never well", metav1.ConditionTrue, metav1.ConditionTrue)
	if err := hasMessage(ill, workv1alpha1.WorkDegraded, metav1.ConditionTrue, "Deployment "+ns+"/ill"); err != nil {
		t.Error(err)
	}
	// Not from the condition Applied on, which may be written some time after the object.
	created := fleettest.ExpectEventually(t, member, web, fleettest.Exists).CreationTimestamp
	degraded := meta.FindStatusCondition(ill.Status.Conditions, workv1alpha1.WorkDegraded)
	if since := degraded.LastTransitionTime.Sub(created.Time); since < degradedAfter-time.Second { // times are full seconds
		t.Errorf("degraded %s after it was created, long is %s", since, degradedAfter)
	}
	becomes(1)
	expect("well", metav1.ConditionFalse, metav1.ConditionFalse)
	becomes(0)
	expect("ill again", metav1.ConditionFalse, metav1.ConditionTrue)
	fleettest.Delete(t, hub, w)
	fleettest.ExpectGone(t, member, web)
}

// nonsense answers with success, and in turns with a login page, half an object, nothing, and an object of another kind.
func nonsense(w http.ResponseWriter, r *http.Request, turn int64) bool {
	w.Header().Set("Content-Type", "application/json")
	switch turn % 4 {
	case 0:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html><body>Please log in</body></html>")
	case 1:
		fmt.Fprint(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"ke`)
	case 2:
		w.WriteHeader(http.StatusOK)
	case 3:
		fmt.Fprintf(w, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"other","namespace":"other","resourceVersion":"9","uid":%q}}`, r.URL.Path)
	}
	return true
}

// refuse answers as an API server does that refuses a request.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"it will not"}`, reason, code)
	return true
}
