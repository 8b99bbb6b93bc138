package preview_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/preview"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

type object = map[string]any

func unstructuredOf(o object) *unstructured.Unstructured {
	return (&unstructured.Unstructured{Object: o}).DeepCopy()
}

// random makes fleets and changes of them.
type random struct{ *rand.Rand }

func (r random) one(of ...string) string { return of[r.IntN(len(of))] }

func named(kind, version, namespace, name string) object {
	meta := object{"name": name, "uid": kind + "/" + namespace + "/" + name, "creationTimestamp": "2026-01-02T03:04:05Z"}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	return object{"apiVersion": version, "kind": kind, "metadata": meta}
}

func (r random) cluster(i int) object {
	c := named("Cluster", "cluster.karmada.io/v1alpha1", "", fmt.Sprintf("m%d", i))
	c["metadata"].(object)["labels"] = object{"region": r.one("east", "west")}
	spec := object{"syncMode": "Push"}
	if r.IntN(4) == 0 {
		spec["taints"] = []any{object{"key": r.one("a", "b"), "effect": r.one("NoSchedule", "NoExecute")}}
	}
	c["spec"] = spec
	c["status"] = object{
		"conditions": []any{object{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}},
		"apiEnablements": []any{
			object{"groupVersion": "v1", "resources": []any{object{"name": "configmaps", "kind": "ConfigMap"}}},
			object{"groupVersion": "apps/v1", "resources": []any{object{"name": "deployments", "kind": "Deployment"}}},
		},
	}
	return c
}

func (r random) template(i int) object {
	name := fmt.Sprintf("t%d", i)
	labels := object{"app": name, "tier": r.one("front", "back")}
	if i%3 == 0 {
		o := named("ConfigMap", "v1", "shop", name)
		o["metadata"].(object)["labels"], o["data"] = labels, object{"key": r.one("x", "y", "z")}
		return o
	}
	o := named("Deployment", "apps/v1", "shop", name)
	o["metadata"].(object)["labels"] = labels
	pod := object{"containers": []any{object{"name": "c", "image": r.one("web:1", "web:2")}}}
	if r.IntN(3) == 0 {
		pod["volumes"] = []any{object{"name": "v", "configMap": object{"name": r.one("t0", "t3")}}}
	}
	o["spec"] = object{"replicas": int64(r.IntN(6)), "selector": object{"matchLabels": object{"app": name}}, "template": object{"metadata": object{"labels": object{"app": name}}, "spec": pod}}
	return o
}

func (r random) affinity() object {
	switch r.IntN(4) {
	case 0:
		return object{"clusterNames": []any{"m0", "m2"}}
	case 1:
		return object{"labelSelector": object{"matchLabels": object{"region": r.one("east", "west")}}}
	case 2:
		return object{"exclude": []any{r.one("m0", "m1")}}
	}
	return object{}
}

func (r random) policy(i int) object {
	kind, namespace := "PropagationPolicy", "shop"
	if r.IntN(3) == 0 {
		kind, namespace = "ClusterPropagationPolicy", ""
	}
	p := named(kind, "policy.karmada.io/v1alpha1", namespace, fmt.Sprintf("p%d", i))
	placement := object{"clusterAffinity": r.affinity()}
	if r.IntN(2) == 0 {
		placement["clusterTolerations"] = []any{object{"key": "a", "operator": "Exists"}}
	}
	if r.IntN(2) == 0 {
		placement["replicaScheduling"] = object{
			"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
			"weightPreference": object{"staticWeightList": []any{
				object{"targetCluster": object{"clusterNames": []any{"m0"}}, "weight": int64(1 + r.IntN(3))},
				object{"targetCluster": object{"clusterNames": []any{"m1", "m2"}}, "weight": int64(1 + r.IntN(3))},
			}},
		}
	}
	selector := object{"apiVersion": "apps/v1", "kind": "Deployment"}
	switch r.IntN(3) {
	case 0:
		selector["name"] = fmt.Sprintf("t%d", r.IntN(5))
	case 1:
		selector["labelSelector"] = object{"matchLabels": object{"tier": r.one("front", "back")}}
	}
	spec := object{
		"resourceSelectors": []any{selector, object{"apiVersion": "v1", "kind": "ConfigMap", "name": fmt.Sprintf("t%d", 3*r.IntN(2))}},
		"placement":         placement, "propagateDeps": r.IntN(2) == 0, "priority": int64(r.IntN(3)), "preemption": r.one("Always", "Never"),
	}
	if r.IntN(2) == 0 {
		spec["failover"] = object{"cluster": object{"purgeMode": r.one("Gracefully", "Directly")}}
	}
	p["spec"] = spec
	return p
}

func (r random) override(i int) object {
	o := named("OverridePolicy", "policy.karmada.io/v1alpha1", "shop", fmt.Sprintf("o%d", i))
	o["spec"] = object{
		"resourceSelectors": []any{object{"apiVersion": "apps/v1", "kind": "Deployment"}},
		"overrideRules": []any{object{
			"targetCluster": r.affinity(),
			"overriders":    object{"labelsOverrider": []any{object{"operator": "add", "value": object{"edited": r.one("x", "y")}}}},
		}},
	}
	return o
}

