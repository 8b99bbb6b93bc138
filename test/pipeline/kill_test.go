package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// crew is a number of ConfigMaps with a label of its name, by which a policy of that name selects them.
func crew(namespace, name string) []*corev1.ConfigMap {
	list := make([]*corev1.ConfigMap, 30)
	for i := range list {
		list[i] = fleettest.ConfigMap(namespace, fmt.Sprintf("%s-%02d", name, i), map[string]string{"round": "first"})
		list[i].Labels = map[string]string{"crew": name}
	}
	return list
}

func crewPolicy(namespace, name, crew string, priority int32, placement policyv1alpha1.Placement) *policyv1alpha1.PropagationPolicy {
	policy := fleettest.Policy(namespace, name, placement)
	policy.Spec.Priority = &priority
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{
		APIVersion: "v1", Kind: "ConfigMap", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"crew": crew}},
	}}
	return policy
}

// What users change right before the control plane dies, so that most of it has not been reconciled, and as soon as it
// answers again, before most of what there is has been, comes to be like everything else; and nothing is left over. A Job that ended before
// is not made again. It takes a minute on two busy processors, most of it for the starts of a control plane.
func TestWhatUsersChangeAroundAKillCounts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a fleet of its own")
	}
	fleet := fleettest.StartApart(t, 2)
	ns := fleet.Namespace(t)
	one, two := fleet.Member("member1"), fleet.Member("member2")
	moved, narrowed, coloured := crew(ns, "moved"), crew(ns, "narrowed"), crew(ns, "coloured")
	first := crewPolicy(ns, "first", "moved", 1, fleettest.To("member1"))
	narrow := crewPolicy(ns, "narrow", "narrowed", 0, fleettest.Everywhere())
	colour := &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "colour"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{
				APIVersion: "v1", Kind: "ConfigMap", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"crew": "coloured"}},
			}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
				LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"colour": "blue"}}},
			}}},
		},
	}
	gloom := &configv1alpha1.ResourceInterpreterCustomization{
		ObjectMeta: metav1.ObjectMeta{Name: "pipeline-gloom"},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target: configv1alpha1.CustomizationTarget{APIVersion: "v1", Kind: "ConfigMap"},
			Customizations: configv1alpha1.CustomizationRules{HealthInterpretation: &configv1alpha1.HealthInterpretation{
				LuaScript: "function InterpretHealth(obj) return false end",
			}},
		},
	}
	fleettest.Create(t, fleet.Hub, first, crewPolicy(ns, "second", "moved", 0, fleettest.To("member2")), narrow,
		crewPolicy(ns, "coloured", "coloured", 0, fleettest.Everywhere()), colour, gloom)
	for i := range moved {
		fleettest.Create(t, fleet.Hub, moved[i], narrowed[i], coloured[i])
	}
	web := fleettest.Deployment(ns, "web", 1)
	web.APIVersion, web.Kind = "apps/v1", "Deployment"
	halted := handMade(t, ns+"-halted", web)
	fleettest.ExpectEventually(t, one, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	fleettest.Create(t, fleet.Hub, halted)
	fleettest.ExpectEventually(t, one, web, fleettest.Exists)
	fleettest.Update(t, fleet.Hub, halted, func(w *workv1alpha1.Work) { w.Spec.SuspendDispatching = ptr.To(true) })
	fleettest.ExpectEventually(t, fleet.Hub, halted, workIs("Dispatching", metav1.ConditionFalse, "SuspendDispatching"))
	once := onceJob(ns, "once")
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "once", fleettest.To("member1"), once), once)
	complete(t, one, once.DeepCopy())
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "Job", ns, "once"), ended(false))
	blue := func(want string) func(*corev1.ConfigMap) error {
		return func(c *corev1.ConfigMap) error { return equal(want, c.Labels["colour"]) }
	}
	for i := range moved {
		fleettest.ExpectEventually(t, one, moved[i], fleettest.Exists)
		fleettest.ExpectEventually(t, two, narrowed[i], fleettest.Exists)
		fleettest.ExpectEventually(t, two, coloured[i], blue("blue"))
		fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, narrowed[i].Name), healthIs(workv1alpha1.ResourceUnhealthy))
	}

	fleettest.Delete(t, fleet.Hub, colour, gloom)
	fleettest.Update(t, fleet.Hub, narrow, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("member1") })
	fleettest.Update(t, fleet.Hub, first, func(p *policyv1alpha1.PropagationPolicy) {
		p.Spec.ResourceSelectors[0].LabelSelector.MatchLabels["crew"] = "none"
	})
	fleet.KillAndStart(t)
	for i := range moved {
		fleettest.ExpectEventually(t, two, moved[i], fleettest.Exists)
		fleettest.ExpectGone(t, one, moved[i])
		fleettest.ExpectGone(t, two, narrowed[i])
		fleettest.ExpectGone(t, fleet.Hub, work("member2", "ConfigMap", ns, narrowed[i].Name))
		fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, narrowed[i].Name), healthIs(workv1alpha1.ResourceHealthy))
		for _, m := range fleet.Members {
			fleettest.ExpectEventually(t, m, coloured[i], blue(""))
		}
	}
	fleettest.UpdateStatus(t, one, web.DeepCopy(), func(d *appsv1.Deployment) { d.Status.ObservedGeneration, d.Status.Replicas = d.Generation, 7 })
	fleettest.ExpectEventually(t, fleet.Hub, halted, func(w *workv1alpha1.Work) error {
		if len(w.Status.ManifestStatuses) != 1 || !strings.Contains(string(w.Status.ManifestStatuses[0].Status.Raw), `"replicas":7`) {
			return fmt.Errorf("the status is %+v", w.Status.ManifestStatuses)
		}
		return nil
	})

	fleet.Server.Kill()
	fleettest.Delete(t, one, once.DeepCopy()) // as a cleaner does
	fleettest.ExpectGone(t, one, once.DeepCopy())
	done := make(chan error, 1)
	go func() {
		hub := client.Client(fleet.Hub)
		next := func(c client.Object) { c.(*corev1.ConfigMap).Data = map[string]string{"round": "second"} }
		elsewhere := func(p client.Object) { p.(*policyv1alpha1.PropagationPolicy).Spec.Placement = fleettest.To("member2") }
		err := changeOrDelete(t.Context(), hub, narrow, elsewhere)
		for i := range narrowed {
			err = errors.Join(err, changeOrDelete(t.Context(), hub, narrowed[i], next), changeOrDelete(t.Context(), hub, coloured[i], nil))
		}
		done <- err
	}()
	fleet.Server.Start(t)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "Job", ns, "once"), ended(true))
	fleettest.ExpectAbsent(t, one, once.DeepCopy())
	for i := range narrowed {
		fleettest.ExpectEventually(t, two, narrowed[i], func(c *corev1.ConfigMap) error { return equal("second", c.Data["round"]) })
		fleettest.ExpectGone(t, one, narrowed[i])
		for _, m := range fleet.Members {
			fleettest.ExpectGone(t, m, coloured[i])
			fleettest.ExpectGone(t, fleet.Hub, work(m.Name, "ConfigMap", ns, coloured[i].Name))
		}
		fleettest.ExpectGone(t, fleet.Hub, binding(ns, "ConfigMap", coloured[i].Name))
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", narrowed[i].Name), bindingIs("FullyApplied", metav1.ConditionTrue, ""))
	}
}

