package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// seedVar names the environment variable with the seed of a run to repeat.
	seedVar = "FLAGSHIP_FAULT_SEED"
	// killsVar names the environment variable with how often the control plane is killed, and kills is the default.
	killsVar, kills = "FLAGSHIP_FAULT_KILLS", 8
	// longestLife is how long it lives at most after it took the first write.
	longestLife = 2500 * time.Millisecond
	// templates and works are how many names there are to create, update and delete under.
	templates, works = 24, 8
)

func seed(t *testing.T) uint64 {
	t.Helper()
	n := rand.Uint64()
	if text := os.Getenv(seedVar); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("reading %s: %v", seedVar, err)
		}
	}
	t.Logf("%s=%d repeats this run", seedVar, n)
	return n
}

// howOften returns how often the control plane is killed.
func howOften(t *testing.T) int {
	t.Helper()
	text := os.Getenv(killsVar)
	if text == "" {
		return kills
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s is no number above 0", killsVar, text)
	}
	return n
}

// One member, which does not fail, for a control plane that is killed. It takes two minutes beside other tests, for eight kills and starts.
func TestControlPlaneIsKilled(t *testing.T) {
	hub := fleettest.StartHub(t)
	member := fleettest.StartMember(t, "member1", "--bare")
	hub.Join(t, "member1", member.Kubeconfig)
	t.Run("AgainAndAgain", func(t *testing.T) { killedAgainAndAgain(t, hub, member.Cluster) })
	t.Run("BeforeItWritesTheStatus", func(t *testing.T) { killedBeforeItWritesTheStatus(t, hub, member.Cluster) })
	t.Run("AfterAKindMeansAnotherThing", func(t *testing.T) { killedAfterAKindMeansAnotherThing(t, hub, member.Cluster) })
	t.Run("AndItsStorageIsFull", func(t *testing.T) { storageIsFull(t, hub, member) })
}

// The control plane is killed at random points, also while its loops start, and templates and Works come, change and go
// all the time. What is stored in the end is what the member has.
func killedAgainAndAgain(t *testing.T, hub *fleettest.Part, member *fleettest.Cluster) {
	random := rand.New(rand.NewPCG(seed(t), 0))
	ns := namespace(t, hub.Cluster, "chaos")
	everything := fleettest.Policy(ns, "everything", fleettest.Everywhere())
	everything.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
	fleettest.Create(t, hub.Cluster, everything)
	foreign := standBy(t, member, "member1")

	writes, often := 0, howOften(t)
	for kill := range often {
		if kill > 0 {
			hub.Launch(t)
		}
		m := newMess(hub.Cluster, ns, random.Uint64())
		working, stop := context.WithCancel(t.Context())
		go m.make(working)
		select {
		case <-m.begun:
		case <-time.After(patience):
			t.Fatalf("after %d kills nothing can be written", kill)
		}
		pause(t.Context(), time.Duration(random.Int64N(int64(longestLife))))
		hub.Kill()
		stop()
		writes += <-m.writes
	}
	t.Logf("%d writes between %d kills", writes, often)

	hub.Start(t)
	expectCarried(t, hub.Cluster, "member1", ns)
	expectConverged(t, hub.Cluster, member, "member1", foreign)
}

