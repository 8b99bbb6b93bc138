// Package soak_test runs a mix of everything that users do and everything that fails, by a seed, for as long as the environment sets.
package soak_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// forVariable has how long the test runs, as a Go duration; without it the test is skipped. seedVariable has the seed; without it one is
	// chosen and printed.
	forVariable, seedVariable = "FLAGSHIP_SOAK", "FLAGSHIP_SOAK_SEED"

	ns = "soak"
	// image is that of Deployments, without the tag, which is their value.
	image = "example.com/image:"
	// stepsOfARound are what users do between two checks.
	stepsOfARound = 15
	// faultsOfARound happen meanwhile.
	faultsOfARound = 2
	// maxObjects bounds the objects that exist at one time.
	maxObjects = 60
	// patience is how long everything may take to be as it should be after the last fault of a round.
	patience = 2 * time.Minute
	// warmUp is the number of rounds after which memory and goroutines must not grow any more.
	warmUp = 5
	// pause is how long the control plane is paused: longer than its clients and members wait for a sign of life.
	pause = 3 * time.Second
	// growth is by how much both may be larger than after the rounds of warmUp.
	growth = 1.6
)

// TestSoak does what users do, by a seed, in three members: one beside the control plane, one behind a network that fails, one with an agent.
// Meanwhile processes are killed and paused and connections cut. After each round of that everything must be as it should: every object in
// its clusters and nowhere else, with its content, the same object as before unless a user deleted it; no Work and no object is left over;
// objects of others are as they were; neither memory nor goroutines grow.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv(forVariable))
	if err != nil {
		t.Skipf("set %s to how long it runs, such as 10m", forVariable)
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	s := newSoak(t, rand.New(rand.NewPCG(seed, seed)))
	var resident, goroutines float64
	began := time.Now()
	rounds := 0
	for ; time.Since(began) < length; rounds++ {
		s.round()
		if t.Failed() {
			t.Fatalf("round %d of seed %d: %v", rounds, seed, s.log)
		}
		now, running := fleettest.ReadMetric(t, s.hub.Cluster, "process_resident_memory_bytes"), fleettest.ReadMetric(t, s.hub.Cluster, "go_goroutines")
		if rounds <= warmUp {
			resident, goroutines = max(resident, now), max(goroutines, running)
		} else if now > growth*resident || running > growth*goroutines {
			t.Errorf("resident memory has grown from %.0f to %.0f MB, goroutines from %.0f to %.0f", resident/1e6, now/1e6, goroutines, running)
		}
	}
	t.Logf("seed %d: %d rounds, %d steps, faults %v, at most %.0f MB and %.0f goroutines", seed, rounds, s.steps, s.faults, resident/1e6, goroutines)
}

// soak is the fleet and what should be in it.
type soak struct {
	t       *testing.T
	rand    *rand.Rand
	hub     *fleettest.Part
	members map[string]*fleettest.Part
	link    *fleettest.Link
	agent   *fleettest.Agent
	objects map[string]*expected
	foreign map[string]string
	next    int
	log     []string
	// disturbed are the members that are killed or paused in this round.
	disturbed map[string]bool
	steps     int
	faults    map[string]int
}

// expected is an object of users.
type expected struct {
	kind     string
	value    string
	clusters map[string]bool
	// uids are those of its copies at the last check, by cluster; a copy that a user deleted has none.
	uids map[string]types.UID
}

var names = []string{"near", "far", "pulled"}