// fleet is a control plane with some of everything.
func (r random) fleet() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for i := range 2 + r.IntN(3) {
		all = append(all, unstructuredOf(r.cluster(i)))
	}
	for i := range 1 + r.IntN(3) {
		all = append(all, unstructuredOf(r.policy(i)))
	}
	for i := range r.IntN(2) {
		all = append(all, unstructuredOf(r.override(i)))
	}
	for i := range 1 + r.IntN(5) {
		all = append(all, unstructuredOf(r.template(i)))
	}
	return all
}

// change is one to three objects that are applied, or deleted if there are such.
func (r random) change(fleet []*unstructured.Unstructured) fleetv1alpha1.PreviewSpec {
	var spec fleetv1alpha1.PreviewSpec
	seen := map[string]bool{} // an object is named once
	first := func(o object) bool {
		key := fmt.Sprint(o["kind"], o["metadata"].(object)["namespace"], o["metadata"].(object)["name"])
		defer func() { seen[key] = true }()
		return !seen[key]
	}
	for range 1 + r.IntN(3) {
		var o object
		switch r.IntN(6) {
		case 0:
			o = r.cluster(r.IntN(3))
			delete(o, "status") // it is that of the cluster
		case 1:
			o = r.policy(r.IntN(4))
		case 2:
			o = r.override(r.IntN(2))
		case 3:
			gone := fleet[r.IntN(len(fleet))]
			if gone.GetKind() != "Cluster" && first(gone.Object) {
				spec.Delete = append(spec.Delete, fleetv1alpha1.ObjectIdentity{APIVersion: gone.GetAPIVersion(), Kind: gone.GetKind(), Namespace: gone.GetNamespace(), Name: gone.GetName()})
			}
			continue
		default:
			o = r.template(r.IntN(6))
		}
		if !first(o) {
			continue
		}
		raw, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		spec.Apply = append(spec.Apply, runtime.RawExtension{Raw: raw})
	}
	if len(spec.Apply)+len(spec.Delete) == 0 {
		return r.change(fleet)
	}
	return spec
}

// control is a control plane in memory that has a fleet.
func control(ctx context.Context, kinds *preview.Kinds, fleet []*unstructured.Unstructured, salt string) (*preview.Offline, preview.Config, error) {
	var ids atomic.Int64
	config := preview.Config{Clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), Salt: salt, NewID: func() string {
		return fmt.Sprintf("00000000-0000-4000-8000-%012d", ids.Add(1))
	}}
	hub, err := preview.NewOffline(ctx, kinds, fleet, config)
	return hub, config, err
}

// outcome makes a change with the loops of a run, and returns what differs then.
func outcome(ctx context.Context, run *preview.Run, hub *preview.Offline, spec fleetv1alpha1.PreviewSpec) (fleetv1alpha1.PreviewStatus, error) {
	var status fleetv1alpha1.PreviewStatus
	if err := run.Change(ctx, &spec, hub, &status); err != nil {
		return status, err
	}
	if err := run.Settle(ctx); err != nil {
		return status, err
	}
	_, err := run.Answer(ctx, brake.Config{}, func(explain.Right) bool { return true }, &status)
	status.Warnings = nil // which events the loops publish depends on their order
	return status, err
}

// previewed is the answer of a preview on the control plane, which leaves it as it is.
func previewed(ctx context.Context, kinds *preview.Kinds, hub *preview.Offline, config preview.Config, spec fleetv1alpha1.PreviewSpec) (fleetv1alpha1.PreviewStatus, error) {
	config.Hub, config.Templates, config.Interpreter, config.Versions = hub.Hub, hub.Templates, kinds.Interpreter(), preview.OneVersion{}
	run, err := preview.New(ctx, config)
	if err != nil {
		return fleetv1alpha1.PreviewStatus{}, err
	}
	run.Mark()
	return outcome(ctx, run, hub, spec)
}

// TestWhatIsPreviewedComes: a preview leaves the control plane as it is, and when the change is made, in whatever order the loops
// reconcile, what was previewed comes.
func TestWhatIsPreviewedComes(t *testing.T) {
	fleets := uint64(1000)
	if testing.Short() {
		fleets = 200
	}
	kinds, err := preview.ReadKinds(clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for seed := range fleets {
		r := random{rand.New(rand.NewPCG(seed, 1))}
		fleet := r.fleet()
		spec := r.change(fleet)
		hub, config, err := control(t.Context(), kinds, fleet, fmt.Sprint(seed))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		config.Salt = ""
		before := hub.Hub.Version() + hub.Templates.Version()
		want, err := previewed(t.Context(), kinds, hub, config, spec)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if hub.Hub.Version()+hub.Templates.Version() != before {
			t.Fatalf("seed %d: the preview wrote to the control plane", seed)
		}
		if len(want.Placements)+len(want.Copies) > 0 {
			changed++
		}
		got, err := outcome(t.Context(), hub.Run, hub, spec)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			text, err := json.MarshalIndent(spec, "", " ")
			t.Fatalf("seed %d: -previewed +applied\n%s\n%s %v", seed, diff, text, err)
		}
	}
	if changed < int(fleets)/3 {
		t.Errorf("only %d of %d changes move anything", changed, fleets)
	}
}