// The control plane is killed between a write to the member and the status that reports it, and a user drops the manifest
// or the Work before it read the member again. The moment is made by hand: a suspended Work has no status, and
// its objects are applied in its place.
func killedBeforeItWritesTheStatus(t *testing.T, hub *fleettest.Part, member *fleettest.Cluster) {
	ns := namespace(t, hub.Cluster, "untold")
	fleettest.ExpectEventually(t, member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	suspended := true
	done := func(name string, of int) *workv1alpha1.Work {
		t.Helper()
		w := byHand("member1", ns, name, 1, map[string]string{"n": "1"})
		w.Spec.SuspendDispatching = &suspended
		fleettest.Create(t, hub.Cluster, w)
		fleettest.ExpectEventually(t, hub.Cluster, w, func(w *workv1alpha1.Work) error {
			return is(w, workv1alpha1.WorkDispatching, metav1.ConditionFalse)
		})
		for i := range of {
			applied(t, member, w, ns, fmt.Sprintf("%s-%d", name, i))
		}
		return w
	}
	shrunk, deleted := done("shrunk", 3), done("deleted", 3)
	hub.Kill()
	hub.Launch(t)
	eventually(t, "the Works are changed as soon as the API server answers", func(ctx context.Context) error {
		resume := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspendDispatching":null}}`))
		return errors.Join(hub.Patch(ctx, shrunk, resume), client.IgnoreNotFound(hub.Delete(ctx, deleted)))
	})
	expectConverged(t, hub.Cluster, member, "member1", bystanders{})

	// A request of a control plane that is gone may take effect after the next one has read the member.
	applied(t, member, shrunk, ns, "shrunk-4")
	fleettest.ExpectGone(t, member, fleettest.ConfigMap(ns, "shrunk-4", nil))
	expectConverged(t, hub.Cluster, member, "member1", bystanders{})
}

// applied puts a ConfigMap of a Work into a member as the control plane does.
func applied(t *testing.T, member *fleettest.Cluster, w *workv1alpha1.Work, ns, name string) {
	t.Helper()
	c := corev1ac.ConfigMap(name, ns).
		WithLabels(map[string]string{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue}).
		WithAnnotations(map[string]string{workv1alpha1.WorkNamespaceAnnotation: w.Namespace, workv1alpha1.WorkNameAnnotation: w.Name}).
		WithData(map[string]string{"n": "0"})
	if err := member.Apply(t.Context(), c, client.FieldOwner("flagship")); err != nil {
		t.Fatal(err)
	}
}

// The interpreter customization of a kind changes, and the control plane is killed before it can react. When it is back
// it reconciles everything that depends on it.
func killedAfterAKindMeansAnotherThing(t *testing.T, hub *fleettest.Part, member *fleettest.Cluster) {
	ns := namespace(t, hub.Cluster, "meaning")
	web := fleettest.Deployment(ns, "web", 1)
	fleettest.Create(t, hub.Cluster, web.DeepCopy(), fleettest.Policy(ns, "web", fleettest.To("member1"), web))
	lesson := func(n int, healthy bool) *configv1alpha1.ResourceInterpreterCustomization {
		return &configv1alpha1.ResourceInterpreterCustomization{
			ObjectMeta: metav1.ObjectMeta{Name: "meaning"},
			Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
				Target: configv1alpha1.CustomizationTarget{APIVersion: "apps/v1", Kind: "Deployment"},
				Customizations: configv1alpha1.CustomizationRules{
					ReplicaResource: &configv1alpha1.ReplicaResourceRequirement{
						LuaScript: fmt.Sprintf("function GetReplicas(obj) return %d, {} end", n),
					},
					ReplicaRevision: &configv1alpha1.ReplicaRevision{
						LuaScript: fmt.Sprintf("function ReviseReplica(obj, n) obj.spec.minReadySeconds = %d; return obj end", n),
					},
					HealthInterpretation: &configv1alpha1.HealthInterpretation{
						LuaScript: fmt.Sprintf("function InterpretHealth(obj) return %t end", healthy),
					},
					StatusAggregation: &configv1alpha1.StatusAggregation{
						LuaScript: fmt.Sprintf("function AggregateStatus(obj, items) obj.status = {replicas = %d}; return obj end", n),
					},
				},
			},
		}
	}
	expect := func(replicas, revised, total int32, health workv1alpha1.ResourceHealth) {
		t.Helper()
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: workv1alpha2.BindingName("Deployment", "web")}}
		fleettest.ExpectEventually(t, hub.Cluster, b, func(b *workv1alpha2.ResourceBinding) error { return same("replicas", replicas, b.Spec.Replicas) })
		fleettest.ExpectEventually(t, member, web, func(d *appsv1.Deployment) error { return same("minReadySeconds", revised, d.Spec.MinReadySeconds) })
		fleettest.ExpectEventually(t, hub.Cluster, rendered("member1", "Deployment", ns, "web"), func(w *workv1alpha1.Work) error {
			if len(w.Status.ManifestStatuses) != 1 {
				return fmt.Errorf("%d manifest statuses", len(w.Status.ManifestStatuses))
			}
			return same("health", health, w.Status.ManifestStatuses[0].Health)
		})
		fleettest.ExpectEventually(t, hub.Cluster, web, func(d *appsv1.Deployment) error { return same("status.replicas", total, d.Status.Replicas) })
	}
	first := lesson(3, false)
	fleettest.Create(t, hub.Cluster, first)
	expect(3, 3, 3, workv1alpha1.ResourceUnhealthy)

	second := lesson(5, true)
	fleettest.Update(t, hub.Cluster, first, func(c *configv1alpha1.ResourceInterpreterCustomization) { c.Spec = second.Spec })
	hub.Kill()
	hub.Start(t)
	expect(5, 5, 5, workv1alpha1.ResourceHealthy)

	fleettest.Delete(t, hub.Cluster, first)
	hub.Kill()
	hub.Start(t)
	expect(1, 0, 0, workv1alpha1.ResourceUnhealthy) // the member runs no controllers
}

