package schedule_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
)

func identities(what string) func(*workv1alpha2.ResourceBinding) {
	return annotated(workv1alpha2.IdentitiesAnnotation, what)
}

var independent = annotated(policyv1alpha1.MembersIndependentAnnotation, "true")

func without(key string) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) { delete(b.Annotations, key) }
}

// unread is a template whose replicas no interpreter reads.
func unread(b *workv1alpha2.ResourceBinding) {
	b.Spec.Replicas, b.Spec.ReplicaRequirements = 0, nil
	identities("Unknown")(b)
}

func TestADivisionIsWarnedOf(t *testing.T) {
	type edits = []func(*workv1alpha2.ResourceBinding)
	equally := placement(static("m1", 1, "m2", 1))
	for name, tc := range map[string]struct {
		placement *policyv1alpha1.Placement
		edits     edits
		reason    string
		message   string // a part of it
	}{
		"names":                                 {equally, edits{identities("Named")}, workv1alpha2.NamesRepeatReason, "Each of 2 clusters has pods named from db-0 on"},
		"names, by available replicas":          {placement(dynamic), edits{identities("Named")}, workv1alpha2.NamesRepeatReason, "flagship.io/members-independent=true"},
		"names of independent sets":             {equally, edits{identities("Named"), independent}, "", ""},
		"names of sets that are not":            {equally, edits{identities("Named"), annotated(policyv1alpha1.MembersIndependentAnnotation, "false")}, workv1alpha2.NamesRepeatReason, ""},
		"names in one cluster":                  {placement(static(), spread(byCluster, 1, 1)), edits{identities("Named")}, "", ""},
		"names in one cluster by affinity":      {placement(dynamic, affinity(named("m2"))), edits{identities("Named")}, "", ""},
		"names, all in each cluster":            {placement(duplicated), edits{identities("Named")}, "", ""},
		"names, nothing said":                   {nil, edits{identities("Named")}, "", ""},
		"alike":                                 {equally, nil, "", ""},
		"a whole set":                           {equally, edits{identities("Whole")}, "", ""},
		"not known":                             {equally, edits{unread}, workv1alpha2.ReplicasUnknownReason, "those of the kind Deployment are not known: each of 2 clusters has all of them"},
		"not known, independent":                {equally, edits{unread, independent}, workv1alpha2.ReplicasUnknownReason, ""},
		"not known, all in each cluster":        {placement(duplicated), edits{unread}, "", ""},
		"not known, in one cluster":             {placement(static(), affinity(named("m1"))), edits{unread}, "", ""},
		"of another version of the interpreter": {equally, edits{identities("Mirrored")}, "", ""},
		"names, with too few clusters to hold":  {placement(dynamic), edits{identities("Named"), func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 900 }}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1"), member("m2"), bindingOf("db", 4, tc.placement, tc.edits...))
			h.reconcile("db")
			h.expectWarning("db", tc.reason, tc.message)
			if published := slices.ContainsFunc(h.events, func(e string) bool { return strings.HasPrefix(e, "Warning DivisionWarning Deployment/db: ") }); published != (tc.reason != "") {
				t.Errorf("the events are %q", h.events)
			}
			h.writes, h.events = nil, nil
			h.reconcile("db")
			if len(h.writes) > 0 {
				t.Errorf("writes without news: %q", h.writes)
			}
		})
	}
}

func (h *hub) expectWarning(name, reason, message string) {
	h.t.Helper()
	b := h.binding(name)
	c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.DivisionWarning)
	if c == nil {
		if reason != "" {
			h.t.Errorf("it does not warn: %+v", b.Status.Conditions)
		}
		return
	}
	if c.Reason != reason || c.Status != "True" || !strings.Contains(c.Message, message) || c.ObservedGeneration != b.Generation || !c.LastTransitionTime.Time.Equal(h.clock.Now()) {
		h.t.Errorf("it warns: %+v of generation %d, want %q %q", c, b.Generation, reason, message)
	}
}

