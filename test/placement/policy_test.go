package placement_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flagship-k8s/flagship/api/apps/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func claimedBy(name string) func(*corev1.ConfigMap) error {
	return func(c *corev1.ConfigMap) error {
		if got := c.Annotations[policyv1alpha1.PropagationPolicyNameAnnotation]; got != name {
			return fmt.Errorf("it belongs to %q, want %q", got, name)
		}
		return nil
	}
}

func TestPreemption(t *testing.T) {
	fleet, ns := start(t)
	settings := fleettest.ConfigMap(ns, "settings", nil)
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "first", fleettest.To("east-1"), settings))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("east-1"))

	polite := fleettest.Policy(ns, "polite", fleettest.To("east-2"), settings)
	polite.Spec.Priority = ptr.To(int32(9))
	fleettest.Create(t, fleet.Hub, polite)
	expectEvent(t, fleet, ns, "polite", "ApplyPolicyFailed: 1 of 1 selected objects belong to others, which this policy may not preempt: PropagationPolicy "+ns+"/first (1)")
	fleettest.ExpectEventually(t, fleet.Hub, settings, claimedBy("first"))

	urgent := fleettest.Policy(ns, "urgent", fleettest.To("west-1"), settings)
	urgent.Spec.Priority, urgent.Spec.Preemption = ptr.To(int32(5)), policyv1alpha1.PreemptAlways
	fleettest.Create(t, fleet.Hub, urgent)
	fleettest.ExpectEventually(t, fleet.Hub, settings, claimedBy("urgent"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("west-1"))
	expectEvent(t, fleet, ns, "settings", "PreemptPolicySucceed")
}

// A policy of the object's namespace takes it from any cluster-wide one and is never robbed by one; among cluster-wide
// policies the priority decides, also when that of the holder sinks.
func TestPreemptionBetweenKindsOfPolicies(t *testing.T) {
	fleet, ns := start(t)
	settings := fleettest.ConfigMap(ns, "settings", nil)
	wide := func(name, cluster string, priority int32) *policyv1alpha1.ClusterPropagationPolicy {
		p := fleettest.ClusterPolicy(name+"-"+ns, fleettest.To(cluster), settings)
		p.Spec.Priority = &priority
		return p
	}
	always := func(p *policyv1alpha1.ClusterPropagationPolicy) *policyv1alpha1.ClusterPropagationPolicy {
		p.Spec.Preemption = policyv1alpha1.PreemptAlways
		return p
	}
	holds := func(cluster string) {
		t.Helper()
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed(cluster))
	}
	robbed := func(policy, holder string) {
		t.Helper()
		expectEvent(t, fleet, "", policy, "ApplyPolicyFailed: 1 of 1 selected objects belong to others, which this policy may not preempt: "+holder+" (1)")
	}
	holder := wide("holder", "east-1", 100)
	fleettest.Create(t, fleet.Hub, settings, holder)
	holds("east-1")
	fleettest.Create(t, fleet.Hub, always(wide("lower", "east-2", 50)))
	robbed("lower-"+ns, "ClusterPropagationPolicy holder-"+ns)
	holds("east-1")
	fleettest.Update(t, fleet.Hub, holder, func(p *policyv1alpha1.ClusterPropagationPolicy) { p.Spec.Priority = ptr.To(int32(10)) })
	holds("east-2")

	own := fleettest.Policy(ns, "own", fleettest.To("west-1"), settings)
	own.Spec.Priority, own.Spec.Preemption = ptr.To(int32(-5)), policyv1alpha1.PreemptAlways
	fleettest.Create(t, fleet.Hub, own)
	holds("west-1")
	fleettest.ExpectEventually(t, fleet.Hub, settings, func(c *corev1.ConfigMap) error {
		if c.Labels[policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel] != "" || c.Annotations[policyv1alpha1.ClusterPropagationPolicyNameAnnotation] != "" {
			return fmt.Errorf("it carries two claims: %v, %v", c.Labels, c.Annotations)
		}
		return claimedBy("own")(c)
	})
	fleettest.Create(t, fleet.Hub, always(wide("highest", "west-2", 1000)))
	robbed("highest-"+ns, "PropagationPolicy "+ns+"/own")
	holds("west-1")
	fleettest.Delete(t, fleet.Hub, own)
	holds("west-2")
}

