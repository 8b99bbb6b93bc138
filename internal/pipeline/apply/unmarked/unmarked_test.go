package unmarked

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

var self = ownership.ControlPlane{ID: "1"}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestMayStay(t *testing.T) {
	const managed = "labels: {karmada.io/managed: 'true'}, annotations: {resourcetemplate.karmada.io/uid: '1'"
	for name, tc := range map[string]struct {
		text string
		want bool
	}{
		"AsKarmadaLeavesIt": {"{apiVersion: apps/v1, kind: Deployment, metadata: {" + managed + "}}}", true},
		"Recorded":          {"{apiVersion: apps/v1, kind: Deployment, metadata: {" + managed + ", flagship.io/record: a.b}}}", false},
		"OfAControlPlane":   {"{apiVersion: apps/v1, kind: Deployment, metadata: {" + managed + ", flagship.io/control-plane: x}}}", false},
		"Adopted":           {"{apiVersion: apps/v1, kind: Deployment, metadata: {" + managed + ", flagship.io/adopted: 'true'}}}", false},
		"NotManaged":        {"{apiVersion: apps/v1, kind: Deployment, metadata: {}}", false},
		"AnotherKind":       {"{apiVersion: apps/v1, kind: StatefulSet, metadata: {" + managed + "}}}", false},
		"AnotherGroup":      {"{apiVersion: example.com/v1, kind: Deployment, metadata: {" + managed + "}}}", false},
	} {
		if got := MayStay(self, "", object(t, tc.text)); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	left := object(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {"+managed+", work.karmada.io/name: w, work.karmada.io/namespace: n}}}")
	for drift, want := range map[string]bool{"": true, policyv1alpha1.DriftRepair: true, policyv1alpha1.DriftReport: false, policyv1alpha1.DriftPause: false} {
		if got := MayStay(self, drift, left); got != want {
			t.Errorf("with the policy %q: %v", drift, got)
		}
	}
	if MayStay(ownership.ControlPlane{}, "", left) {
		t.Error("without an id the field manager does not name the control plane")
	}
}

func TestKeepOrigin(t *testing.T) {
	desired := object(t, `{metadata: {annotations: {own: a, resourcetemplate.karmada.io/uid: new, resourcetemplate.karmada.io/generation: "1",
  resourcebinding.karmada.io/name: b, propagationpolicy.karmada.io/name: p, work.karmada.io/name: w, work.karmada.io/conflict-resolution: overwrite}}}`)
	live := object(t, `{metadata: {annotations: {own: b, others: c, resourcetemplate.karmada.io/uid: old, resourcetemplate.karmada.io/generation: "7",
  resourcebinding.karmada.io/name: b, clusterpropagationpolicy.karmada.io/name: q, work.karmada.io/name: v, work.karmada.io/conflict-resolution: abort}}}`)
	want := object(t, `{metadata: {annotations: {own: a, resourcetemplate.karmada.io/uid: old, resourcetemplate.karmada.io/generation: "7",
  resourcebinding.karmada.io/name: b, clusterpropagationpolicy.karmada.io/name: q, work.karmada.io/name: w, work.karmada.io/conflict-resolution: overwrite}}}`)
	before := desired.DeepCopy()
	if diff := cmp.Diff(want, keepOrigin(desired, live)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, desired); diff != "" {
		t.Errorf("desired itself is changed: %s", diff)
	}
	none := object(t, "{metadata: {}}")
	if got := keepOrigin(none, live).GetAnnotations(); len(got) != 4 || keepOrigin(desired, none).GetAnnotations()["own"] != "a" {
		t.Errorf("the annotations are %v", got)
	}
}

func TestCompare(t *testing.T) {
	const (
		wanted = "{metadata: {labels: {a: b}}, spec: {replicas: 1, containers: [{name: x, image: i, ports: [{containerPort: 80}]}]}}"
		stored = "spec: {replicas: 1, strategy: {type: s}, containers: [{name: x, image: i, ports: [{containerPort: 80, protocol: TCP}]}]}}"
		labels = "f:metadata: {f:labels: {f:a: {}}}, "
		ports  = `f:ports: {'k:{"containerPort":80,"protocol":"TCP"}': {.: {}, f:containerPort: {}}}`
		spec   = `f:spec: {f:replicas: {}, f:containers: {'k:{"name":"x"}': {.: {}, f:name: {}, f:image: {}, ` + ports + `}}}`
	)
	live := func(fields, rest string) *unstructured.Unstructured {
		return object(t, "{metadata: {labels: {a: b}, managedFields: [{manager: flagship-1, operation: Apply, fieldsV1: {"+fields+"}}]}, "+rest)
	}
	for name, tc := range map[string]struct {
		live        *unstructured.Unstructured
		stale       bool
		drifted     []string
		unexplained int
	}{
		"AsApplied":   {live: live(labels+spec, stored)},
		"NotOurs":     {live: object(t, "{"+stored), stale: true},
		"OtherValue":  {live: live(labels+spec, "spec: {replicas: 2, containers: [{name: x, image: i, ports: [{containerPort: 80, protocol: TCP}]}]}}"), unexplained: 1},
		"Disowned":    {live: live(spec, stored), drifted: []string{"/metadata"}},
		"Surplus":     {live: live(labels+"f:data: {}, "+spec, stored), stale: true},
		"SurplusItem": {live: live(labels+`f:spec: {f:replicas: {}, f:containers: {'k:{"name":"y"}': {.: {}}, 'k:{"name":"x"}': {.: {}, f:name: {}, f:image: {}, `+ports+`}}}`, stored), stale: true},
		"SurplusDeep": {live: live(labels+`f:spec: {f:replicas: {}, f:containers: {'k:{"name":"x"}': {.: {}, f:name: {}, f:image: {}, f:env: {}, `+ports+`}}}`, stored), stale: true},
	} {
		d := Compare(self, object(t, wanted), tc.live, false)
		stale := tc.stale || tc.unexplained > 0 || len(tc.drifted) > 0
		if d.Stale != stale || d.Unexplained != tc.unexplained || !cmp.Equal(d.Drifted, tc.drifted) {
			t.Errorf("%s: %+v", name, d)
		}
		if recorded := Compare(self, object(t, wanted), tc.live, true); recorded.Stale != (name == "NotOurs") {
			t.Errorf("%s: a difference from what this process applied is no drift: %+v", name, recorded)
		}
	}
}
