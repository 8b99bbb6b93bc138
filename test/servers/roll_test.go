package servers_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestVersionsSideBySide runs a server of the previous version and one of this version on one etcd. The leader moves from one to the other
// and back, while a client writes without a break. Nothing is lost, and no version writes what the other one wrote.
func TestVersionsSideBySide(t *testing.T) {
	s := startVersions(t)
	older, newer := 0, 1
	load := s.startLoad(t)
	for round, move := range []struct{ from, to int }{{older, newer}, {newer, older}, {older, newer}} {
		for s.leader(t) != move.from { // which had no processor time, and lost the lease
			s.all[move.to].Stop(t)
			s.leads(t, move.from)
			s.all[move.to].Start(t)
		}
		s.leaderMoves(t, fmt.Sprintf("round-%d", round), move.from, move.to, func() { s.all[move.from].Stop(t) })
		s.all[move.from].Start(t)
		s.follows(t, move.from)
	}
	load.end(t)
	s.isDone(t, newer)
	s.expectWrittenOnce(t, newer, 3)
}

// leaderMoves has the leader move from one server to another by a function. The other one writes nothing that the first one wrote.
func (s *servers) leaderMoves(t *testing.T, version string, from, to int, move func()) {
	t.Helper()
	// Through the server that does not lead: its admission and its encoding, the other one's loops.
	s.put(t, s.all[to], 20, version)
	s.converges(t, s.all[from])
	s.isDone(t, from)
	before := s.versions(t, from)

	move()
	s.leads(t, to)
	mark := fleettest.ConfigMap(s.ns, "mark-"+version, map[string]string{"version": version})
	s.mark(t, s.all[to], mark) // it arrives after everything that the loops do at their start
	s.converges(t, s.all[to])
	s.isDone(t, to)
	for name, is := range s.versions(t, to) {
		if was, existed := before[name]; existed && was.GetResourceVersion() != is.GetResourceVersion() {
			t.Errorf("%s was written when the leader moved from %s to %s:\n%s", name, s.all[from].Name, s.all[to].Name, cmp.Diff(was, is))
		}
	}
}

// startVersions runs a server of each version, with the keys of the older one.
func startVersions(t *testing.T) *servers {
	t.Helper()
	previous := fleettest.Previous(t)
	s := &servers{etcd: startEtcd(t), ns: "load"}
	for i, name := range []string{"older", "newer"} {
		dir := t.TempDir()
		args := []string{"--etcd-servers", strings.Join(s.etcd.endpoints(), ",")}
		var hub *fleettest.Part
		if i == 0 {
			hub = fleettest.StartHubOf(t, previous, dir, args...)
		} else {
			if err := os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(filepath.Join(s.all[0].Dir, "pki"))); err != nil {
				t.Fatal(err)
			}
			hub = fleettest.StartHubIn(t, dir, args...)
		}
		hub.Name = name
		s.all = append(s.all, hub)
	}
	s.member = fleettest.StartMember(t, member, "--bare")
	s.all[0].Join(t, member, s.member.Kubeconfig)
	if err := s.all[0].Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}); err != nil {
		t.Fatal(err)
	}
	fleettest.Create(t, s.all[0].Cluster, fleettest.Policy(s.ns, "all", fleettest.To(member), &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}))
	return s
}

// leads waits until a server runs the loops.
func (s *servers) leads(t *testing.T, i int) {
	t.Helper()
	eventually(t, s.all[i].Name+" runs the loops", func(ctx context.Context) error {
		is, err := leads(ctx, s.all[i])
		if err == nil && !is {
			err = fmt.Errorf("another one does")
		}
		return err
	})
}

