package preview_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/host/preview/offline"
)

// edit changes an object of a test.
func edit(o object, edits ...func(object)) object {
	for _, e := range edits {
		e(o)
	}
	return o
}

// spec sets a field of the spec.
func spec(field string, value any) func(object) {
	return func(o object) {
		if o["spec"] == nil {
			o["spec"] = object{}
		}
		o["spec"].(object)[field] = value
	}
}

// meta sets a label or an annotation.
func meta(field, key, value string) func(object) {
	return func(o object) {
		all, _ := o["metadata"].(object)[field].(object)
		if all == nil {
			all = object{}
		}
		all[key] = value
		o["metadata"].(object)[field] = all
	}
}

// member is a cluster that is ready and serves the kinds of the tests.
func member(name string, edits ...func(object)) object {
	c := named("Cluster", "cluster.karmada.io/v1alpha1", "", name)
	c["spec"] = object{"syncMode": "Push"}
	c["status"] = object{
		"conditions": []any{object{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}},
		"apiEnablements": []any{
			object{"groupVersion": "v1", "resources": []any{object{"name": "configmaps", "kind": "ConfigMap"}, object{"name": "services", "kind": "Service"}}},
			object{"groupVersion": "apps/v1", "resources": []any{object{"name": "deployments", "kind": "Deployment"}}},
			object{"groupVersion": "autoscaling/v2", "resources": []any{object{"name": "horizontalpodautoscalers", "kind": "HorizontalPodAutoscaler"}}},
		},
	}
	return edit(c, edits...)
}

func notReady(o object) {
	o["status"].(object)["conditions"] = []any{object{"type": "Ready", "status": "False", "reason": "Down", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}}
}

// web is a Deployment, and divided a policy that gives each of its clusters an equal part of it.
func web(edits ...func(object)) object {
	o := named("Deployment", "apps/v1", "shop", "web")
	o["spec"] = object{"replicas": int64(4), "selector": object{"matchLabels": object{"app": "web"}}, "template": object{
		"metadata": object{"labels": object{"app": "web"}}, "spec": object{"containers": []any{object{"name": "c", "image": "web:1"}}},
	}}
	return edit(o, edits...)
}

func divided(edits ...func(object)) object {
	p := named("PropagationPolicy", "policy.karmada.io/v1alpha1", "shop", "web")
	p["spec"] = object{
		"resourceSelectors": []any{object{"apiVersion": "apps/v1", "kind": "Deployment"}, object{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}},
		"propagateDeps":     true,
		"placement":         object{"replicaScheduling": object{"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}},
		"failover":          object{"cluster": object{"purgeMode": "Gracefully"}},
	}
	return edit(p, edits...)
}

// selecting is a policy that takes all objects of a kind in its namespace to every cluster.
func selecting(version, kind string) object {
	return edit(named("PropagationPolicy", "policy.karmada.io/v1alpha1", "shop", "all"), spec("placement", object{}),
		spec("resourceSelectors", []any{object{"apiVersion": version, "kind": kind}}))
}

// serving has a member serve one more kind.
func serving(cluster object, version, kind string) object {
	status := cluster["status"].(object)
	status["apiEnablements"] = append(status["apiEnablements"].([]any), object{
		"groupVersion": version, "resources": []any{object{"name": strings.ToLower(kind) + "s", "kind": kind}},
	})
	return cluster
}

// weighted has a policy name equal weights.
func weighted(o object) {
	o["spec"].(object)["placement"].(object)["replicaScheduling"].(object)["weightPreference"] = object{"staticWeightList": []any{
		object{"targetCluster": object{"clusterNames": []any{"m0", "m1"}}, "weight": int64(1)},
	}}
}

// tolerating has a policy tolerate NoExecute taints for a while.
func tolerating(tolerations ...any) func(object) {
	return func(o object) { o["spec"].(object)["placement"].(object)["clusterTolerations"] = tolerations }
}

func toleration(key string, seconds int64) object {
	return object{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
}

// endless is a toleration without an end, of all effects if that is "".
func endless(key, effect string) object {
	return object{"key": key, "operator": "Exists", "effect": effect}
}

// lasting takes cluster failover from a policy: nothing is evicted.
func lasting(o object) { delete(o["spec"].(object), "failover") }

func tainted(keys ...string) func(object) {
	var taints []any
	for _, key := range keys {
		taints = append(taints, object{"key": key, "effect": "NoExecute"})
	}
	return spec("taints", taints)
}

// applied is a change that applies objects, and deleted one that deletes them.
func applied(t *testing.T, objects ...object) fleetv1alpha1.PreviewSpec {
	t.Helper()
	var change fleetv1alpha1.PreviewSpec
	for _, o := range objects {
		delete(o, "status")
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		change.Apply = append(change.Apply, runtime.RawExtension{Raw: raw})
	}
	return change
}

func deleted(objects ...object) fleetv1alpha1.PreviewSpec {
	var change fleetv1alpha1.PreviewSpec
	for _, o := range objects {
		u := unstructuredOf(o)
		change.Delete = append(change.Delete, fleetv1alpha1.ObjectIdentity{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()})
	}
	return change
}

// lines is an answer as texts.
func lines(status *fleetv1alpha1.PreviewStatus) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, strings.TrimSpace(fmt.Sprintf(format, args...))) }
	when := func(seconds int64) string {
		if seconds == 0 {
			return ""
		}
		return fmt.Sprintf(" after %d", seconds)
	}
	for _, r := range status.Refused {
		add("refused %s: %s", r.Object.Name, r.Message)
	}
	for _, c := range status.Taints {
		add("taints %s +%v -%v", c.Cluster, c.Added, c.Removed)
	}
	for _, p := range status.Placements {
		for i := range p.Clusters {
			c := &p.Clusters[i]
			add("%s in %s: %s to %s%s", p.Object.Name, c.Name, number(c.From), number(c.To), when(c.AfterSeconds))
		}
		if p.Message != "" {
			add("%s waits: %s", p.Object.Name, p.Message)
		}
	}
	for i := range status.Copies {
		c := &status.Copies[i]
		add("%s %s %s in %s%s %s", c.Action, c.Object.Kind, c.Object.Name, strings.Join(c.Clusters, ","), when(c.AfterSeconds), c.Message)
	}
	for i := range status.Brakes {
		add("%s %s %s", status.Brakes[i].Condition, status.Brakes[i].Cluster, status.Brakes[i].Reason)
	}
	for _, w := range status.Warnings {
		add("warning %s", w)
	}
	return out
}

