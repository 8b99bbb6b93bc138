// Package placement_test checks where a whole control plane on a real API server places objects, and why. Its clusters exist
// on paper only: two regions, three zones, with labels, and taints where a test needs them. So nothing runs anywhere, and
// what is decided is all there is to see.
package placement_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// The clusters have no agents whose Leases would be renewed in time on a busy machine.
var shared = fleettest.Shared{Options: fleettest.Options{Args: []string{"--set=cluster-monitor-grace-period=10m"}}}

func TestMain(m *testing.M) { shared.Main(m) }

// paper are the clusters that every test may use and none may leave changed:
//
//	east-1  zone a  acme    rack 1    west-1  zone b  globex  rack 1
//	east-2  zone a  acme    rack 2    west-2  zone c  acme    rack 2
//	east-3  zone b  globex  rack 3    west-3  zone c  acme    rack 3
var paper = map[string][]string{"east": {"a", "a", "b"}, "west": {"b", "c", "c"}}

var papers sync.Once

func start(t *testing.T) (*fleettest.Fleet, string) {
	t.Helper()
	fleet := shared.Start(t)
	papers.Do(func() {
		for region, zones := range paper {
			for i, zone := range zones {
				join(t, fleet, fmt.Sprintf("%s-%d", region, i+1), region, zone)
			}
		}
		go breathe(fleet)
		settled(t, fleet)
	})
	return fleet, fleet.Namespace(t)
}

// breathe renews the leases of the clusters until the tests end, as their agents would: those that are silent for too long
// are tainted. While the hub is down, no lease is renewed.
func breathe(fleet *fleettest.Fleet) {
	ctx, pause := context.Background(), time.NewTicker(5*time.Second)
	for range pause.C {
		var clusters clusterv1alpha1.ClusterList
		if fleet.Hub.List(ctx, &clusters) != nil {
			continue
		}
		for i := range clusters.Items {
			if clusters.Items[i].Spec.SyncMode != clusterv1alpha1.Pull {
				continue
			}
			now := metav1.NewMicroTime(time.Now())
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: clusters.Items[i].Name}}
			lease.Spec.RenewTime = &now
			before := lease.DeepCopy()
			before.Spec.RenewTime = nil
			if apierrors.IsNotFound(fleet.Hub.Patch(ctx, lease.DeepCopy(), client.MergeFrom(before))) {
				_ = fleet.Hub.Create(ctx, lease)
			}
		}
	}
}

// provider is whose clusters are in a zone.
func provider(zone string) string {
	if zone == "b" {
		return "globex"
	}
	return "acme"
}

// join makes a cluster in pull mode that has no agent, and more capacity than any test needs.
func join(t testing.TB, fleet *fleettest.Fleet, name, region, zone string) {
	t.Helper()
	joinWith(t, fleet, name, region, zone, 1000)
}

// joinWith is join with the capacity, which the cluster has from the moment at which it is ready.
func joinWith(t testing.TB, fleet *fleettest.Fleet, name, region, zone string, capacity int64) {
	t.Helper()
	rack := name[strings.LastIndex(name, "-")+1:]
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": region, "name": name, "rack": rack}}}
	c.Spec.SyncMode, c.Spec.Region, c.Spec.Zones, c.Spec.Provider = clusterv1alpha1.Pull, region, []string{zone}, provider(zone)
	if err := fleet.Hub.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	report(t, fleet, name, func(c *clusterv1alpha1.Cluster) {
		holds(c, capacity)
		meta.SetStatusCondition(&c.Status.Conditions, clusterv1alpha1.Ready())
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: clusterv1alpha1.ClusterConditionCompleteAPIEnablements, Status: metav1.ConditionTrue, Reason: "Complete"})
		c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{
			{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}, {Name: "secrets", Kind: "Secret"}}},
			{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}},
			{GroupVersion: "rbac.authorization.k8s.io/v1", Resources: []clusterv1alpha1.APIResource{{Name: "clusterroles", Kind: "ClusterRole"}}},
			{GroupVersion: "networking.k8s.io/v1", Resources: []clusterv1alpha1.APIResource{{Name: "ingresses", Kind: "Ingress"}}},
			{GroupVersion: "autoscaling/v2", Resources: []clusterv1alpha1.APIResource{{Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler"}}},
		}
	})
}

var fences atomic.Int32

// settled returns once the scheduler has seen all that was written to Clusters before: it receives the changes of Clusters in their order,
// and those of templates and policies in another one. What is scheduled before all of that is in the caches stays where it is.
func settled(t *testing.T, fleet *fleettest.Fleet) {
	t.Helper()
	value := fmt.Sprint(fences.Add(1))
	fleettest.Update(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east-1"}}, func(c *clusterv1alpha1.Cluster) {
		c.Labels["fence"] = value
	})
	probe := fleettest.ConfigMap(metav1.NamespaceDefault, "fence-"+value, nil)
	policy := fleettest.Policy(probe.Namespace, probe.Name, policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"fence": value}}},
		ClusterTolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}, probe)
	fleettest.Create(t, fleet.Hub, probe, policy)
	fleettest.ExpectEventually(t, fleet.Hub, binding(probe.Namespace, "ConfigMap", probe.Name), placed("east-1"))
	fleettest.Delete(t, fleet.Hub, probe, policy)
}

