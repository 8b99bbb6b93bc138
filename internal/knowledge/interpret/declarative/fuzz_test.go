package declarative_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// FuzzScripts runs any script on any object, for every question. It ends within its budget, and the object stays as it was.
func FuzzScripts(f *testing.F) {
	for _, body := range []string{
		"return true", "while true do end", "return string.rep('a', 1e9)", "return obj.spec.replicas, {}",
		"obj.metadata.name = 'other' obj.kind = 'Secret' return obj",
		"return {{apiVersion = 'v1', kind = 'Secret', namespace = 'kube-system', name = obj.metadata.name}}",
		"local kube = require('kube') return kube.accuratePodRequirements(obj.spec)",
		"local t = {} t.t = t return t", "for k, v in pairs(obj) do obj[k] = v .. obj end return obj", "return obj.spec[1].a.b",
		"local t = {} while true do t[#t + 1] = {} end", "local s = 'a' while true do s = s .. s end", "local t = {} while true do t[#t + 1] = string.rep('a', 60) end",
		"return string.find(string.rep('a', 1000), string.rep('a*', 100) .. 'b')", "error({})",
	} {
		f.Add(body, []byte(`{"spec": {"replicas": 3, "list": [1, "a", null, {"b": 1.5}]}, "status": {"a": true}}`))
	}
	f.Fuzz(func(t *testing.T, body string, data []byte) {
		content := map[string]any{}
		if utiljson.Unmarshal(data, &content) != nil {
			return
		}
		obj := thing(t, "{}")
		obj.Object["spec"], obj.Object["status"] = content["spec"], content["status"]
		scripts := map[string]string{}
		for function, parameters := range map[string]string{
			"GetReplicas": "obj", "GetComponents": "obj", "ReviseReplica": "obj, replicas", "Retain": "obj, observed", "AggregateStatus": "obj, items",
			"InterpretHealth": "obj", "ReflectStatus": "obj", "GetDependencies": "obj",
		} {
			scripts[function] = "function " + function + "(" + parameters + ") " + body + " end"
		}
		c := customization("c", scripts)
		if len(declarative.Check(c)) > 0 {
			return
		}
		store := declarative.New()
		store.Set(customizations{c})
		i, before, ctx := interpret.Chain(store), obj.DeepCopy(), context.Background()
		for _, ask := range []func(){ // errors are as good as answers here
			func() { _, _ = i.Replicas(ctx, obj) },
			func() { _, _ = i.Components(ctx, obj) },
			func() { _, _ = i.Revise(ctx, obj, 3) },
			func() { _, _ = i.Retain(ctx, obj, before) },
			func() { _, _ = i.Health(ctx, obj) },
			func() { _, _ = i.Reflect(ctx, obj) },
			func() { _, _ = i.Dependencies(ctx, obj) },
			func() { _, _ = i.Aggregate(ctx, obj, []workv1alpha2.AggregatedStatusItem{{ClusterName: "a"}}) },
		} {
			bounded.Run(t, ask)
		}
		if diff := cmp.Diff(before.Object, obj.Object); diff != "" {
			t.Fatalf("the object was changed (-before +after):\n%s", diff)
		}
	})
}