// A lazy policy takes an object over at once, and leaves its copies as they are until the object changes.
func TestALazyPolicyPreempts(t *testing.T) {
	fleet, ns := start(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "first", fleettest.To("east-1"), settings))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("east-1"))
	lazy := fleettest.Policy(ns, "lazy", fleettest.To("west-1"), settings)
	lazy.Spec.Priority, lazy.Spec.Preemption = ptr.To(int32(5)), policyv1alpha1.PreemptAlways
	lazy.Spec.ActivationPreference = policyv1alpha1.LazyActivation
	fleettest.Create(t, fleet.Hub, lazy)
	fleettest.ExpectEventually(t, fleet.Hub, settings, claimedBy("lazy"))
	id := lazy.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel]
	claimed := func(b *workv1alpha2.ResourceBinding) error {
		if got := b.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel]; got != id {
			return fmt.Errorf("it belongs to policy %q, want %q", got, id)
		}
		return nil
	}
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), claimed)
	// What speaks to the control plane alone is no change of the object.
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) {
		c.Annotations[workv1alpha1.ConflictResolutionAnnotation] = "overwrite"
	})
	fleettest.Update(t, fleet.Hub, lazy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("west-2") })
	probe := fleettest.ConfigMap(ns, "probe", nil)
	fleettest.Create(t, fleet.Hub, probe, fleettest.Policy(ns, "probe", fleettest.To("west-1"), probe))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "probe"), placed("west-1"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("east-1"))
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data["a"] = "2" })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("west-2"))
}

func TestLazyPoliciesWaitForTheTemplate(t *testing.T) {
	fleet, ns := start(t)
	settings, probe := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "1"}), fleettest.ConfigMap(ns, "probe", nil)
	lazy := fleettest.Policy(ns, "lazy", fleettest.To("east-1"), settings)
	lazy.Spec.ActivationPreference = policyv1alpha1.LazyActivation
	fleettest.Create(t, fleet.Hub, lazy, settings)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("east-1"))
	fleettest.Update(t, fleet.Hub, lazy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("west-1") })
	// A policy that acts at once shows that the change has been seen.
	fleettest.Create(t, fleet.Hub, probe, fleettest.Policy(ns, "probe", fleettest.To("west-1"), probe))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "probe"), placed("west-1"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("east-1"))
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data["a"] = "2" })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("west-1"))
}

func TestAPolicyReleasesWhatItClaimedBeforeItGoes(t *testing.T) {
	fleet, ns := start(t)
	settings := fleettest.ConfigMap(ns, "settings", nil)
	policy := fleettest.Policy(ns, "settings", fleettest.To("east-1"), settings)
	fleettest.Create(t, fleet.Hub, settings, policy)
	if !slices.Contains(policy.Finalizers, policyv1alpha1.PropagationPolicyFinalizer) {
		t.Errorf("a new policy has the finalizers %v", policy.Finalizers)
	}
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("east-1"))
	fleettest.Delete(t, fleet.Hub, policy)
	fleettest.ExpectGone(t, fleet.Hub, policy)
	if err := fleet.Hub.Get(t.Context(), client.ObjectKeyFromObject(settings), settings); err != nil || claimedBy("")(settings) != nil {
		t.Errorf("the policy is gone (%v) and %v", err, claimedBy("")(settings))
	}
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), fleettest.Exists)
	if len(b.Spec.Clusters) != 1 || b.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel] != "" {
		t.Errorf("the binding has %v and labels %v, want its cluster and no claim", b.Spec.Clusters, b.Labels)
	}
}

// Policies go while the control plane is about to end, one of them without its finalizer. What they claimed is
// released after the start.
func TestPoliciesThatGoUnseenAreReleased(t *testing.T) {
	fleet, ns := start(t)
	for _, name := range []string{"orderly", "torn"} {
		settings := fleettest.ConfigMap(ns, name, nil)
		fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, name, fleettest.To("east-1"), settings))
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", name), placed("east-1"))
	}
	torn := fleettest.Policy(ns, "torn", fleettest.To("east-1"))
	if err := fleet.Hub.Delete(t.Context(), fleettest.Policy(ns, "orderly", fleettest.To("east-1"))); err != nil {
		t.Fatal(err)
	}
	if err := fleet.Hub.Delete(t.Context(), torn); err != nil {
		t.Fatal(err)
	}
	err := fleet.Hub.Patch(t.Context(), torn, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	fleet.Kill(t)
	fleet.Restart(t)
	for _, name := range []string{"orderly", "torn"} {
		fleettest.ExpectGone(t, fleet.Hub, fleettest.Policy(ns, name, fleettest.To("east-1")))
		fleettest.ExpectEventually(t, fleet.Hub, fleettest.ConfigMap(ns, name, nil), claimedBy(""))
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", name), func(b *workv1alpha2.ResourceBinding) error {
			if b.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel] != "" {
				return fmt.Errorf("it is claimed by %v", b.Annotations)
			}
			return placed("east-1")(b)
		})
	}
	// Another policy may have one of them.
	settings := fleettest.ConfigMap(ns, "torn", nil)
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "next", fleettest.To("east-2"), settings))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "torn"), placed("east-2"))
}