// changeOrDelete changes an object of a control plane that is just coming up, or deletes it if there is no change.
func changeOrDelete(ctx context.Context, hub client.Client, object client.Object, change func(client.Object)) error {
	object = object.DeepCopyObject().(client.Object)
	err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if change == nil {
			return client.IgnoreNotFound(hub.Delete(ctx, object)) == nil, nil
		}
		changed := false
		if hub.Get(ctx, client.ObjectKeyFromObject(object), object) == nil {
			change(object)
			changed = hub.Update(ctx, object) == nil
		}
		return changed, nil
	})
	if err != nil {
		return fmt.Errorf("changing %s: %w", object.GetName(), err)
	}
	return nil
}

// A status that a user empties is written again.
func TestAStatusThatIsEmptiedByHandReturns(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.Everywhere(), settings))
	w, b := work("member1", "ConfigMap", ns, "settings"), binding(ns, "ConfigMap", "settings")
	expectComplete := func() {
		t.Helper()
		fleettest.ExpectEventually(t, fleet.Hub, w, func(w *workv1alpha1.Work) error {
			return errors.Join(healthIs(workv1alpha1.ResourceHealthy)(w), workIs("Applied", metav1.ConditionTrue, "")(w), workIs("Available", metav1.ConditionTrue, "")(w),
				workIs("Progressing", metav1.ConditionFalse, "")(w), workIs("Degraded", metav1.ConditionFalse, "")(w))
		})
		fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
			if len(b.Status.AggregatedStatus) != 2 || b.Status.AggregatedStatus[0].Health != workv1alpha2.ResourceHealthy {
				return fmt.Errorf("the aggregated status is %+v", b.Status.AggregatedStatus)
			}
			return bindingIs("FullyApplied", metav1.ConditionTrue, "")(b)
		})
	}
	expectComplete()
	fleettest.UpdateStatus(t, fleet.Hub, w, func(w *workv1alpha1.Work) { w.Status.ManifestStatuses = nil })
	expectComplete()
	fleettest.UpdateStatus(t, fleet.Hub, w, func(w *workv1alpha1.Work) { w.Status = workv1alpha1.WorkStatus{} })
	expectComplete()
	for _, kind := range []string{workv1alpha1.WorkApplied, workv1alpha1.WorkAvailable, workv1alpha1.WorkProgressing, workv1alpha1.WorkDegraded} {
		fleettest.UpdateStatus(t, fleet.Hub, w, func(w *workv1alpha1.Work) { meta.RemoveStatusCondition(&w.Status.Conditions, kind) })
		expectComplete()
	}
	fleettest.UpdateStatus(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) { b.Status.AggregatedStatus = nil })
	expectComplete()
	fleettest.UpdateStatus(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) {
		meta.RemoveStatusCondition(&b.Status.Conditions, workv1alpha2.FullyApplied)
	})
	expectComplete()
}
