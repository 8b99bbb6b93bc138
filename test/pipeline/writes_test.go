package pipeline_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// sample is how many objects an average is taken over.
const sample = 10

// What is done with an object costs so many writes: of the control plane about it, and one of ours in each member. The
// limits are the averages of an idle machine, 9, 7.1 and 9.4, and some more for reports that are not combined in one write on a busy one. It
// takes 35 s beside other tests: it counts until nothing is written any more.
func TestWhatAnObjectCosts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a fleet")
	}
	// A fleet of its own: in a shared one the namespaces of other tests are still being emptied. Without controllers in its
	// members, each of which would report every step of a rollout that it observes.
	fleet := fleettest.Start(t, fleettest.Options{Members: 2, Bare: true})
	ns := fleet.Namespace(t)
	var settings []*corev1.ConfigMap
	for i := range sample {
		settings = append(settings, fleettest.ConfigMap(ns, fmt.Sprintf("settings-%d", i), nil))
	}
	each := func(do func(*corev1.ConfigMap)) {
		for _, c := range settings {
			do(c)
		}
	}
	expectDone := func(c *corev1.ConfigMap) {
		for _, m := range fleet.Members {
			fleettest.ExpectEventually(t, m, c, func(copied *corev1.ConfigMap) error {
				if copied.Data["colour"] != c.Data["colour"] {
					return fmt.Errorf("it says %v, want %v", copied.Data, c.Data)
				}
				return nil
			})
			fleettest.ExpectEventually(t, fleet.Hub, work(m.Name, "ConfigMap", ns, c.Name), done)
		}
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", c.Name), bindingIs("FullyApplied", "True", ""))
	}

	policy := fleettest.Policy(ns, "settings", fleettest.Everywhere(), settings[0])
	policy.Spec.ResourceSelectors[0].Name = ""
	first := fleettest.ConfigMap(ns, "first", nil)
	fleettest.Create(t, fleet.Hub, policy, first)
	expectDone(first) // and with it what a fleet writes once, such as namespaces

	created := fleettest.CountRequests(t, fleet.Hub)
	expectWrites(t, fleet, "creating", 13, func() {
		each(func(c *corev1.ConfigMap) { fleettest.Create(t, fleet.Hub, c) })
		each(expectDone)
	})
	// Propagate reads the content, which has no generation, and render has it from the answer to propagate's write.
	if average := float64(templateReads(t, fleet, created, http.StatusOK)) / sample; average > 1.5 {
		t.Errorf("creating an object takes %.1f reads of it, want at most 1.5", average)
	}
	expectWrites(t, fleet, "changing", 12, func() {
		each(func(c *corev1.ConfigMap) {
			fleettest.Update(t, fleet.Hub, c, func(c *corev1.ConfigMap) { c.Data = map[string]string{"colour": "blue"} })
		})
		each(expectDone)
	})
	before := fleettest.CountRequests(t, fleet.Hub)
	expectWrites(t, fleet, "deleting", 16, func() {
		each(func(c *corev1.ConfigMap) { fleettest.Delete(t, fleet.Hub, c) })
		each(func(c *corev1.ConfigMap) {
			for _, m := range fleet.Members {
				fleettest.ExpectGone(t, m, c)
				fleettest.ExpectGone(t, fleet.Hub, work(m.Name, "ConfigMap", ns, c.Name))
			}
			fleettest.ExpectGone(t, fleet.Hub, binding(ns, "ConfigMap", c.Name))
		})
	})
	// Only propagate reads the template, once or twice. Render and apply would do so for each Work and event, which was 8 reads each.
	if average := float64(templateReads(t, fleet, before, http.StatusNotFound)) / sample; average > 5 {
		t.Errorf("deleting an object takes %.1f reads that do not find it, want at most 5", average)
	}
}

// templateReads is how many reads of single ConfigMaps the control plane has answered with a code since an earlier count.
func templateReads(t *testing.T, fleet *fleettest.Fleet, since fleettest.Requests, code int) int {
	t.Helper()
	reads := 0
	for kind, n := range fleettest.CountRequests(t, fleet.Hub).Since(since).Of("configmaps") {
		if kind.Verb == "GET" && kind.Code == code {
			reads += n
		}
	}
	return reads
}

// done is the condition of a Work that nothing more will be written about.
func done(w *workv1alpha1.Work) error {
	for _, c := range w.Status.Conditions {
		if c.ObservedGeneration != w.Generation {
			return fmt.Errorf("condition %s is about generation %d, want %d", c.Type, c.ObservedGeneration, w.Generation)
		}
	}
	return errors.Join(workIs("Applied", "True", "")(w), workIs("Progressing", "False", "")(w), workIs("Available", "True", "")(w))
}

// expectWrites does something with every object of the sample and checks what it costs for each: no more than so many
// writes to the control plane, the user's own and Events included, and one of ours in each member.
func expectWrites(t *testing.T, fleet *fleettest.Fleet, what string, limit float64, do func()) {
	t.Helper()
	hub := fleettest.CountRequests(t, fleet.Hub)
	var members []fleettest.Requests
	for _, m := range fleet.Members {
		members = append(members, fleettest.CountRequests(t, m))
	}
	do()
	written := fleettest.CountRequests(t, fleet.Hub).Since(hub).Writes()
	average := float64(written.Total()) / sample
	t.Logf("%s an object takes %.1f writes:\n%s", what, average, written)
	if average > limit {
		t.Errorf("%s an object takes %.1f writes to the control plane, want at most %.1f", what, average, limit)
	}
	for i, m := range fleet.Members {
		ours := 0
		for kind, n := range fleettest.CountRequests(t, m).Since(members[i]).Writes() {
			if kind.Resource == "configmaps" {
				ours += n
			}
		}
		if ours != sample {
			t.Errorf("%s %d objects takes %d writes to their copies in %s, want one each", what, sample, ours, m.Name)
		}
	}
}