// isDone waits until nothing more is to be written about an object-N or its Work: the client goes on with others meanwhile.
func (s *servers) isDone(t *testing.T, through int) {
	t.Helper()
	eventually(t, "everything is reported", func(ctx context.Context) error {
		bindings, works := &workv1alpha2.ResourceBindingList{}, &workv1alpha1.WorkList{}
		if err := s.all[through].List(ctx, bindings, client.InNamespace(s.ns)); err != nil {
			return err
		}
		if err := s.all[through].List(ctx, works, client.InNamespace(workv1alpha1.ExecutionNamespace(member))); err != nil {
			return err
		}
		for i := range works.Items {
			w := &works.Items[i]
			for _, c := range w.Status.Conditions {
				if ours(w) && c.ObservedGeneration != w.Generation {
					return fmt.Errorf("the condition %s of Work %s is about generation %d, want %d", c.Type, w.Name, c.ObservedGeneration, w.Generation)
				}
			}
			if err := fleettest.ConditionTrue(w.Status.Conditions, workv1alpha1.WorkAvailable); ours(w) && err != nil {
				return fmt.Errorf("Work %s: %w", w.Name, err)
			}
		}
		for i := range bindings.Items {
			b := &bindings.Items[i]
			if err := fleettest.ConditionTrue(b.Status.Conditions, workv1alpha2.FullyApplied); strings.HasPrefix(b.Name, "object-") && err != nil {
				return fmt.Errorf("binding %s: %w", b.Name, err)
			}
			if strings.HasPrefix(b.Name, "object-") && len(b.Status.AggregatedStatus) != 1 {
				return fmt.Errorf("binding %s has the status %+v", b.Name, b.Status.AggregatedStatus)
			}
			for _, status := range b.Status.AggregatedStatus { // it is written when the Work is, and maybe after the condition
				if strings.HasPrefix(b.Name, "object-") && (!status.Applied || status.Health != workv1alpha2.ResourceHealthy) {
					return fmt.Errorf("binding %s has of cluster %s that it is applied: %t, %s", b.Name, status.ClusterName, status.Applied, status.Health)
				}
			}
			for _, c := range b.Status.Conditions {
				if strings.HasPrefix(b.Name, "object-") && c.ObservedGeneration != b.Generation {
					return fmt.Errorf("the condition %s of binding %s is about generation %d, want %d", c.Type, b.Name, c.ObservedGeneration, b.Generation)
				}
			}
		}
		return nil
	})
}

// ours returns whether a Work has an object-N, which the load does not write.
func ours(w *workv1alpha1.Work) bool {
	return strings.HasPrefix(w.Annotations[workv1alpha2.ResourceBindingNameAnnotation], "object-")
}

// versions are each object-N, its binding and its Work, and of the policy.
func (s *servers) versions(t *testing.T, through int) map[string]client.Object {
	t.Helper()
	found := map[string]client.Object{}
	templates, bindings, works := &corev1.ConfigMapList{}, &workv1alpha2.ResourceBindingList{}, &workv1alpha1.WorkList{}
	hub := s.all[through]
	for list, namespace := range map[client.ObjectList]string{templates: s.ns, bindings: s.ns, works: workv1alpha1.ExecutionNamespace(member)} {
		s.read(t, hub, list, namespace)
	}
	for i := range templates.Items {
		if c := &templates.Items[i]; strings.HasPrefix(c.Name, "object-") {
			found["ConfigMap "+c.Name] = c
		}
	}
	for i := range bindings.Items {
		if b := &bindings.Items[i]; strings.HasPrefix(b.Name, "object-") {
			found["ResourceBinding "+b.Name] = b
		}
	}
	for i := range works.Items {
		if w := &works.Items[i]; ours(w) {
			found["Work "+w.Name] = w
		}
	}
	policy := fleettest.Policy(s.ns, "all", fleettest.To(member))
	eventually(t, "the policy is read", func(ctx context.Context) error { return hub.Get(ctx, client.ObjectKeyFromObject(policy), policy) })
	found["PropagationPolicy all"] = policy
	return found
}

// expectWrittenOnce fails unless the Work of each object-N was written once for each version of its template.
func (s *servers) expectWrittenOnce(t *testing.T, through int, want int64) {
	t.Helper()
	works := &workv1alpha1.WorkList{}
	s.read(t, s.all[through], works, workv1alpha1.ExecutionNamespace(member))
	works.Items = slices.DeleteFunc(works.Items, func(w workv1alpha1.Work) bool { return !ours(&w) })
	if len(works.Items) != 20 {
		t.Errorf("%d Works, want 20", len(works.Items))
	}
	for i := range works.Items {
		if w := &works.Items[i]; w.Generation != want {
			t.Errorf("Work %s was written %d times, want %d", w.Name, w.Generation, want)
		}
	}
}
