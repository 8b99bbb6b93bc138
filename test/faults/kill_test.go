package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/fleettest"
)

const (
	// seedVar names the environment variable with the seed of a run to repeat.
	seedVar = "FLAGSHIP_FAULT_SEED"
	// kills is how often the control plane is killed.
	kills = 20
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

// The control plane is killed at random points, also while it starts, and templates and Works come, change and go
// meanwhile. What is stored in the end is what the member has.
func TestControlPlaneKilledAgainAndAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(seed(t), 0))
	hub := fleettest.StartHub(t)
	member := fleettest.StartMember(t, "member1", "--bare")
	hub.Join(t, "member1", member.Kubeconfig)
	ns := namespace(t, hub.Cluster, "chaos")
	everything := fleettest.Policy(ns, "everything", fleettest.Everywhere())
	everything.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
	fleettest.Create(t, hub.Cluster, everything)
	foreign := standBy(t, member.Cluster, "bystanders")

	ops := 0
	for kill := range kills {
		if kill > 0 && random.IntN(3) == 0 {
			// While it starts.
			hub.Launch(t)
			pause(t.Context(), time.Duration(random.Int64N(int64(3*time.Second))))
			hub.Kill()
			continue
		}
		if kill > 0 {
			hub.Start(t)
		}
		working, stop := context.WithCancel(t.Context())
		done := make(chan int)
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		go func() { done <- mess(working, hub.Cluster, ns, own) }()
		pause(t.Context(), time.Duration(random.Int64N(int64(1500*time.Millisecond))))
		hub.Kill()
		stop()
		ops += <-done
	}
	t.Logf("%d writes between %d kills", ops, kills)

	hub.Start(t)
	expectConverged(t, hub.Cluster, member.Cluster, "member1", foreign)
	eventually(t, "every template has one binding and one Work, and nothing else has", func(ctx context.Context) error {
		return sameCounts(ctx, hub.Cluster, ns)
	})
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

// mess writes at random until the control plane is gone, and returns how often.
func mess(ctx context.Context, hub *fleettest.Cluster, ns string, random *rand.Rand) (ops int) {
	for ; ctx.Err() == nil; ops++ {
		data := map[string]string{"n": strconv.Itoa(random.IntN(1000))}
		var object client.Object = fleettest.ConfigMap(ns, fmt.Sprintf("template-%02d", random.IntN(templates)), data)
		if random.IntN(4) == 0 {
			object = byHand("member1", "chaos", fmt.Sprintf("by-hand-%d", random.IntN(works)), 1+random.IntN(3), data)
		}
		// Refusals are part of it: what there is to create exists, what there is to delete does not.
		switch random.IntN(4) {
		case 0:
			_ = hub.Delete(ctx, object)
		case 1:
			_ = hub.Create(ctx, object)
		default:
			change(ctx, hub, object)
		}
	}
	return ops
}

// change updates an object to what is given, or creates it.
func change(ctx context.Context, hub *fleettest.Cluster, object client.Object) {
	present := object.DeepCopyObject().(client.Object)
	if hub.Get(ctx, client.ObjectKeyFromObject(object), present) != nil {
		_ = hub.Create(ctx, object)
		return
	}
	switch wanted := object.(type) {
	case *corev1.ConfigMap:
		present.(*corev1.ConfigMap).Data = wanted.Data
	case *workv1alpha1.Work:
		present.(*workv1alpha1.Work).Spec = wanted.Spec
	}
	_ = hub.Update(ctx, present)
}

func sameCounts(ctx context.Context, hub *fleettest.Cluster, ns string) error {
	var maps corev1.ConfigMapList
	var bindings workv1alpha2.ResourceBindingList
	var all workv1alpha1.WorkList
	for _, list := range []client.ObjectList{&maps, &bindings} {
		if err := hub.List(ctx, list, client.InNamespace(ns)); err != nil {
			return err
		}
	}
	if err := hub.List(ctx, &all, client.InNamespace(workv1alpha1.ExecutionNamespace("member1"))); err != nil {
		return err
	}
	ours := 0
	for i := range all.Items {
		if all.Items[i].Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation] == ns {
			ours++
		}
	}
	if len(bindings.Items) != len(maps.Items) || ours != len(maps.Items) {
		return fmt.Errorf("%d templates have %d bindings and %d Works", len(maps.Items), len(bindings.Items), ours)
	}
	for i := range bindings.Items {
		if err := fleettest.ConditionTrue(bindings.Items[i].Status.Conditions, workv1alpha2.FullyApplied); err != nil {
			return fmt.Errorf("%s: %w", bindings.Items[i].Name, err)
		}
	}
	return nil
}