// The database of a control plane is full: writes are refused, and what is in the member stays and is corrected there. When objects are
// deleted, the control plane accepts writes again, without a restart, and everything converges.
func storageIsFull(t *testing.T, hub, member *fleettest.Part) {
	const free, large = 16 << 20, 900 << 10
	hub.Kill()
	database, err := os.Stat(filepath.Join(hub.Dir, "etcd", "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	hub.Start(t, fmt.Sprintf("--storage-quota=%d", database.Size()+free))
	g := &ground{t: t, hub: hub.Cluster, member: member.Cluster, cluster: "member1", ns: namespace(t, hub.Cluster, "full")}
	everything := fleettest.Policy(g.ns, "everything", fleettest.To(g.cluster))
	everything.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
	fleettest.Create(t, hub.Cluster, everything)
	g.put("kept", 4, "1")
	g.put("dropped", 2, "1")
	g.converges()

	filler := namespace(t, hub.Cluster, "filler")
	text := map[string]string{"filler": strings.Repeat("x", large)}
	full := func(err error) bool { return err != nil && strings.Contains(err.Error(), "database space exceeded") }
	kept := fleettest.ConfigMap(g.ns, "kept-0", map[string]string{"value": "2"})
	created := 0
	// A full database is shrunk after a while, which may free enough for some more objects, also between two of these requests.
	eventually(t, "the database is full, and the control plane reports it", func(ctx context.Context) error {
		var err error
		for ; err == nil; created++ {
			if created > 2*int(database.Size()+free)/large {
				t.Fatal("the quota has no effect")
			}
			err = hub.Create(ctx, fleettest.ConfigMap(filler, fmt.Sprintf("large-%d", created), text))
		}
		if !full(err) {
			return fmt.Errorf("a write to a full database: %w", err)
		}
		if answer, err := served(ctx, hub.Cluster, "/readyz"); err == nil || !strings.Contains(answer, "[-]storage failed: the database is at its quota") {
			return fmt.Errorf("a control plane that cannot write is ready: %s, %w", answer, err)
		}
		if answer, err := served(ctx, hub.Cluster, "/metrics/flagship"); err != nil || !strings.Contains(answer, "\nflagship_storage_full 1\n") {
			return fmt.Errorf("its metrics do not have that: %w", err)
		}
		if err := change(ctx, hub.Cluster, kept); !full(err) {
			return fmt.Errorf("an update of a template: %w", err)
		}
		return nil
	})
	fleettest.Delete(t, member.Cluster, fleettest.ConfigMap(g.ns, "kept-1", nil))
	fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap(g.ns, "kept-1", nil), func(c *corev1.ConfigMap) error {
		return same("value", "1", c.Data["value"])
	})
	g.drop("dropped", 2)

	eventually(t, "the large objects are deleted", func(ctx context.Context) error {
		return hub.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(filler))
	})
	eventually(t, "a template is updated", func(ctx context.Context) error { return change(ctx, hub.Cluster, kept) })
	eventually(t, "it reports that it writes again", func(ctx context.Context) error {
		if answer, err := served(ctx, hub.Cluster, "/readyz"); err != nil {
			return fmt.Errorf("it is not ready: %s, %w", answer, err)
		}
		answer, err := served(ctx, hub.Cluster, "/metrics/flagship")
		if err == nil && (!strings.Contains(answer, "\nflagship_storage_full 0\n") || strings.Contains(answer, "flagship_storage_defragmentations_total{result=\"done\"} 0")) {
			err = errors.New("its metrics do not have what it did")
		}
		return err
	})
	g.put("late", 2, "1")
	g.converges()
}