func newSoak(t *testing.T, rnd *rand.Rand) *soak {
	s := &soak{t: t, rand: rnd, members: map[string]*fleettest.Part{}, objects: map[string]*expected{}, foreign: map[string]string{}, faults: map[string]int{}}
	s.hub = fleettest.StartHub(t, "--enable-bootstrap-token-auth", "--cluster-probe-period=1s", "--cluster-failure-threshold=2s", "--cluster-success-threshold=1s")
	for _, name := range names {
		s.members[name] = fleettest.StartMember(t, name, "--bare")
	}
	s.hub.Join(t, "near", s.members["near"].Kubeconfig)
	s.link = fleettest.StartLink(t, s.members["far"].Cluster)
	s.hub.Join(t, "far", s.link.Kubeconfig)
	s.agent = s.hub.StartAgent(t, "pulled", s.members["pulled"].Kubeconfig)
	fleettest.Create(t, s.hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	for name, member := range s.members {
		fleettest.ExpectEventually(t, member.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
		theirs := fleettest.ConfigMap(ns, "foreign", map[string]string{"whose": "theirs"})
		fleettest.Create(t, member.Cluster, theirs)
		s.foreign[name] = theirs.ResourceVersion
	}
	return s
}

// round does the steps of users and the faults between them, ends all faults, and checks.
func (s *soak) round() {
	s.log, s.disturbed = nil, map[string]bool{}
	var ends []func()
	for i := range stepsOfARound {
		if i%(stepsOfARound/faultsOfARound) == 0 && len(ends) < faultsOfARound {
			ends = append(ends, s.fault())
		}
		s.step()
	}
	for _, end := range ends {
		end()
	}
	s.check()
}

// note is for who reads a failure.
func (s *soak) note(format string, args ...any) { s.log = append(s.log, fmt.Sprintf(format, args...)) }

// fault begins one and returns what ends it.
func (s *soak) fault() (end func()) {
	faults := map[string]func() func(){
		"kill the control plane":       func() func() { s.hub.Kill(); s.hub.Start(s.t); return func() {} },
		"kill a member":                func() func() { m := s.member(); m.Kill(); return func() { m.Start(s.t) } },
		"pause a member":               func() func() { m := s.member(); m.Pause(s.t); return func() { m.Resume(s.t) } },
		"kill the agent":               func() func() { s.agent.Kill(); return func() { s.agent.Start(s.t) } },
		"hold the network":             func() func() { return s.trouble(fleettest.Trouble{Held: true}) },
		"lose connections":             func() func() { return s.trouble(fleettest.Trouble{Lost: true}) },
		"cut connections":              func() func() { return s.trouble(fleettest.Trouble{Cut: 32 << 10}) },
		"slow the network":             func() func() { return s.trouble(fleettest.Trouble{Delay: 100 * time.Millisecond}) },
		"kill the control plane twice": func() func() { s.hub.Kill(); s.hub.Start(s.t); s.hub.Kill(); s.hub.Start(s.t); return func() {} },
		"pause the control plane":      func() func() { s.hub.Pause(s.t); <-time.After(pause); s.hub.Resume(s.t); return func() {} },
	}
	name := s.pick(slices.Sorted(maps.Keys(faults)))
	s.note("%s", name)
	s.faults[name]++
	return faults[name]()
}

func (s *soak) trouble(of fleettest.Trouble) func() {
	s.link.Set(of)
	return func() { s.link.Set(fleettest.Trouble{}) }
}

// member is one that is killed or paused, and is not yet.
func (s *soak) member() *fleettest.Part {
	free := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return s.disturbed[name] })
	name := s.pick(free)
	s.disturbed[name] = true
	s.note("  it is %s", name)
	return s.members[name]
}

func (s *soak) pick(from []string) string { return from[s.rand.IntN(len(from))] }

// step is something that a user does on the control plane. Users in members act in check, when all members can be reached.
func (s *soak) step() {
	s.steps++
	present := slices.Sorted(maps.Keys(s.objects))
	action := s.rand.IntN(10)
	switch {
	case len(present) == 0 || action < 4 && len(present) < maxObjects:
		s.create()
	case action < 7:
		name := s.pick(present)
		s.objects[name].value = fmt.Sprint(s.rand.IntN(1000))
		s.note("change %s to %s", name, s.objects[name].value)
		s.try(func() error { return s.write(name) })
	case action < 8:
		s.move(s.pick(present))
	default:
		name := s.pick(present)
		s.note("delete %s", name)
		o := s.object(name)
		s.try(func() error { return client.IgnoreNotFound(s.hub.Delete(s.t.Context(), o)) })
		s.try(func() error {
			return client.IgnoreNotFound(s.hub.Delete(s.t.Context(), fleettest.Policy(ns, name, fleettest.To())))
		})
		delete(s.objects, name)
	}
}