func number(n *int32) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// TestEffects: what the answers about changes of all kinds have. Wanted lines may be the beginning of one.
func TestEffects(t *testing.T) {
	kinds, err := offline.ReadKinds(clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	shop := named("Namespace", "v1", "", "shop")
	deletes := meta("annotations", "flagship.io/on-removal", "DeleteObjects")
	script := func(rule string, lua string) object {
		o := named("ResourceInterpreterCustomization", "config.karmada.io/v1alpha1", "", "mine")
		o["spec"] = object{"target": object{"apiVersion": "apps/v1", "kind": "Deployment"}, "customizations": object{rule: object{"luaScript": lua}}}
		return o
	}
	taintPolicy := func(conditions, effect string) object {
		o := named("ClusterTaintPolicy", "policy.karmada.io/v1alpha1", "", "repairs")
		o["spec"] = object{
			"targetClusters": object{"clusterNames": []any{"m0"}}, "taints": []any{object{"key": "repair", "effect": effect}},
			conditions: []any{object{"conditionType": "Ready", "operator": "In", "statusValues": []any{"True"}}},
		}
		return o
	}
	hpa := named("HorizontalPodAutoscaler", "autoscaling/v2", "shop", "web")
	hpa["spec"] = object{"scaleTargetRef": object{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": int64(2), "maxReplicas": int64(9)}
	service := edit(named("Service", "v1", "shop", "front"), spec("ports", []any{object{"port": int64(80)}}), spec("selector", object{"app": "web"}))
	exposed := edit(named("MultiClusterService", "networking.karmada.io/v1alpha1", "shop", "front"), spec("types", []any{"CrossCluster"}),
		spec("providerClusters", []any{object{"name": "m0"}}), spec("consumerClusters", []any{object{"name": "m1"}}))
	for name, tc := range map[string]struct {
		fleet  []object
		change fleetv1alpha1.PreviewSpec
		want   []string
		// never is in no line.
		never string
	}{
		"a Cluster that leaves keeps its objects": {
			[]object{member("m0"), member("m1"), divided(), web()}, deleted(member("m0")),
			[]string{"web in m0: 2 to -", "web in m1: 2 to 4", "Delete Deployment web in m0 it stays in the cluster: the Cluster lacks the annotation", "Update Deployment web in m1"}, "",
		},
		"with the annotation they are deleted": {
			[]object{member("m0", deletes), member("m1"), divided(), web()}, deleted(member("m0")),
			[]string{"web in m0: 2 to -", "web in m1: 2 to 4", "Delete Deployment web in m0", "Update Deployment web in m1"}, "stays",
		},
		"one that is not ready has them stay": {
			[]object{member("m0", deletes, notReady), member("m1"), divided(lasting), web()}, deleted(member("m0")),
			[]string{"web in m0: 2 to -", "Delete Deployment web in m0 it stays in the cluster, which is not ready", "warning Cluster m0: The cluster is not ready"}, "",
		},
		"the last Cluster leaves": {
			[]object{member("m0"), divided(), web()}, deleted(member("m0")), []string{"web in m0: 4 to -", "web waits: "}, "",
		},
		"a namespace that is deleted takes all in it along": {
			[]object{shop, member("m0"), divided(), web()}, deleted(shop),
			[]string{"web in m0: 4 to -", "Delete Namespace shop in m0 the cluster deletes all that the namespace has", "Delete Deployment web in m0"}, "",
		},
		"one of the control plane is not computed": {
			[]object{named("Namespace", "v1", "", "karmada-es-m0"), member("m0"), divided(), web()}, deleted(named("Namespace", "v1", "", "karmada-es-m0")),
			[]string{"warning Namespace karmada-es-m0: what its deletion does is not computed: it is a namespace of the control plane"}, "",
		},
		"a toleration delays an eviction": {
			[]object{member("m0"), member("m1"), divided(tolerating(toleration("repair", 300))), web()}, applied(t, member("m0", tainted("repair"))),
			[]string{"web in m0: 2 to - after 300", "web in m1: 2 to 4 after 300", "Update Deployment web in m1 after 300"}, "",
		},
		"the shortest one counts": {
			[]object{member("m0"), member("m1"), divided(tolerating(toleration("repair", 300), toleration("slow", 60))), web()}, applied(t, member("m0", tainted("repair", "slow"))),
			[]string{"web in m0: 2 to - after 60", "web in m1: 2 to 4 after 60"}, "",
		},
		"without one it happens at once": {
			[]object{member("m0"), member("m1"), divided(), web()}, applied(t, member("m0", tainted("repair"))),
			[]string{"web in m0: 2 to -", "web in m1: 2 to 4"}, "after",
		},
		"with weights that are written down it does not return": {
			[]object{member("m0"), member("m1"), divided(tolerating(toleration("repair", 300)), weighted), web()}, applied(t, member("m0", tainted("repair"))),
			[]string{"web in m0: 2 to - after 300", "web in m1: 2 to 4 after 300", "Delete Deployment web in m0 after 300"}, "warning",
		},
		"nor if another toleration has no end": {
			[]object{member("m0"), member("m1"), divided(tolerating(toleration("repair", 300), endless("repair", "")), weighted), web()}, applied(t, member("m0", tainted("repair"))),
			[]string{"web in m0: 2 to - after 300", "web in m1: 2 to 4 after 300"}, "warning",
		},
		"a toleration without an end keeps it": {
			[]object{member("m0"), member("m1"), divided(tolerating(endless("repair", "NoExecute")), weighted), web()}, applied(t, member("m0", tainted("repair"))), nil, "web in",
		},
		"a toleration with an end brings nothing": {
			[]object{member("m0"), member("m1", tainted("repair")), divided(tolerating(toleration("repair", 1<<30)), weighted)}, applied(t, web()),
			[]string{"web in m0: - to 4"}, "m1",
		},
		"but where the taint evicts nothing": {
			[]object{member("m0"), member("m1", tainted("repair")), divided(tolerating(toleration("repair", 300)), weighted, lasting)}, applied(t, web()),
			[]string{"web in m0: - to 2", "web in m1: - to 2"}, "",
		},
		"a cluster that fails gets nothing, though its taint is tolerated": {
			[]object{member("m0"), member("m1", notReady), divided(tolerating(endless("cluster.karmada.io/not-ready", "NoSchedule")), weighted)}, applied(t, web()),
			[]string{"web in m0: - to 4"}, "m1",
		},
		"but of what does not leave it": {
			[]object{member("m0"), member("m1", notReady), divided(tolerating(endless("cluster.karmada.io/not-ready", "NoSchedule")), weighted, lasting)}, applied(t, web()),
			[]string{"web in m0: - to 2", "web in m1: - to 2"}, "",
		},
		"more than the share of the fleet waits": {
			[]object{member("m0"), member("m1"), member("m2"), divided(), web()}, applied(t, member("m0", tainted("repair")), member("m1", tainted("repair"))),
			[]string{"EvictionHeld m1 FleetShareExceeded"}, "",
		},
		"a ClusterTaintPolicy has objects leave": {
			[]object{member("m0"), member("m1"), divided(tolerating(toleration("repair", 90))), web()}, applied(t, taintPolicy("addOnConditions", "NoExecute")),
			[]string{"taints m0 +[repair:NoExecute] -[]", "web in m0: 2 to - after 90", "web in m1: 2 to 4 after 90"}, "",
		},
		"one that removes taints": {
			[]object{member("m0", spec("taints", []any{object{"key": "repair", "effect": "NoSchedule"}})), member("m1"), divided(), web()},
			applied(t, taintPolicy("removeOnConditions", "NoSchedule")), []string{"taints m0 +[] -[repair:NoSchedule]"}, "",
		},
		"taints that a change sets itself are no news": {
			[]object{member("m0"), member("m1"), divided(), web()}, applied(t, member("m0", tainted("repair"))), nil, "taints",
		},
		"a customization has other replicas": {
			[]object{member("m0"), member("m1"), divided(), web()}, applied(t, script("replicaResource", "function GetReplicas(obj) return obj.spec.replicas * 2, {} end")),
			[]string{"web in m0: 2 to 4", "web in m1: 2 to 4", "Update Deployment web in m0,m1"}, "",
		},
		"a customization renders otherwise": {
			[]object{member("m0"), divided(), web()}, applied(t, script("replicaRevision", "function ReviseReplica(obj, n) obj.spec.replicas = n + 3 return obj end")),
			[]string{"Update Deployment web in m0"}, "",
		},
		"a customization has another dependency": {
			[]object{member("m0"), divided(), web(), edit(named("ConfigMap", "v1", "shop", "settings"))},
			applied(t, script("dependencyInterpretation", `function GetDependencies(obj) return {{apiVersion = "v1", kind = "ConfigMap", namespace = "shop", name = "settings"}} end`)),
			[]string{"settings in m0: - to 0", "Create ConfigMap settings in m0"}, "",
		},
		"one that is deleted": {
			[]object{member("m0"), member("m1"), divided(), web(), script("replicaResource", "function GetReplicas(obj) return obj.spec.replicas * 2, {} end")},
			deleted(script("replicaResource", "")), []string{"web in m0: 4 to 2", "web in m1: 4 to 2"}, "",
		},
		"rules about members are not followed": {
			[]object{member("m0"), divided(), web()}, applied(t, script("retention", "function Retain(a, b) return a end")),
			[]string{"warning ResourceInterpreterCustomization mine: what its retention does is not computed"}, "",
		},
		"an autoscaler keeps the replicas of members": {
			[]object{member("m0"), divided(), web()}, applied(t, hpa),
			[]string{
				"Create HorizontalPodAutoscaler web in m0", "Update Deployment web in m0",
				"warning HorizontalPodAutoscaler shop/web: in each member that has it and Deployment web, it owns spec.replicas there and keeps it from 2 to 9",
			}, "",
		},
		"a user's kind below karmada.io is followed": {
			[]object{serving(member("m0"), "workload.example.karmada.io/v1", "Sail"), selecting("workload.example.karmada.io/v1", "Sail")},
			applied(t, named("Sail", "workload.example.karmada.io/v1", "shop", "main")), []string{"Create Sail main in m0"}, "warning",
		},
		"a kind that is never propagated is not": {
			[]object{serving(member("m0"), "coordination.k8s.io/v1", "Lease"), selecting("coordination.k8s.io/v1", "Lease")},
			applied(t, named("Lease", "coordination.k8s.io/v1", "shop", "main")),
			[]string{"warning Lease shop/main: what this object does is not computed"}, "Create",
		},
		"nothing acts on a FederatedHPA": {
			[]object{member("m0"), divided(), web()}, applied(t, edit(named("FederatedHPA", "autoscaling.karmada.io/v1alpha1", "shop", "web"),
				spec("scaleTargetRef", object{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}), spec("maxReplicas", int64(3)))),
			[]string{"warning FederatedHPA shop/web: what this object does is not computed: FederatedHPA is stored, but nothing acts on it yet"}, "",
		},
		"a MultiClusterService brings its Service": {
			[]object{member("m0"), member("m1"), member("m2"), service}, applied(t, exposed),
			[]string{
				"front in m0: - to 0", "front in m1: - to 0", "Create Service front in m0,m1",
				"warning MultiClusterService shop/front: which endpoints it brings to clusters is not computed",
			}, "m2",
		},
		"and takes it along": {
			[]object{member("m0"), member("m1"), service, exposed}, deleted(exposed), []string{"front in m0: 0 to -", "front in m1: 0 to -", "Delete Service front in m0,m1"}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := make([]*unstructured.Unstructured, 0, len(tc.fleet))
			for _, o := range tc.fleet {
				fleet = append(fleet, unstructuredOf(o))
			}
			hub, err := control(t.Context(), kinds, fleet, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := heal(t.Context(), hub, func() bool { return true }); err != nil {
				t.Fatal(err)
			}
			status, err := previewed(t.Context(), hub, tc.change)
			if err != nil {
				t.Fatal(err)
			}
			got := lines(&status)
			for _, want := range tc.want {
				if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
					t.Errorf("no line begins with %q in\n%s", want, strings.Join(got, "\n"))
				}
			}
			if tc.never != "" && strings.Contains(strings.Join(got, "\n"), tc.never) {
				t.Errorf("%q is in\n%s", tc.never, strings.Join(got, "\n"))
			}
		})
	}
}

// TestObjectsComeToRest: an object that leaves a cluster does not return as long as it would be evicted again.
func TestObjectsComeToRest(t *testing.T) {
	kinds, err := offline.ReadKinds(clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	const notReadyKey = "cluster.karmada.io/not-ready"
	for name, tc := range map[string]struct {
		tolerations []any
		cluster     object
	}{
		"tolerated for a time that is over": {[]any{toleration("repair", 0)}, member("m0", tainted("repair"))},
		"tolerated twice":                   {[]any{toleration("repair", 0), endless("repair", "")}, member("m0", tainted("repair"))},
		"not ready":                         {[]any{toleration(notReadyKey, 0), endless(notReadyKey, "NoSchedule")}, member("m0", notReady)},
	} {
		for division, edits := range map[string][]func(object){"weighted": {weighted}, "equal": nil, "duplicated": {func(o object) {
			delete(o["spec"].(object)["placement"].(object), "replicaScheduling")
		}}} {
			t.Run(name+"/"+division, func(t *testing.T) {
				policy := divided(append(edits, tolerating(tc.tolerations...))...)
				hub, err := control(t.Context(), kinds, []*unstructured.Unstructured{
					unstructuredOf(member("m0")), unstructuredOf(member("m1")), unstructuredOf(member("m2")), unstructuredOf(policy), unstructuredOf(web()),
				}, "")
				if err != nil {
					t.Fatal(err)
				}
				if err := heal(t.Context(), hub, func() bool { return true }); err != nil {
					t.Fatal(err)
				}
				cluster, before := &clusterv1alpha1.Cluster{}, &clusterv1alpha1.Cluster{}
				if err := hub.Hub.Get(t.Context(), client.ObjectKey{Name: "m0"}, before); err != nil {
					t.Fatal(err)
				}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(unstructuredOf(tc.cluster).Object, cluster); err != nil {
					t.Fatal(err)
				}
				cluster.ResourceVersion, cluster.UID = before.ResourceVersion, before.UID
				after := cluster.DeepCopy()
				if err := hub.Hub.Update(t.Context(), cluster); err != nil {
					t.Fatal(err)
				}
				after.ResourceVersion = cluster.ResourceVersion
				if err := hub.Hub.Status().Update(t.Context(), after); err != nil {
					t.Fatal(err)
				}
				if err := hub.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
				bound, err := hubclient.Bindings(t.Context(), hub.Hub)
				if err != nil || len(bound) != 1 {
					t.Fatalf("there are %d bindings: %v", len(bound), err)
				}
				if spec := bound[0].BindingSpec(); len(spec.GracefulEvictionTasks) > 0 || slices.ContainsFunc(spec.Clusters, func(c workv1alpha2.TargetCluster) bool { return c.Name == "m0" }) {
					t.Errorf("the object is in %v, and leaves %v", spec.Clusters, spec.GracefulEvictionTasks)
				}
				if generation := bound[0].GetGeneration(); generation > 8 {
					t.Errorf("the binding has generation %d", generation)
				}
			})
		}
	}
}

// TestAPreviewEnds: what is computed in memory ends when the request does, too, with an error.
func TestAPreviewEnds(t *testing.T) {
	kinds, err := offline.ReadKinds(clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	hub, err := control(t.Context(), kinds, []*unstructured.Unstructured{unstructuredOf(member("m1")), unstructuredOf(web())}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	raw, err := json.Marshal(web(spec("replicas", int64(5))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := previewed(ctx, hub, fleetv1alpha1.PreviewSpec{Apply: []runtime.RawExtension{{Raw: raw}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("the preview ends with %v", err)
	}
}