// leave takes a cluster out again, and waits until it is gone.
func leave(t testing.TB, fleet *fleettest.Fleet, name string) {
	t.Helper()
	dismiss(t, fleet, name)
	fleettest.ExpectGone(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// dismiss deletes a cluster. It is not ready then, so that its deletion does not wait for an agent.
func dismiss(t testing.TB, fleet *fleettest.Fleet, name string) {
	t.Helper()
	report(t, fleet, name, func(c *clusterv1alpha1.Cluster) {
		meta.SetStatusCondition(&c.Status.Conditions, clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "it leaves"))
	})
	fleettest.Delete(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// leaveAfter takes clusters out when the test ends, and does not wait until they are gone: what is being deleted receives
// nothing any more.
func leaveAfter(t *testing.T, fleet *fleettest.Fleet, clusters ...string) {
	t.Cleanup(func() {
		for _, name := range clusters {
			dismiss(lasting{t}, fleet, name)
		}
	})
}

// onlyPaper waits until the clusters that other tests took out are gone.
func onlyPaper(t *testing.T, fleet *fleettest.Fleet) {
	t.Helper()
	fleettest.ExpectListed(t, fleet.Hub, &clusterv1alpha1.ClusterList{}, "", func(list *clusterv1alpha1.ClusterList) error {
		for i := range list.Items {
			if paper[list.Items[i].Spec.Region] == nil {
				return fmt.Errorf("cluster %s is there", list.Items[i].Name)
			}
		}
		return nil
	})
}

// island joins clusters that no other test uses, the first with capacity for so many replicas of fleettest.Deployment, the
// second for so many, and so on. It returns their names and what selects them.
func island(t *testing.T, fleet *fleettest.Fleet, capacities ...int64) ([]string, *policyv1alpha1.ClusterAffinity) {
	t.Helper()
	region := fmt.Sprintf("island-%d", islands.Add(1))
	var clusters []string
	for i, capacity := range capacities {
		name := fmt.Sprintf("%s-%d", region, i+1)
		joinWith(t, fleet, name, region, "coast", capacity)
		clusters = append(clusters, name)
	}
	leaveAfter(t, fleet, clusters...)
	settled(t, fleet)
	all := inRegion(region)
	return clusters, &all
}

var islands atomic.Int32

// going is the condition of an object that is being deleted: what it waits for is the agents of clusters on paper.
func going[T client.Object](o T) error {
	if o.GetDeletionTimestamp() == nil {
		return errors.New("it is not being deleted")
	}
	return nil
}

// withdraw deletes a Deployment, does what the agents of its clusters do with its Works, and waits until its binding is gone.
func withdraw(t *testing.T, fleet *fleettest.Fleet, web *appsv1.Deployment, clusters ...string) {
	t.Helper()
	fleettest.Delete(t, fleet.Hub, web)
	for _, cluster := range clusters {
		expectRemoved(t, fleet, cluster, "Deployment", web.Namespace, web.Name)
	}
	fleettest.ExpectGone(t, fleet.Hub, binding(web.Namespace, "Deployment", web.Name))
}

// expectRemoved waits until the Work of a template is deleted, and then does what apply cannot do, since there is no member.
func expectRemoved(t *testing.T, fleet *fleettest.Fleet, cluster, kind, namespace, name string) {
	t.Helper()
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName(kind, namespace, name)}}
	work = fleettest.ExpectEventually(t, fleet.Hub, work, going)
	err := fleet.Hub.Patch(t.Context(), work, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// hold gives a cluster capacity for n of the replicas that fleettest.Deployment makes.
func hold(t *testing.T, fleet *fleettest.Fleet, name string, n int64) {
	t.Helper()
	report(t, fleet, name, func(c *clusterv1alpha1.Cluster) { holds(c, n) })
}

func holds(c *clusterv1alpha1.Cluster, n int64) {
	c.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(10*n, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("10k"),
	}}
}

// report writes a cluster's status as its agent would.
func report(t testing.TB, fleet *fleettest.Fleet, name string, edit func(*clusterv1alpha1.Cluster)) {
	t.Helper()
	for {
		c := &clusterv1alpha1.Cluster{}
		if err := fleet.Hub.Get(t.Context(), client.ObjectKey{Name: name}, c); err != nil {
			t.Fatal(err)
		}
		edit(c)
		err := fleet.Hub.Status().Update(t.Context(), c)
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "modified") {
			t.Fatal(err)
		}
	}
}

// change edits a cluster and undoes that when the test ends.
func change(t *testing.T, fleet *fleettest.Fleet, name string, edit func(*clusterv1alpha1.Cluster)) {
	t.Helper()
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	var before *clusterv1alpha1.Cluster
	fleettest.Update(t, fleet.Hub, c, func(c *clusterv1alpha1.Cluster) {
		before = c.DeepCopy()
		edit(c)
	})
	t.Cleanup(func() {
		fleettest.Update(lasting{t}, fleet.Hub, c, func(c *clusterv1alpha1.Cluster) {
			c.Labels, c.Spec.Taints = before.Labels, before.Spec.Taints
		})
	})
}

// lasting is a test whose context outlives it, for what it puts back.
type lasting struct{ *testing.T }

// Context implements testing.TB.
func (l lasting) Context() context.Context { return context.WithoutCancel(l.T.Context()) }

func taint(key string) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		c.Spec.Taints = append(c.Spec.Taints, corev1.Taint{Key: key, Value: "yes", Effect: corev1.TaintEffectNoSchedule})
	}
}

