package declarative_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

func TestReplicas(t *testing.T) {
	i := interpreter("GetReplicas", `
local kube = require("kube")
function GetReplicas(obj)
  return obj.spec.size, kube.accuratePodRequirements(obj.spec.template)
end`)
	got, err := i.Replicas(context.Background(), thing(t,
		"{spec: {size: 3, template: {spec: {nodeSelector: {a: b}, tolerations: [], containers: [{name: a, resources: {requests: {cpu: 100m}}}, {name: b, resources: {limits: {cpu: 1}}}]}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	want := interpret.ReplicaResult{Known: true, Replicas: 3, Requirements: &workv1alpha2.ReplicaRequirements{
		NodeClaim:       &workv1alpha2.NodeClaim{NodeSelector: map[string]string{"a": "b"}},
		ResourceRequest: corev1.ResourceList{"cpu": resource.MustParse("1100m")},
		Namespace:       "shop",
	}}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestReplicasWithHandMadeRequirements(t *testing.T) {
	i := interpreter("GetReplicas", `
function GetReplicas(obj)
  return 2, {resourceRequest = {cpu = kube.resourceAdd("100m", "1", 2)}, nodeClaim = {nodeSelector = {}, tolerations = {}}}
end`)
	got, err := i.Replicas(context.Background(), thing(t, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	if cpu := got.Requirements.ResourceRequest["cpu"]; got.Replicas != 2 || cpu.Cmp(resource.MustParse("3100m")) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestReplicasThatAreNone(t *testing.T) {
	for name, script := range map[string]string{
		"nothing":         "function GetReplicas(obj) end",
		"text":            "function GetReplicas(obj) return 'three' end",
		"negative":        "function GetReplicas(obj) return -1 end",
		"a fraction":      "function GetReplicas(obj) return 1.5 end",
		"more than fits":  "function GetReplicas(obj) return 2^40 end",
		"no requirements": "function GetReplicas(obj) return 1, 'cpu' end",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := interpreter("GetReplicas", script).Replicas(context.Background(), thing(t, "{}")); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
}

func TestComponents(t *testing.T) {
	i := interpreter("GetComponents", `
function GetComponents(obj)
  local components = {}
  for name, part in pairs(obj.spec) do
    table.insert(components, {name = name, replicas = part.size, replicaRequirements = kube.accuratePodRequirements(part.template)})
  end
  table.sort(components, function(a, b) return a.name < b.name end)
  return components
end`)
	got, err := i.Components(context.Background(), thing(t,
		"{spec: {worker: {size: 4, template: {spec: {containers: [{name: a, resources: {requests: {cpu: 2}}}]}}}, master: {size: 1, template: {spec: {}}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	want := []workv1alpha2.Component{
		{Name: "master", Replicas: 1},
		{Name: "worker", Replicas: 4, ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{
			ResourceRequest: corev1.ResourceList{"cpu": resource.MustParse("2")},
		}},
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestReviseKeepsTheRest(t *testing.T) {
	i := interpreter("ReviseReplica", `
function ReviseReplica(obj, desiredReplica)
  obj.spec.size = desiredReplica
  obj.spec.parts[1] = nil
  return obj
end`)
	obj := thing(t, "{metadata: {annotations: {}}, spec: {size: 1, ratio: 0.5, big: 9007199254740991, parts: [a], none: [], empty: {}, nested: [[], {}]}}")
	before := obj.DeepCopy()
	got, err := i.Revise(context.Background(), obj, 7)
	if err != nil {
		t.Fatal(err)
	}
	want := thing(t, "{metadata: {annotations: {}}, spec: {size: 7, ratio: 0.5, big: 9007199254740991, parts: [], none: [], empty: {}, nested: [[], {}]}}")
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(before.Object, obj.Object); diff != "" {
		t.Errorf("the argument changed:\n%s", diff)
	}
}

func TestRetain(t *testing.T) {
	i := interpreter("Retain", `
function Retain(desiredObj, observedObj)
  desiredObj.spec.paused = observedObj.spec.paused
  desiredObj.spec.hosts = {}
  return desiredObj
end`)
	got, err := i.Retain(context.Background(), thing(t, "{spec: {size: 1, hosts: [a]}}"), thing(t, "{spec: {size: 5, paused: true}}"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(thing(t, "{spec: {size: 1, paused: true, hosts: []}}").Object, got.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnswersThatAreNoObject(t *testing.T) {
	for name, script := range map[string]string{
		"nothing":      "function Retain(a, b) end",
		"a list":       "function Retain(a, b) return {1} end",
		"another name": "function Retain(a, b) a.metadata.name = 'y' return a end",
		"another kind": "function Retain(a, b) a.kind = 'Secret' return a end",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := interpreter("Retain", script).Retain(context.Background(), thing(t, "{}"), thing(t, "{}")); err == nil {
				t.Errorf("got %v, want an error", got)
			}
		})
	}
}

func TestAggregate(t *testing.T) {
	i := interpreter("AggregateStatus", `
function AggregateStatus(desiredObj, statusItems)
  local ready = 0
  for i = 1, #statusItems do
    if statusItems[i].status ~= nil then ready = ready + statusItems[i].status.ready end
  end
  desiredObj.status = {ready = ready, clusters = #statusItems}
  desiredObj.spec = nil
  return desiredObj
end`)
	items := []workv1alpha2.AggregatedStatusItem{
		{ClusterName: "m1", Status: &runtime.RawExtension{Raw: []byte(`{"ready":2}`)}},
		{ClusterName: "m2", Status: &runtime.RawExtension{Raw: []byte(`{"ready":3}`)}},
		{ClusterName: "m3"},
	}
	template := thing(t, "{spec: {size: 5}}")
	got, err := i.Aggregate(context.Background(), template, items)
	if err != nil {
		t.Fatal(err)
	}
	want := thing(t, "{spec: {size: 5}, status: {ready: 5, clusters: 3}}")
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	again, err := i.Aggregate(context.Background(), got, items)
	if err != nil || again != got {
		t.Errorf("an equal status gave another object: %v, %v", again, err)
	}
}

func TestReflect(t *testing.T) {
	i := interpreter("ReflectStatus", "function ReflectStatus(observedObj) return observedObj.status end")
	got, err := i.Reflect(context.Background(), thing(t, "{status: {ready: 1, conditions: [], extra: {}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"conditions":[],"extra":{},"ready":1}`; string(got.Raw) != want {
		t.Errorf("got %s, want %s", got.Raw, want)
	}
	if got, err := i.Reflect(context.Background(), thing(t, "{}")); err != nil || got != nil {
		t.Errorf("got %v, %v; want no status", got, err)
	}
}

func TestHealth(t *testing.T) {
	i := interpreter("InterpretHealth", "function InterpretHealth(observedObj) return observedObj.status.ready end")
	for text, want := range map[string]workv1alpha2.ResourceHealth{
		"{status: {ready: true}}":  workv1alpha2.ResourceHealthy,
		"{status: {ready: false}}": workv1alpha2.ResourceUnhealthy,
	} {
		if got, err := i.Health(context.Background(), thing(t, text)); err != nil || got != want {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"{status: {}}", "{status: {ready: 1}}", "{}"} {
		if got, err := i.Health(context.Background(), thing(t, text)); err == nil || got != workv1alpha2.ResourceUnknown {
			t.Errorf("%s: got %s, %v; want Unknown and an error", text, got, err)
		}
	}
}

func TestDependencies(t *testing.T) {
	i := interpreter("GetDependencies", `
local kube = require("kube")
function GetDependencies(desiredObj)
  local list = kube.getPodDependencies(desiredObj.spec.template, desiredObj.metadata.namespace)
  table.insert(list, {apiVersion = "v1", kind = "Secret", namespace = "shop", labelSelector = {matchLabels = {a = "b"}}})
  table.insert(list, {apiVersion = "v1", kind = "ConfigMap", namespace = "shop", name = "a"})
  return list
end`)
	got, err := i.Dependencies(context.Background(), thing(t,
		"{spec: {template: {spec: {containers: [], volumes: [{name: v, configMap: {name: a}}, {name: w, secret: {secretName: s}}]}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	want := []interpret.Dependency{
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "a"},
		{APIVersion: "v1", Kind: "Secret", Namespace: "shop", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "s"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestErrorsNameCustomizationAndLine(t *testing.T) {
	_, err := interpreter("InterpretHealth", "function InterpretHealth(obj)\n  return obj.status.conditions[1].status\nend").
		Health(context.Background(), thing(t, "{status: {}}"))
	wantError(t, err, "Thing shop/x")
	wantError(t, err, "customization c")
	wantError(t, err, ":2:")
}

// TestLargeIntegers: what a script passes on has all of its digits, and what it makes is an integer.
func TestLargeIntegers(t *testing.T) {
	i := interpreter("ReflectStatus", "function ReflectStatus(obj) return {a = obj.status.a, b = obj.status.b, list = obj.status.list, made = 2^60, small = obj.status.small + 1, half = 0.5} end")
	got, err := i.Reflect(context.Background(), thing(t, "{status: {a: 9223372036854775807, b: -9007199254740993, list: [1234567890123456789], small: 1}}"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":9223372036854775807,"b":-9007199254740993,"half":0.5,"list":[1234567890123456789],"made":1152921504606846976,"small":2}`
	if string(got.Raw) != want {
		t.Errorf("got %s, want %s", got.Raw, want)
	}
}
