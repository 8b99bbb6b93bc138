package schedule_test

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
)

// oneWrite is a client that stores bindings with their status, as that of the control plane does.
type oneWrite struct {
	client.Client
	hub *hub
	// refuse, if set, answers the next such write.
	refuse error
}

// writingStatus has the hub's controller write with a client that stores bindings with their status.
func (h *hub) writingStatus() *oneWrite {
	c := &oneWrite{Client: h.client, hub: h}
	h.controller = schedule.New(schedule.Deps{Client: c, Clock: h.clock, Events: events.RecorderFunc(func(e events.Event) { h.events = append(h.events, e.String()) })})
	return c
}

func (c *oneWrite) write(ctx context.Context, verb string, obj client.Object, store func(context.Context, client.Object) error) (bool, error) {
	c.hub.writes = append(c.hub.writes, verb)
	if err := c.refuse; err != nil {
		c.refuse = nil
		return true, err
	}
	whole := obj.DeepCopyObject().(client.Object)
	if err := store(ctx, obj); err != nil {
		return true, err
	}
	whole.SetResourceVersion(obj.GetResourceVersion())
	err := c.Client.SubResource("status").Update(ctx, whole)
	obj.SetResourceVersion(whole.GetResourceVersion())
	return true, err
}

// CreateWithStatus is what hubclient calls.
func (c *oneWrite) CreateWithStatus(ctx context.Context, obj client.Object) (bool, error) {
	return c.write(ctx, "create with status", obj, func(ctx context.Context, obj client.Object) error { return c.Client.Create(ctx, obj) })
}

// ReplaceWithStatus is what hubclient calls.
func (c *oneWrite) ReplaceWithStatus(ctx context.Context, obj client.Object) (bool, error) {
	return c.write(ctx, "replace with status", obj, func(ctx context.Context, obj client.Object) error { return c.Client.Update(ctx, obj) })
}

func TestANewBindingHasItsResult(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		binding *workv1alpha2.ResourceBinding
		with    bool
	}{
		"Duplicated": {"each cluster gets all", bindingOf("web", 3, placement(duplicated)), true},
		"Static":     {"weights are part of the placement", bindingOf("web", 3, placement(static("m1", 2, "m2", 1))), true},
		"None":       {"all clusters", bindingOf("web", 3, nil), true},
		"Dynamic":    {"other bindings take capacity at the same time", bindingOf("web", 3, placement(dynamic)), false},
		"Aggregated": {"as above", bindingOf("web", 3, placement(aggregated)), false},
		"No place":   {"it waits, which Reconcile does", bindingOf("web", 3, placement(affinity(named("m9")))), false},
		"Resumed":    {"it has a result", bindingOf("web", 3, nil, func(b *workv1alpha2.ResourceBinding) { b.Spec.Clusters = targets("m1", 3) }), false},
		"Limited":    {"its pods do not run in some cluster", bindingOf("web", 3, nil, annotated(workv1alpha2.ReplicaLimitsAnnotation, "{}")), false},
		"Failback":   {"it waits for an earlier affinity", bindingOf("web", 3, nil, annotated(policyv1alpha1.FailbackAnnotation, "true")), false},
		"Another's":  {"another scheduler is named", bindingOf("web", 3, nil, func(b *workv1alpha2.ResourceBinding) { b.Spec.SchedulerName = "other" }), false},
		"Suspended": {"scheduling is suspended", bindingOf("web", 3, nil, func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: new(true)}
		}), false},
		"A dependency": {"it goes where others go", bindingOf("web", 3, nil, func(b *workv1alpha2.ResourceBinding) { b.Labels = nil }), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1"), member("m2"))
			h.writingStatus()
			if err := h.controller.Create(h.ctx, test.binding); err != nil {
				t.Fatal(err)
			}
			stored := h.binding("web")
			if !test.with {
				h.expect(test.reason, nil)
				if stored.Status.SchedulerObservedGeneration != 0 {
					t.Errorf("%s: the status is %+v", test.reason, stored.Status)
				}
				return
			}
			if len(h.events) != 1 {
				t.Errorf("%s: events %q, want one of the result", test.reason, h.events)
			}
			h.events = nil
			h.expect(test.reason, []string{"create with status"})
			h.expectCondition("web", "Success", "")
			if stored.Generation != 1 || len(stored.Spec.Clusters) != 2 || stored.Status.LastScheduledTime == nil || test.binding.ResourceVersion != stored.ResourceVersion {
				t.Errorf("%s: stored is %+v, and the caller has version %s", test.reason, stored, test.binding.ResourceVersion)
			}
			h.reconcile("web")
			h.expect("nothing is left to do", nil)
		})
	}
}