// try repeats a request until the API server has answered it: it may be starting.
func (s *soak) try(request func() error) {
	s.t.Helper()
	if err := retry.OnError(wait.Backoff{Duration: 100 * time.Millisecond, Steps: 300}, func(error) bool { return true }, request); err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) create() {
	kind := s.pick([]string{"ConfigMap", "ConfigMap", "Secret", "Deployment"})
	s.next++
	name := fmt.Sprintf("o-%d", s.next)
	o := &expected{kind: kind, value: fmt.Sprint(s.rand.IntN(1000)), clusters: map[string]bool{}, uids: map[string]types.UID{}}
	o.clusters = s.targets()
	if kind == "Deployment" {
		// A copy that leaves waits for healthy ones elsewhere, which members without controllers never have.
		o.clusters = map[string]bool{"near": true, "far": true, "pulled": true}
	}
	s.objects[name] = o
	s.note("create %s %s in %v", kind, name, slices.Sorted(maps.Keys(o.clusters)))
	s.try(func() error { return client.IgnoreAlreadyExists(s.hub.Create(s.t.Context(), s.policy(name))) })
	s.try(func() error { return s.write(name) })
}

// move selects other clusters for an object.
func (s *soak) move(name string) {
	o := s.objects[name]
	if o.kind == "Deployment" {
		return
	}
	o.clusters = s.targets()
	s.note("move %s to %v", name, slices.Sorted(maps.Keys(o.clusters)))
	s.try(func() error {
		present := &policyv1alpha1.PropagationPolicy{}
		if err := s.hub.Get(s.t.Context(), types.NamespacedName{Namespace: ns, Name: name}, present); err != nil {
			return err
		}
		present.Spec.Placement = s.policy(name).Spec.Placement
		return s.hub.Update(s.t.Context(), present)
	})
}

// targets are some clusters, at least one.
func (s *soak) targets() map[string]bool {
	chosen := map[string]bool{s.pick(names): true}
	for _, cluster := range names {
		if s.rand.IntN(3) == 0 {
			chosen[cluster] = true
		}
	}
	return chosen
}

func (s *soak) policy(name string) *policyv1alpha1.PropagationPolicy {
	policy := fleettest.Policy(ns, name, fleettest.To(slices.Sorted(maps.Keys(s.objects[name].clusters))...), s.object(name))
	metav1.SetMetaDataAnnotation(&policy.ObjectMeta, policyv1alpha1.PurgeModeAnnotation, "Directly")
	return policy
}

// object is an object of users as it should be.
func (s *soak) object(name string) client.Object {
	o := s.objects[name]
	switch o.kind {
	case "Secret":
		return fleettest.Secret(ns, name, map[string]string{"value": o.value})
	case "Deployment":
		d := fleettest.Deployment(ns, name, 1)
		d.Spec.Template.Spec.Containers[0].Image = image + o.value
		return d
	}
	return fleettest.ConfigMap(ns, name, map[string]string{"value": o.value})
}

// write creates an object or gives it its value.
func (s *soak) write(name string) error {
	wanted := s.object(name)
	present := wanted.DeepCopyObject().(client.Object)
	err := s.hub.Get(s.t.Context(), client.ObjectKeyFromObject(wanted), present)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		return s.hub.Create(s.t.Context(), wanted)
	}
	wanted.SetResourceVersion(present.GetResourceVersion())
	wanted.SetLabels(present.GetLabels())
	wanted.SetAnnotations(present.GetAnnotations())
	return s.hub.Update(s.t.Context(), wanted)
}

// check waits until everything is as it should be, has users of members delete and change some copies, and waits again.
func (s *soak) check() {
	for _, cluster := range names {
		fleettest.ExpectEventually(s.t, s.hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}, func(c *clusterv1alpha1.Cluster) error {
			return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
		})
	}
	if s.settles(true); s.t.Failed() {
		return
	}
	for range 2 {
		s.meddle()
	}
	s.settles(false)
}

// meddle has a user of a member delete or change a copy.
func (s *soak) meddle() {
	present := slices.Sorted(maps.Keys(s.objects))
	if len(present) == 0 {
		return
	}
	name := s.pick(present)
	o := s.objects[name]
	if o.kind != "ConfigMap" || len(o.clusters) == 0 {
		return
	}
	cluster := s.pick(slices.Sorted(maps.Keys(o.clusters)))
	s.note("a user of %s meddles with %s", cluster, name)
	if s.rand.IntN(2) == 0 {
		delete(o.uids, cluster)
		fleettest.Delete(s.t, s.members[cluster].Cluster, s.object(name))
		return
	}
	fleettest.Update(s.t, s.members[cluster].Cluster, fleettest.ConfigMap(ns, name, nil), func(c *corev1.ConfigMap) { c.Data["value"] = "theirs" })
}