func binding(namespace, kind, name string) *workv1alpha2.ResourceBinding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: workv1alpha2.BindingName(kind, name)}}
}

func names(targets []workv1alpha2.TargetCluster) []string {
	var out []string
	for _, c := range targets {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return out
}

// placed is the condition of a binding that is scheduled to exactly these clusters.
func placed(clusters ...string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		if got := names(b.Spec.Clusters); !slices.Equal(got, clusters) {
			return fmt.Errorf("it is in %v, want %v", got, clusters)
		}
		return scheduled(b)
	}
}

// divided is the condition of a binding whose clusters have received exactly these replicas.
func divided(want map[string]int32) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		if err := received(want)(b); err != nil {
			return err
		}
		return scheduled(b)
	}
}

// received is the same of a binding that may lack a place for the rest.
func received(want map[string]int32) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		got := map[string]int32{}
		for _, c := range b.Spec.Clusters {
			got[c.Name] = c.Replicas
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("its clusters have received %v, want %v", got, want)
		}
		return nil
	}
}

func scheduled(b *workv1alpha2.ResourceBinding) error {
	if b.Status.SchedulerObservedGeneration != b.Generation {
		return fmt.Errorf("generation %d is not observed", b.Generation)
	}
	if c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Scheduled); c != nil && c.ObservedGeneration != b.Generation {
		return fmt.Errorf("Scheduled is of generation %d, this is %d", c.ObservedGeneration, b.Generation)
	}
	return fleettest.ConditionTrue(b.Status.Conditions, workv1alpha2.Scheduled)
}

// refused is the condition of a binding that is not scheduled for this reason.
func refused(reason, message string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Scheduled)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason || c.Message != message {
			return fmt.Errorf("Scheduled is %+v", c)
		}
		return nil
	}
}

// contradicted is refused for a message that may say more.
func contradicted(b *workv1alpha2.ResourceBinding, reason, part string) error {
	c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Scheduled)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason || !strings.Contains(c.Message, part) {
		return fmt.Errorf("Scheduled is %+v, want reason %s and %q", c, reason, part)
	}
	return nil
}

func spread(by policyv1alpha1.SpreadFieldValue, least, most int) policyv1alpha1.SpreadConstraint {
	return policyv1alpha1.SpreadConstraint{SpreadByField: by, MinGroups: least, MaxGroups: most}
}

func inRegion(region string) policyv1alpha1.ClusterAffinity {
	return policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": region}}}
}

// onPaper selects the clusters of this file, and not those that single tests add.
func onPaper() *policyv1alpha1.ClusterAffinity {
	return &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: metav1.LabelSelectorOpIn, Values: []string{"east", "west"}}}}}
}

// byAvailable divides replicas by available capacity.
func byAvailable(preference policyv1alpha1.ReplicaDivisionPreference, affinity *policyv1alpha1.ClusterAffinity) policyv1alpha1.Placement {
	p := policyv1alpha1.Placement{ClusterAffinity: affinity, ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: preference,
	}}
	if preference == policyv1alpha1.ReplicaDivisionPreferenceWeighted {
		p.ReplicaScheduling.WeightPreference = &policyv1alpha1.ClusterPreferences{DynamicWeight: policyv1alpha1.DynamicWeightByAvailableReplicas}
	}
	return p
}

// kept are the requests that take nothing away: the namespaces of other tests may still be emptied.
func kept(all fleettest.Requests) fleettest.Requests {
	maps.DeleteFunc(all, func(r fleettest.Request, _ int) bool { return strings.HasPrefix(r.Verb, "DELETE") })
	return all
}

// expectEvent waits until an event about the object contains the text.
func expectEvent(t *testing.T, fleet *fleettest.Fleet, namespace, object, text string) {
	t.Helper()
	fleettest.ExpectListed(t, fleet.Hub, &corev1.EventList{}, namespace, func(list *corev1.EventList) error {
		var found []string
		for i := range list.Items {
			news := list.Items[i].Reason + ": " + list.Items[i].Message
			if list.Items[i].InvolvedObject.Name != object {
				continue
			}
			if strings.Contains(news, text) {
				return nil
			}
			found = append(found, news)
		}
		return fmt.Errorf("no event of %[2]s contains %[1]q: %[3]q", text, object, found)
	})
}
