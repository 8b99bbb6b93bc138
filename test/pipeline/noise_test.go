package pipeline_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// noise makes Events in a member, about pods that no control plane manages.
type noise struct {
	t      *testing.T
	fleet  *fleettest.Fleet
	member *fleettest.Cluster
	pods   []*corev1.Pod
}

// each calls do for every pod, several at a time.
func (n *noise) each(do func(ctx context.Context, p *corev1.Pod) error) {
	n.t.Helper()
	group, ctx := errgroup.WithContext(n.t.Context())
	group.SetLimit(8)
	for _, p := range n.pods {
		group.Go(func() error { return do(ctx, p) })
	}
	if err := group.Wait(); err != nil {
		n.t.Fatal(err)
	}
}

// start makes so many pods, and one Event of a type about each.
func (n *noise) start(namespace, kind string, count int) {
	n.t.Helper()
	n.pods = nil
	for i := range count {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", namespace, i)}}
		pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "noisy:1"}}
		n.pods = append(n.pods, pod)
	}
	n.each(func(ctx context.Context, p *corev1.Pod) error { return n.member.Create(ctx, p) })
	n.again(kind)
}

// again makes one more Event about each pod.
func (n *noise) again(kind string) {
	n.t.Helper()
	n.each(func(ctx context.Context, p *corev1.Pod) error {
		now := metav1.Now()
		return n.member.Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: p.Name + "."},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
			Type:           kind, Reason: "Noise", Message: "about a pod that is not managed", FirstTimestamp: now, LastTimestamp: now, Count: 1,
		})
	})
}

var notShown = regexp.MustCompile(`(?m)^flagship_member_events_total\{result="other"\} (\S+)$`)

// received is how many Events of the member the control plane has received and found to be about nothing that it manages.
func (n *noise) received(ctx context.Context) int {
	n.t.Helper()
	_, text, err := page(ctx, n.fleet.Hub.Config, "/metrics/flagship")
	if err != nil {
		n.t.Fatal(err)
	}
	found := notShown.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	count, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		n.t.Fatal(err)
	}
	return int(count)
}

// awaits waits until the control plane has received so many.
func (n *noise) awaits(count int) {
	n.t.Helper()
	err := wait.PollUntilContextTimeout(n.t.Context(), 50*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		return n.received(ctx) >= count, nil
	})
	if err != nil {
		n.t.Fatalf("%d Events were received, want %d: %v", n.received(n.t.Context()), count, err)
	}
}

// few is less than there is of anything that a test of noise makes.
const few = 10

// costs are the writes to the control plane and the reads of objects in the member while do runs. A read of an object by name is what
// the control plane needs to find out to whom it belongs.
func (n *noise) costs(do func()) (writes, reads fleettest.Requests) {
	n.t.Helper()
	hub, member := fleettest.CountRequests(n.t, n.fleet.Hub), fleettest.CountRequests(n.t, n.member)
	do()
	writes = fleettest.CountRequests(n.t, n.fleet.Hub).Since(hub).Writes()
	for kind, count := range writes {
		if strings.HasPrefix(kind.Resource, "clusters") && count <= few { // a busy member may seem to be away for a moment
			delete(writes, kind)
		}
	}
	reads = fleettest.Requests{}
	for kind, count := range fleettest.CountRequests(n.t, n.member).Since(member) {
		discovery := kind.Resource == "" || strings.HasPrefix(kind.Resource, "/")
		if kind.Verb == "GET" && !discovery && kind.Resource != "leases" {
			reads[kind] = count
		}
	}
	return writes, reads
}