// TestWhatCannotBeWrittenWithItsResult is written without, and nothing stays reserved for it.
func TestWhatCannotBeWrittenWithItsResult(t *testing.T) {
	kind := workv1alpha2.Resource("resourcebindings")
	h := newHub(t, member("m1"))
	h.writingStatus().refuse = apierrors.NewForbidden(kind, "web", nil)
	if err := h.controller.Create(h.ctx, bindingOf("web", 80, placement(duplicated))); err != nil {
		t.Fatal(err)
	}
	h.expect("a policy of the user may refuse the clusters", []string{"create with status"})
	if b := h.binding("web"); len(b.Spec.Clusters) > 0 {
		t.Errorf("clusters are %v", b.Spec.Clusters)
	}
	if err := h.client.Create(h.ctx, bindingOf("other", 60, placement(dynamic))); err != nil {
		t.Fatal(err)
	}
	h.reconcile("other")
	h.expectTargets("other", "nothing is reserved for what has no result", targets("m1", 60))

	h = newHub(t, member("m1"))
	h.writingStatus().refuse = apierrors.NewAlreadyExists(kind, "web")
	if err := h.controller.Create(h.ctx, bindingOf("web", 80, placement(duplicated))); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v, want that it exists", err)
	}
	h.expect("it is not tried again", []string{"create with status"})
}

func TestAChangeHasItsResult(t *testing.T) {
	replicas := func(n int32) func(*workv1alpha2.ResourceBinding) {
		return func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = n }
	}
	for name, test := range map[string]struct {
		reason    string
		placement *policyv1alpha1.Placement
		edit      func(*workv1alpha2.ResourceBinding)
		with      bool
		want      []workv1alpha2.TargetCluster
	}{
		"Scaled":       {"copies follow the template", placement(duplicated), replicas(5), true, targets("m1", 5, "m2", 5)},
		"Same":         {"the result still holds", placement(duplicated), func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.ResourceVersion = "9" }, true, targets("m1", 3, "m2", 3)},
		"Same dynamic": {"as above, and capacity has no say", placement(dynamic), func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.ResourceVersion = "9" }, false, nil},
		"Metadata":     {"nothing is to be decided", placement(duplicated), annotated("a", "b"), false, targets("m1", 3, "m2", 3)},
		"Suspended": {"scheduling is suspended", placement(duplicated), func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: new(true)}
		}, false, targets("m1", 3, "m2", 3)},
		"No place": {"it waits, which Reconcile does", placement(duplicated), func(b *workv1alpha2.ResourceBinding) { b.Spec.Placement = placement(affinity(named("m9"))) }, false, targets("m1", 3, "m2", 3)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1"), member("m2"), bindingOf("web", 3, test.placement))
			h.writingStatus()
			h.reconcile("web")
			h.writes, h.events = nil, nil
			before, after := h.binding("web"), h.binding("web")
			test.edit(after)
			changed, err := h.controller.Patch(h.ctx, before, after)
			if err != nil || !changed {
				t.Fatalf("%s: changed %t, %v", test.reason, changed, err)
			}
			if test.with != (len(h.writes) == 1) {
				t.Errorf("%s: writes %q", test.reason, h.writes)
			}
			if test.want != nil {
				h.expectTargets("web", test.reason, test.want)
			}
			if test.with {
				h.expectCondition("web", "Success", "")
				h.writes, h.events = nil, nil
				h.reconcile("web")
				h.expect("nothing is left to do", nil)
			}
		})
	}
}

// TestAChangeBesideThatOfOthers keeps what they wrote.
func TestAChangeBesideThatOfOthers(t *testing.T) {
	h := newHub(t, member("m1"), bindingOf("web", 3, placement(duplicated)))
	h.writingStatus().refuse = apierrors.NewConflict(workv1alpha2.Resource("resourcebindings"), "web", nil)
	h.reconcile("web")
	before, after := h.binding("web"), h.binding("web")
	h.change("web", annotated("theirs", "kept"))
	after.Spec.Replicas = 5
	if _, err := h.controller.Patch(h.ctx, before, after); err != nil {
		t.Fatal(err)
	}
	if b := h.binding("web"); b.Spec.Replicas != 5 || b.Annotations["theirs"] != "kept" {
		t.Errorf("stored is %+v", b)
	}
}