// served is what a control plane answers at a path.
func served(ctx context.Context, hub *fleettest.Cluster, path string) (string, error) {
	c, err := discovery.NewDiscoveryClientForConfig(hub.Config)
	if err != nil {
		return "", err
	}
	answer, err := c.RESTClient().Get().AbsPath(path).DoRaw(ctx)
	return string(answer), err
}

func same[T comparable](what string, want, got T) error {
	if want != got {
		return fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return nil
}

// pause lets processes go on for a while.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// mess writes at random until the control plane is gone.
type mess struct {
	hub    *fleettest.Cluster
	ns     string
	random *rand.Rand
	begun  chan struct{} // closed with the first write
	writes chan int      // how many there were
}

func newMess(hub *fleettest.Cluster, ns string, seed uint64) *mess {
	return &mess{hub: hub, ns: ns, random: rand.New(rand.NewPCG(seed, 0)), begun: make(chan struct{}), writes: make(chan int, 1)}
}

func (m *mess) make(ctx context.Context) {
	writes := 0
	for ctx.Err() == nil {
		err := m.write(ctx)
		switch {
		case err == nil && writes == 0:
			close(m.begun)
			fallthrough
		case err == nil:
			writes++
		case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown: // no API server answers
			pause(ctx, 50*time.Millisecond)
		}
	}
	m.writes <- writes
}

// write is one write. Refusals are part of it: what there is to create exists, what there is to delete does not.
func (m *mess) write(ctx context.Context) error {
	data := map[string]string{"n": strconv.Itoa(m.random.IntN(1000))}
	var object client.Object = fleettest.ConfigMap(m.ns, fmt.Sprintf("template-%02d", m.random.IntN(templates)), data)
	if m.random.IntN(4) == 0 {
		object = byHand("member1", m.ns, fmt.Sprintf("by-hand-%d", m.random.IntN(works)), 1+m.random.IntN(3), data)
	}
	switch m.random.IntN(4) {
	case 0:
		return m.hub.Delete(ctx, object)
	case 1:
		return m.hub.Create(ctx, object)
	default:
		return change(ctx, m.hub, object)
	}
}

// change updates an object to what is given, or creates it.
func change(ctx context.Context, hub *fleettest.Cluster, object client.Object) error {
	present := object.DeepCopyObject().(client.Object)
	if err := hub.Get(ctx, client.ObjectKeyFromObject(object), present); apierrors.IsNotFound(err) {
		return hub.Create(ctx, object)
	} else if err != nil {
		return err
	}
	switch wanted := object.(type) {
	case *corev1.ConfigMap:
		present.(*corev1.ConfigMap).Data = wanted.Data
	case *workv1alpha1.Work:
		present.(*workv1alpha1.Work).Spec = wanted.Spec
	}
	return hub.Update(ctx, present)
}