// TestEventsOfPodsThatAreNotManagedCostNothing: in a namespace without propagated objects, two hundred noisy pods of a member cause no write
// to the control plane and no request to the member. Where there are propagated objects, each such pod is read once. It takes 40 s beside other
// tests, for two hundred pods.
func TestEventsOfPodsThatAreNotManagedCostNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a fleet of its own")
	}
	fleettest.NeedsPushMode(t, "an agent counts the Events of its member")
	fleet := fleettest.Start(t, fleettest.Options{Members: 1, Bare: true})
	ns := fleet.Namespace(t)
	n := &noise{t: t, fleet: fleet, member: fleet.Member("member1")}
	settings := fleettest.ConfigMap(ns, "settings", nil)
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "settings"), done)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), bindingIs("FullyApplied", "True", ""))
	theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs-" + ns}}
	fleettest.Create(t, n.member, theirs)

	// The last writes of a member that joins.
	fleettest.ExpectEventually(t, fleet.Hub, fleettest.Secret(clusterv1alpha1.ClusterNamespace, "member1", nil), fleettest.HasRenewalToken)
	fleettest.ExpectEventually(t, fleet.Hub, &fleetv1alpha1.ClusterCapacity{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}, fleettest.Exists)
	const pods, rounds = 200, 3
	n.start(theirs.Name, corev1.EventTypeNormal, pods)
	n.again(corev1.EventTypeWarning)
	n.awaits(pods)
	// The pods themselves are part of the state of the cluster.
	fleettest.ExpectEventually(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}, func(c *clusterv1alpha1.Cluster) error {
		if s := c.Status.ResourceSummary; s == nil || s.Allocating.Pods().Value() < pods {
			return fmt.Errorf("the state is %+v, want %d pods", c.Status.ResourceSummary, pods)
		}
		return nil
	})
	before := n.received(n.t.Context())
	writes, reads := n.costs(func() {
		for range rounds {
			n.again(corev1.EventTypeNormal)
			n.again(corev1.EventTypeWarning)
		}
		n.awaits(before + rounds*pods)
	})
	if writes.Total() > 0 || reads.Total() > 0 {
		t.Errorf("%d Events of others cost the control plane the writes\n%sand these reads in the member:\n%s", 2*rounds*pods, writes, reads)
	}
	if received := n.received(n.t.Context()) - before; received != rounds*pods {
		t.Errorf("%d Events were received, want %d: those of the type Normal stay in the member", received, rounds*pods)
	}

	const neighbours = 100
	before = n.received(n.t.Context())
	_, reads = n.costs(func() {
		n.start(ns, corev1.EventTypeWarning, neighbours)
		n.awaits(before + neighbours)
	})
	if reads.Total() != neighbours || reads.Of("pods").Total() != neighbours {
		t.Errorf("%d pods in a namespace with propagated objects cost these reads in the member, want one each:\n%s", neighbours, reads)
	}
	fleettest.ExpectEventually(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}, func(c *clusterv1alpha1.Cluster) error {
		if c.Status.ResourceSummary.Allocating.Pods().Value() < pods+neighbours {
			return fmt.Errorf("the state is %+v", c.Status.ResourceSummary)
		}
		return nil
	})
	before = n.received(n.t.Context())
	writes, reads = n.costs(func() {
		for range rounds {
			n.again(corev1.EventTypeWarning)
		}
		n.awaits(before + rounds*neighbours)
	})
	if writes.Total() > 0 || reads.Total() > 0 {
		t.Errorf("further Events of pods that were read before cost the control plane the writes\n%sand these reads in the member:\n%s", writes, reads)
	}
	// What is managed is still shown.
	copied := fleettest.ConfigMap(ns, "settings", nil)
	if err := n.member.Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil {
		t.Fatal(err)
	}
	n.pods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "of-settings", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: copied.Name, UID: copied.UID, Controller: new(true),
	}}}}}
	n.pods[0].Spec.Containers = []corev1.Container{{Name: "main", Image: "ours:1"}}
	fleettest.Create(t, n.member, n.pods[0])
	n.again(corev1.EventTypeWarning)
	expectWarning(t, fleet.Hub, settings, "Noise", "member1: Pod of-settings: about a pod that is not managed")
}