func TestAPolicyMayNameAnOlderVersion(t *testing.T) {
	fleet, ns := start(t)
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}}
	policy := fleettest.Policy(ns, "scalers", fleettest.To("east-1"))
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"}}
	fleettest.Create(t, fleet.Hub, policy, scaler)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "HorizontalPodAutoscaler", "web"), placed("east-1"))
}

func TestAnEventReportsWhyNoPolicyApplies(t *testing.T) {
	fleet, ns := start(t)
	policy := fleettest.Policy(ns, "front", fleettest.To("east-1"))
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{
		{APIVersion: "v1", Kind: "ConfigMap", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}}
	settings := fleettest.ConfigMap(ns, "settings", nil)
	fleettest.Create(t, fleet.Hub, policy, settings)
	expectEvent(t, fleet, ns, "settings", "ApplyPolicyFailed: No policy match for resource; PropagationPolicy "+ns+"/front selects ConfigMap with labels tier=front")
}

// awaitCapacity returns once the scheduler has seen that replicas of a Deployment fit in a cluster.
func awaitCapacity(t *testing.T, fleet *fleettest.Fleet, ns, name, cluster string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		q := &fleetv1alpha1.Explanation{Spec: fleetv1alpha1.ExplanationSpec{Kind: "Deployment", Namespace: ns, Name: name, Cluster: cluster}}
		err := fleet.Hub.Create(ctx, q)
		return slices.ContainsFunc(q.Status.Steps, func(s fleetv1alpha1.ExplanationStep) bool { return ptr.Deref(s.Available, 0) > 0 }), err
	})
	if err != nil {
		t.Fatalf("the scheduler finds no capacity for %s in %s: %v", name, cluster, err)
	}
}

func TestWorkloadRebalancer(t *testing.T) {
	fleet, ns := start(t)
	join(t, fleet, "first", "north", "y")
	joinWith(t, fleet, "second", "north", "y", 0)
	settled(t, fleet)
	t.Cleanup(func() { // the next test counts what is written
		for _, name := range []string{"first", "second"} {
			leave(lasting{t}, fleet, name)
		}
	})
	north := inRegion("north")
	web := fleettest.Deployment(ns, "web", 6)
	fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, "web", byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, &north), web))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), placed("first"))
	hold(t, fleet, "second", 1000)
	awaitCapacity(t, fleet, ns, "web", "second")

	workload := func(name string) appsv1alpha1.ObjectReference {
		return appsv1alpha1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: ns, Name: name}
	}
	request := &appsv1alpha1.WorkloadRebalancer{ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: appsv1alpha1.WorkloadRebalancerSpec{Workloads: []appsv1alpha1.ObjectReference{workload("web"), workload("absent")}}}
	fleettest.Create(t, fleet.Hub, request)
	fleettest.ExpectEventually(t, fleet.Hub, request, func(r *appsv1alpha1.WorkloadRebalancer) error {
		if len(r.Status.ObservedWorkloads) != 2 || r.Status.FinishTime == nil || r.Status.ObservedWorkloads[1].Result != appsv1alpha1.RebalanceSuccessful ||
			r.Status.ObservedWorkloads[0].Reason != appsv1alpha1.RebalanceObjectNotFound {
			return fmt.Errorf("status is %+v", r.Status)
		}
		return nil
	})
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), placed("first", "second"))

	// What was absent has come, and something is added: both are asked for with the next generation, what was done is not.
	absent, added := fleettest.Deployment(ns, "absent", 1), fleettest.Deployment(ns, "added", 1)
	fleettest.Create(t, fleet.Hub, absent, added, fleettest.Policy(ns, "late", byAvailable(policyv1alpha1.ReplicaDivisionPreferenceWeighted, &north), absent, added))
	for _, name := range []string{"absent", "added"} {
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", name), scheduled)
	}
	done := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), scheduled)
	fleettest.Update(t, fleet.Hub, request, func(r *appsv1alpha1.WorkloadRebalancer) {
		r.Spec.Workloads = append(r.Spec.Workloads, workload("added"))
	})
	fleettest.ExpectEventually(t, fleet.Hub, request, func(r *appsv1alpha1.WorkloadRebalancer) error {
		for _, w := range r.Status.ObservedWorkloads {
			if w.Result != appsv1alpha1.RebalanceSuccessful {
				return fmt.Errorf("%s is %s: %s", w.Workload.Name, w.Result, w.Reason)
			}
		}
		if len(r.Status.ObservedWorkloads) != 3 || r.Status.ObservedGeneration != r.Generation || r.Status.FinishTime == nil {
			return fmt.Errorf("status is %+v", r.Status)
		}
		return nil
	})
	for _, name := range []string{"absent", "added"} {
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", name), func(b *workv1alpha2.ResourceBinding) error {
			if b.Spec.RescheduleTriggeredAt == nil || b.Status.LastScheduledTime.Before(b.Spec.RescheduleTriggeredAt) {
				return fmt.Errorf("asked at %v, scheduled at %v", b.Spec.RescheduleTriggeredAt, b.Status.LastScheduledTime)
			}
			return nil
		})
	}
	again := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), scheduled)
	if !again.Spec.RescheduleTriggeredAt.Equal(done.Spec.RescheduleTriggeredAt) {
		t.Errorf("what was done is asked for again, at %v", again.Spec.RescheduleTriggeredAt)
	}
	fleettest.Update(t, fleet.Hub, request, func(r *appsv1alpha1.WorkloadRebalancer) { r.Spec.TTLSecondsAfterFinished = ptr.To(int32(0)) })
	fleettest.ExpectGone(t, fleet.Hub, request)
}