// TestAWarningFollowsWhatItIsAbout also where nothing has to be decided anew.
func TestAWarningFollowsWhatItIsAbout(t *testing.T) {
	h := newHub(t, member("m1"), member("m2"), bindingOf("db", 4, placement(dynamic), identities("Named")))
	h.reconcile("db")
	for _, step := range []struct {
		what   string
		edit   func(*workv1alpha2.ResourceBinding)
		reason string
	}{
		{"the sets are independent", independent, ""},
		{"they are not", without(policyv1alpha1.MembersIndependentAnnotation), workv1alpha2.NamesRepeatReason},
		{"they have no names", without(workv1alpha2.IdentitiesAnnotation), ""},
		{"they have", identities("Named"), workv1alpha2.NamesRepeatReason},
		{"a write that notes the generation alone", func(b *workv1alpha2.ResourceBinding) {
			b.Generation++
			b.Status.SchedulerObservedGeneration = b.Generation
		}, workv1alpha2.NamesRepeatReason},
		{"another version of the template", func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Resource.ResourceVersion, b.Generation = "8", b.Generation+1
		}, workv1alpha2.NamesRepeatReason},
	} {
		before := h.binding("db")
		after := before.DeepCopy()
		step.edit(after)
		if !schedule.Matters(before, after) {
			t.Errorf("%s: the scheduler does not follow it", step.what)
		}
		status := after.Status
		err := h.client.Update(t.Context(), after)
		after.Status = status
		if err = errors.Join(err, h.client.Status().Update(t.Context(), after)); err != nil {
			t.Fatal(err)
		}
		h.writes, h.events = nil, nil
		h.reconcile("db")
		h.expectWarning("db", step.reason, "")
		if len(h.writes) != 1 || h.writes[0] != "status" || (len(h.events) == 1) != (step.reason != "") {
			t.Errorf("%s: writes %q, events %q", step.what, h.writes, h.events)
		}
		h.expectTargets("db", step.what, targets("m1", 2, "m2", 2))
		h.writes, h.events = nil, nil
		h.reconcile("db")
		h.expect(step.what+", again", nil)
	}
}

// TestAWholeSetGoesToOneCluster under any policy that divides.
func TestAWholeSetGoesToOneCluster(t *testing.T) {
	whole := identities("Whole")
	for name, tc := range map[string]struct {
		placement *policyv1alpha1.Placement
		want      []workv1alpha2.TargetCluster
	}{
		"static weights":                 {placement(static("m1", 1, "m2", 9)), targets("m2", 6)},
		"a weight of none":               {placement(static("m1", 1)), targets("m1", 6)},
		"by available replicas":          {placement(dynamic), targets("m2", 6)},
		"aggregated":                     {placement(aggregated), targets("m2", 6)},
		"constraints for two":            {placement(dynamic, spread(byCluster, 2, 2)), targets("m2", 6)},
		"in one cluster":                 {placement(dynamic, affinity(named("m1"))), targets("m1", 6)},
		"all of it in each cluster":      {placement(duplicated), targets("m1", 6, "m2", 6)},
		"nothing said":                   {nil, targets("m1", 6, "m2", 6)},
		"in the first tier that has one": {placement(dynamic, term("home", named("m1"), policyv1alpha1.OverflowAffinityTerm{AffinityName: "far", ClusterAffinity: named("m2")})), targets("m1", 6)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1", available(6)), member("m2", available(90)), bindingOf("shards", 6, tc.placement, whole))
			h.reconcile("shards")
			h.expectTargets("shards", name, tc.want)
			h.expectWarning("shards", "", "")
			h.changeCluster("m1", available(900))
			h.reconcile("shards")
			h.expectTargets("shards", "a better cluster is no reason to begin anew", tc.want)
			h.change("shards", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 5 })
			h.reconcile("shards")
			for i := range tc.want {
				tc.want[i].Replicas = 5
			}
			h.expectTargets("shards", "nor is another number of replicas", tc.want)
		})
	}
}

// TestAWholeSetLeavesAClusterThatFails: to keep its cluster is better than to begin anew, and to begin anew than not to run.
func TestAWholeSetLeavesAClusterThatFails(t *testing.T) {
	h := newHub(t, member("m1", available(6)), member("m2", available(90)), bindingOf("shards", 6, placement(dynamic), identities("Whole")))
	h.reconcile("shards")
	h.change("shards", func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Clusters, b.Spec.GracefulEvictionTasks = nil, []workv1alpha2.GracefulEvictionTask{{FromCluster: "m2"}}
	})
	h.reconcile("shards")
	h.expectTargets("shards", "evicted", targets("m1", 6))
}

// TestAWholeSetThatGrowsStays: a cluster with more capacity would begin it anew.
func TestAWholeSetThatGrowsStays(t *testing.T) {
	for name, p := range map[string]*policyv1alpha1.Placement{"by available replicas": placement(dynamic), "aggregated": placement(aggregated)} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1", available(6)), member("m2", available(90)), bindingOf("shards", 6, p, identities("Whole")))
			h.reconcile("shards")
			h.changeCluster("m1", available(900))
			h.change("shards", func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 500 })
			h.reconcile("shards")
			h.expectTargets("shards", "more than its cluster has capacity for", targets("m2", 6))
			h.expectCondition("shards", workv1alpha2.BindingReasonUnschedulable, "one cluster runs it as a whole, and a set that runs stays in its cluster: ")
		})
	}
}
