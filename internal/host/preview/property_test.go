package preview_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/host/preview"
	"github.com/flagship-k8s/flagship/internal/host/preview/offline"
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
	if r.IntN(3) == 0 {
		c["metadata"].(object)["annotations"] = object{"flagship.io/on-removal": "DeleteObjects"}
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
	switch r.IntN(4) {
	case 0:
		placement["clusterTolerations"] = []any{object{"key": "a", "operator": "Exists"}}
	case 1, 2:
		placement["clusterTolerations"] = []any{
			object{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(30 * r.IntN(100))},
			object{"key": "b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(3600)},
		}
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
	if r.IntN(3) > 0 {
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

// taintPolicy taints clusters of a region, or takes the taint off.
func (r random) taintPolicy(i int) object {
	o := named("ClusterTaintPolicy", "policy.karmada.io/v1alpha1", "", fmt.Sprintf("x%d", i))
	ready := []any{object{"conditionType": "Ready", "operator": "In", "statusValues": []any{"True"}}}
	spec := object{
		"targetClusters": object{"labelSelector": object{"matchLabels": object{"region": r.one("east", "west")}}},
		"taints":         []any{object{"key": r.one("a", "b"), "effect": r.one("NoSchedule", "NoExecute")}},
	}
	spec[r.one("addOnConditions", "removeOnConditions")] = ready
	o["spec"] = spec
	return o
}

// customization has every Deployment refer to a ConfigMap, or have another number of replicas.
func (r random) customization(i int) object {
	o := named("ResourceInterpreterCustomization", "config.karmada.io/v1alpha1", "", fmt.Sprintf("c%d", i))
	rules := object{"dependencyInterpretation": object{"luaScript": `function GetDependencies(obj)
  return {{apiVersion = "v1", kind = "ConfigMap", namespace = obj.metadata.namespace, name = "` + r.one("t0", "t3") + `"}}
end`}}
	if r.IntN(2) == 0 {
		rules = object{"replicaResource": object{"luaScript": "function GetReplicas(obj) return " + r.one("1", "4") + ", {} end"}}
	}
	o["spec"] = object{"target": object{"apiVersion": "apps/v1", "kind": "Deployment"}, "customizations": rules}
	return o
}

// fleet is a control plane with some of everything.
func (r random) fleet() []*unstructured.Unstructured {
	all := []*unstructured.Unstructured{unstructuredOf(named("Namespace", "v1", "", "shop"))}
	for i := range 2 + r.IntN(3) {
		all = append(all, unstructuredOf(r.cluster(i)))
	}
	for i := range 1 + r.IntN(3) {
		all = append(all, unstructuredOf(r.policy(i)))
	}
	for i := range r.IntN(2) {
		all = append(all, unstructuredOf(r.override(i)))
	}
	if r.IntN(6) == 0 {
		all = append(all, unstructuredOf(r.taintPolicy(0)))
	}
	if r.IntN(6) == 0 {
		all = append(all, unstructuredOf(r.customization(0)))
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
		switch r.IntN(8) {
		case 6:
			o = r.taintPolicy(r.IntN(2))
		case 7:
			o = r.customization(r.IntN(2))
		case 0:
			o = r.cluster(r.IntN(3))
			delete(o, "status") // it is that of the cluster
			if r.IntN(2) == 0 {
				o["spec"].(object)["taints"] = []any{object{"key": r.one("a", "b"), "effect": "NoExecute"}}
			}
		case 1:
			o = r.policy(r.IntN(4))
		case 2:
			o = r.override(r.IntN(2))
		case 3:
			gone := fleet[r.IntN(len(fleet))]
			if first(gone.Object) {
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
func control(ctx context.Context, kinds *offline.Kinds, fleet []*unstructured.Unstructured, salt string) (*offline.Control, error) {
	var ids atomic.Int64
	config := preview.Config{Clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), Salt: salt, NewID: func() string {
		return fmt.Sprintf("00000000-0000-4000-8000-%012d", ids.Add(1))
	}}
	return offline.New(ctx, kinds, fleet, config)
}

// heal has every member report healthy copies of the bindings that are chosen.
func heal(ctx context.Context, hub *offline.Control, chosen func() bool) error {
	bound, err := hubclient.Bindings(ctx, hub.Hub)
	if err != nil {
		return err
	}
	var clusters clusterv1alpha1.ClusterList
	if err := hub.Hub.List(ctx, &clusters); err != nil {
		return err
	}
	for _, binding := range bound {
		if !chosen() {
			continue
		}
		for i := range clusters.Items {
			binding.BindingStatus().AggregatedStatus = append(binding.BindingStatus().AggregatedStatus,
				workv1alpha2.AggregatedStatusItem{ClusterName: clusters.Items[i].Name, Applied: true, Health: workv1alpha2.ResourceHealthy})
		}
		if err := hub.Hub.Status().Update(ctx, binding.(client.Object)); err != nil {
			return err
		}
	}
	if err := hub.Settle(ctx); err != nil {
		return err
	}
	hub.Mark()
	return nil
}

// outcome makes a change with the loops of a run, and returns what differs then.
func outcome(ctx context.Context, run *preview.Run, hub *offline.Control, spec fleetv1alpha1.PreviewSpec) (fleetv1alpha1.PreviewStatus, error) {
	var status fleetv1alpha1.PreviewStatus
	if err := run.Change(ctx, &spec, hub, &status); err != nil {
		return status, err
	}
	_, err := run.Answer(ctx, brake.Config{}, func(explain.Right) bool { return true }, &status)
	return status, err
}

// previewed is the answer of a preview on the control plane, which leaves it as it is.
func previewed(ctx context.Context, hub *offline.Control, spec fleetv1alpha1.PreviewSpec) (fleetv1alpha1.PreviewStatus, error) {
	config := hub.Upon()
	config.Salt = ""
	run, err := preview.New(ctx, config)
	if err != nil {
		return fleetv1alpha1.PreviewStatus{}, err
	}
	run.Mark()
	return outcome(ctx, run, hub, spec)
}

// TestWhatIsPreviewedComes: a preview leaves the control plane as it is, and when the change is made, in whatever order the loops
// reconcile, what was previewed comes. FLAGSHIP_PREVIEW_FLEETS is how many fleets there are, and FLAGSHIP_PREVIEW_FROM the seed of the
// first one.
func TestWhatIsPreviewedComes(t *testing.T) {
	fleets := uint64(3000)
	if testing.Short() {
		fleets = 300
	}
	fleets, from := setting(t, "FLAGSHIP_PREVIEW_FLEETS", fleets), setting(t, "FLAGSHIP_PREVIEW_FROM", 0)
	kinds, err := offline.ReadKinds(clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	var moved, delayed, clusters, spaces atomic.Int64
	t.Run("fleets", func(t *testing.T) {
		for part := range uint64(shards) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := from + part; seed < from+fleets; seed += shards {
					spec, status := agrees(t, kinds, seed)
					for counter, has := range map[*atomic.Int64]bool{
						&moved: len(status.Placements)+len(status.Copies) > 0, &clusters: deletes(spec, "Cluster"), &spaces: deletes(spec, "Namespace"),
						&delayed: slices.ContainsFunc(status.Copies, func(c fleetv1alpha1.PreviewCopy) bool { return c.AfterSeconds > 0 }),
					} {
						if has {
							counter.Add(1)
						}
					}
				}
			})
		}
	})
	if from > 0 {
		return // a part of the fleets need not have some of everything
	}
	for what, counter := range map[string]*atomic.Int64{"move anything": &moved, "are delayed": &delayed, "delete a Cluster": &clusters, "delete a namespace": &spaces} {
		least := int64(fleets) / 100
		if counter == &moved {
			least = int64(fleets) / 3
		}
		if counter.Load() < least {
			t.Errorf("only %d of %d changes %s", counter.Load(), fleets, what)
		}
	}
}

// TestWhatWasPreviewedWronglyComes: seeds that differed once, and are not among the first ones.
func TestWhatWasPreviewedWronglyComes(t *testing.T) {
	kinds, err := offline.ReadKinds(clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range []uint64{5123, 6812, 7905, 11754, 15226, 15516} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { agrees(t, kinds, seed) })
	}
}

// setting is a number of the environment, and a default without it.
func setting(t *testing.T, name string, value uint64) uint64 {
	t.Helper()
	if text := os.Getenv(name); text != "" {
		var err error
		if value, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return value
}

// shards is how many parts of the fleets are tested at the same time.
const shards = 4

// deletes returns whether a change deletes an object of a kind.
func deletes(spec fleetv1alpha1.PreviewSpec, kind string) bool {
	return slices.ContainsFunc(spec.Delete, func(id fleetv1alpha1.ObjectIdentity) bool { return id.Kind == kind })
}

// agrees previews and makes the change of one fleet, and returns the change and the answer.
func agrees(t *testing.T, kinds *offline.Kinds, seed uint64) (fleetv1alpha1.PreviewSpec, fleetv1alpha1.PreviewStatus) {
	t.Helper()
	r := random{rand.New(rand.NewPCG(seed, 1))}
	fleet := r.fleet()
	spec := r.change(fleet)
	hub, err := control(t.Context(), kinds, fleet, fmt.Sprint(seed))
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if err := heal(t.Context(), hub, func() bool { return r.IntN(2) == 0 }); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	before := hub.Hub.Version() + hub.Templates.Version()
	want, err := previewed(t.Context(), hub, spec)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if hub.Hub.Version()+hub.Templates.Version() != before {
		t.Fatalf("seed %d: the preview wrote to the control plane", seed)
	}
	got, err := outcome(t.Context(), hub.Run, hub, spec)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	want.Warnings, got.Warnings = nil, nil // which events the loops publish depends on their order
	if diff := cmp.Diff(want, got); diff != "" {
		text, err := json.MarshalIndent(spec, "", " ")
		t.Fatalf("seed %d: -previewed +applied\n%s\n%s %v", seed, diff, text, err)
	}
	return spec, want
}