// One policy among a thousand is changed: what is written is about its one object. It takes 45 s beside other tests, most of it for the thousand
// policies.
func TestAChangeOfOnePolicyAmongAThousand(t *testing.T) {
	fleet, ns := start(t)
	const many, templates = 1000, 20
	versions := map[string]string{}
	var changed *policyv1alpha1.PropagationPolicy
	for i := range many {
		settings := fleettest.ConfigMap(ns, fmt.Sprintf("settings-%04d", i), nil)
		policy := fleettest.Policy(ns, settings.Name, fleettest.To("east-1"), settings)
		fleettest.Create(t, fleet.Hub, policy)
		if i < templates {
			fleettest.Create(t, fleet.Hub, settings)
			changed = policy
		}
	}
	for i := range templates {
		b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", fmt.Sprintf("settings-%04d", i)), func(b *workv1alpha2.ResourceBinding) error {
			if len(b.Status.Conditions) < 2 { // Scheduled and FullyApplied: nothing more will come
				return fmt.Errorf("conditions are %v", b.Status.Conditions)
			}
			return placed("east-1")(b)
		})
		versions[b.Name] = b.ResourceVersion
	}
	onlyPaper(t, fleet)
	// Policies of other tests go with their namespaces, and what they claimed is released before.
	fleettest.ExpectListed(t, fleet.Hub, &policyv1alpha1.PropagationPolicyList{}, "", func(list *policyv1alpha1.PropagationPolicyList) error {
		for i := range list.Items {
			if list.Items[i].Namespace != ns {
				return fmt.Errorf("policy %s/%s is there", list.Items[i].Namespace, list.Items[i].Name)
			}
		}
		return nil
	})
	before := fleettest.CountRequests(t, fleet.Hub)
	fleettest.Update(t, fleet.Hub, changed, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("east-2") })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", changed.Name), placed("east-2"))
	written := kept(fleettest.CountRequests(t, fleet.Hub).Since(before).Writes())
	t.Logf("one policy of %d changed:\n%s", many, written)
	// Bindings of other tests may still be going, in namespaces that are emptied.
	if n := written.Accepted().Of("propagationpolicies", "configmaps", "resourcebindings").Total(); n >= templates {
		t.Errorf("%d writes to policies, templates and bindings, want the policy's own, two patches of spec and a few of status:\n%s", n, written)
	}
	var all workv1alpha2.ResourceBindingList
	if err := fleet.Hub.List(t.Context(), &all, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		b := &all.Items[i]
		if b.Spec.Resource.Name != changed.Name && versions[b.Name] != b.ResourceVersion {
			t.Errorf("binding %s was written", b.Name)
		}
	}
	if len(all.Items) != len(slices.Collect(maps.Keys(versions))) {
		t.Errorf("there are %d bindings, want %d", len(all.Items), len(versions))
	}
}

func TestSchedulingFollowsPriorityClasses(t *testing.T) {
	fleet, ns := start(t)
	settings := fleettest.ConfigMap(ns, "settings", nil)
	policy := fleettest.Policy(ns, "settings", fleettest.To("east-1"), settings)
	policy.Spec.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassSource: policyv1alpha1.KubePriorityClass, PriorityClassName: "system-cluster-critical"}
	fleettest.Create(t, fleet.Hub, settings, policy)
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("east-1"))
	if b.Spec.SchedulePriority == nil || b.Spec.SchedulePriority.Priority != 2_000_000_000 {
		t.Errorf("priority is %v, want that of the class", b.Spec.SchedulePriority)
	}
}