// settles waits until everything is as it should be. With same, a copy must be the object that it was.
func (s *soak) settles(same bool) {
	s.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.t.Context(), 250*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = s.wrong(ctx)
		return last == nil, nil
	})
	if err != nil {
		s.t.Errorf("%v: %v", err, last)
		return
	}
	for _, cluster := range names {
		copies, err := s.copies(s.t.Context(), cluster)
		if err != nil {
			s.t.Error(err)
			return
		}
		for name, copied := range copies {
			before, known := s.objects[name].uids[cluster]
			if same && known && before != copied.GetUID() {
				s.t.Errorf("%s in %s was deleted and created again, and no user did that", name, cluster)
			}
			s.objects[name].uids[cluster] = copied.GetUID()
		}
		for name, o := range s.objects {
			if copies[name] == nil {
				delete(o.uids, cluster)
			}
		}
	}
}

// wrong returns what is not as it should be.
func (s *soak) wrong(ctx context.Context) error {
	var bindings workv1alpha2.ResourceBindingList
	if err := s.hub.List(ctx, &bindings, client.InNamespace(ns)); err != nil {
		return err
	}
	for i := range bindings.Items {
		if b := &bindings.Items[i]; s.objects[b.Spec.Resource.Name] == nil {
			return fmt.Errorf("the binding %s is left over: metadata %+v, spec.resource %+v", b.Name, b.ObjectMeta, b.Spec.Resource)
		}
	}
	if len(bindings.Items) != len(s.objects) {
		return fmt.Errorf("%d objects have %d bindings", len(s.objects), len(bindings.Items))
	}
	for _, cluster := range names {
		var works workv1alpha1.WorkList
		if err := s.hub.List(ctx, &works, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster))); err != nil {
			return err
		}
		ours := 0
		for i := range works.Items {
			if works.Items[i].Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation] == ns {
				ours++
			}
		}
		copies, err := s.copies(ctx, cluster)
		if err != nil {
			return err
		}
		wanted := 0
		for name, o := range s.objects {
			switch copied := copies[name]; {
			case !o.clusters[cluster] && copied != nil:
				return fmt.Errorf("%s is in %s", name, cluster)
			case !o.clusters[cluster]:
			case copied == nil:
				return fmt.Errorf("%s is not in %s", name, cluster)
			case valueOf(copied) != o.value:
				return fmt.Errorf("%s in %s has %q, want %q", name, cluster, valueOf(copied), o.value)
			default:
				wanted++
			}
		}
		if len(copies) != wanted || ours != wanted {
			return fmt.Errorf("%s has %d copies and %d Works of %d objects", cluster, len(copies), ours, wanted)
		}
		theirs := fleettest.ConfigMap(ns, "foreign", nil)
		if err := s.members[cluster].Get(ctx, client.ObjectKeyFromObject(theirs), theirs); err != nil {
			return err
		}
		if theirs.ResourceVersion != s.foreign[cluster] {
			return fmt.Errorf("the object of others in %s has changed", cluster)
		}
	}
	return nil
}

// copies are the managed objects of a member, by name.
func (s *soak) copies(ctx context.Context, cluster string) (map[string]client.Object, error) {
	all := map[string]client.Object{}
	var maps corev1.ConfigMapList
	var secrets corev1.SecretList
	var deployments appsv1.DeploymentList
	var errs []error
	for _, list := range []client.ObjectList{&maps, &secrets, &deployments} {
		errs = append(errs, s.members[cluster].List(ctx, list, client.InNamespace(ns), client.MatchingLabels{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue}))
	}
	for i := range maps.Items {
		all[maps.Items[i].Name] = &maps.Items[i]
	}
	for i := range secrets.Items {
		all[secrets.Items[i].Name] = &secrets.Items[i]
	}
	for i := range deployments.Items {
		all[deployments.Items[i].Name] = &deployments.Items[i]
	}
	return all, errors.Join(errs...)
}

func valueOf(obj client.Object) string {
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		return o.Data["value"]
	case *corev1.Secret:
		return string(o.Data["value"])
	case *appsv1.Deployment:
		return strings.TrimPrefix(o.Spec.Template.Spec.Containers[0].Image, image)
	}
	return ""
}
