package compose

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
)

func testComposer() *Composer {
	return &Composer{Interpreter: replicasOnly{}, Conversion: conversion.Unchanged{}, NewID: func() string { return "work-id" }}
}

func composeNginx(t *testing.T, edit func(*Request)) *workv1alpha1.Work {
	t.Helper()
	binding := nginxBinding("m1", "m2")
	r := Request{
		Template: parse(t, nginx), Binding: binding, Target: Target{binding.Spec.Clusters[0], true}, Targets: 2, Cluster: cluster("m1", nil),
	}
	if edit != nil {
		edit(&r)
	}
	before := r.Template.DeepCopy()
	work, err := testComposer().Compose(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, r.Template); diff != "" {
		t.Errorf("the template was changed (-want +got):\n%s", diff)
	}
	return work
}

func TestComposeNewWork(t *testing.T) {
	work := composeNginx(t, nil)
	want := metav1.ObjectMeta{
		Namespace: "karmada-es-m1", Name: "nginx-687f7fb96f", Finalizers: []string{"karmada.io/execution-controller"},
		Labels: map[string]string{
			"resourcebinding.karmada.io/permanent-id": "binding-id",
			"work.karmada.io/permanent-id":            "work-id",
		},
		Annotations: map[string]string{
			"resourcebinding.karmada.io/namespace": "default",
			"resourcebinding.karmada.io/name":      "nginx-deployment",
			"work.karmada.io/conflict-resolution":  "abort",
		},
	}
	if diff := cmp.Diff(want, work.ObjectMeta); diff != "" {
		t.Errorf("metadata of the Work (-want +got):\n%s", diff)
	}
	wantManifest := parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
  namespace: default
  labels:
    app: nginx
    karmada.io/managed: "true"
    propagationpolicy.karmada.io/permanent-id: policy-id
    resourcebinding.karmada.io/permanent-id: binding-id
    work.karmada.io/permanent-id: work-id
  annotations:
    note: keep me
    resourcebinding.karmada.io/name: nginx-deployment
    resourcebinding.karmada.io/namespace: default
    resourcetemplate.karmada.io/generation: "3"
    resourcetemplate.karmada.io/uid: template-uid
    resourcetemplate.karmada.io/managed-annotations: note,resourcebinding.karmada.io/name,resourcebinding.karmada.io/namespace,resourcetemplate.karmada.io/generation,resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,resourcetemplate.karmada.io/uid,work.karmada.io/conflict-resolution,work.karmada.io/name,work.karmada.io/namespace
    resourcetemplate.karmada.io/managed-labels: app,karmada.io/managed,propagationpolicy.karmada.io/permanent-id,resourcebinding.karmada.io/permanent-id,work.karmada.io/permanent-id
    work.karmada.io/conflict-resolution: abort
    work.karmada.io/name: nginx-687f7fb96f
    work.karmada.io/namespace: karmada-es-m1
spec:
  replicas: 2
  template: {spec: {containers: [{name: nginx, image: "nginx:1.27"}]}}
`)
	if diff := cmp.Diff(wantManifest, manifestOf(t, work)); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	if work.Spec.SuspendDispatching != nil || work.Spec.PreserveResourcesOnDeletion != nil {
		t.Errorf("got %+v, want neither suspension nor preservation", work.Spec)
	}
}

func TestComposeClusterScoped(t *testing.T) {
	binding := &workv1alpha2.ClusterResourceBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "karmada-impersonator-clusterrole",
			Labels: map[string]string{workv1alpha2.ClusterResourceBindingPermanentIDLabel: "crb-id"}},
		Spec: workv1alpha2.ResourceBindingSpec{
			Resource: workv1alpha2.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "karmada-impersonator"},
			Clusters: targets("m1"),
		},
	}
	work, err := testComposer().Compose(t.Context(), Request{
		Template: parse(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: karmada-impersonator}}"),
		Binding:  binding, Target: Target{binding.Spec.Clusters[0], true}, Targets: 1, Cluster: cluster("m1", nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	if work.Name != "karmada-impersonator-7cbb6bd5c9" {
		t.Errorf("name is %s, want the known vector", work.Name)
	}
	if got := workv1alpha2.BoundTo(work); got != "/karmada-impersonator-clusterrole" {
		t.Errorf("owner is %q", got)
	}
	if _, has := work.Annotations[workv1alpha2.ResourceBindingNameAnnotation]; has {
		t.Error("a cluster-scoped binding must not be named as a namespaced one")
	}
	if got := work.Labels[workv1alpha2.ClusterResourceBindingPermanentIDLabel]; got != "crb-id" {
		t.Errorf("permanent id of the binding is %q", got)
	}
}

func TestComposeReplicas(t *testing.T) {
	cases := map[string]struct {
		edit func(*Request)
		want int64
	}{
		"OfTheTarget":          {func(*Request) {}, 2},
		"ZeroWithRequirements": {func(r *Request) { r.Target.Replicas = 0 }, 0},
		"NoWorkload": {func(r *Request) {
			r.Binding.BindingSpec().Replicas = 0
		}, 5},
		"OnlyRequired": {func(r *Request) { r.Target.Scheduled = false }, 5},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, _, _ := unstructured.NestedInt64(manifestOf(t, composeNginx(t, tc.edit)).Object, "spec", "replicas")
			if got != tc.want {
				t.Errorf("replicas are %d, want %d", got, tc.want)
			}
		})
	}
}

func TestComposeConflictResolution(t *testing.T) {
	cases := map[string]struct {
		policy     policyv1alpha1.ConflictResolution
		annotation string
		want       string
	}{
		"AbortByDefault":          {"", "", "abort"},
		"PolicyOverwrites":        {policyv1alpha1.ConflictOverwrite, "", "overwrite"},
		"TemplateBeatsPolicy":     {policyv1alpha1.ConflictOverwrite, "abort", "abort"},
		"TemplateOverwrites":      {policyv1alpha1.ConflictAbort, "overwrite", "overwrite"},
		"NonsenseCountsAsNothing": {policyv1alpha1.ConflictOverwrite, "maybe", "overwrite"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			work := composeNginx(t, func(r *Request) {
				r.Binding.BindingSpec().ConflictResolution = tc.policy
				if tc.annotation != "" {
					r.Template.SetAnnotations(map[string]string{"work.karmada.io/conflict-resolution": tc.annotation})
				}
			})
			for what, got := range map[string]string{
				"Work":     work.Annotations["work.karmada.io/conflict-resolution"],
				"manifest": manifestOf(t, work).GetAnnotations()["work.karmada.io/conflict-resolution"],
			} {
				if got != tc.want {
					t.Errorf("%s says %q, want %q", what, got, tc.want)
				}
			}
		})
	}
}

func TestComposeOverrides(t *testing.T) {
	annotate := policyv1alpha1.Overriders{
		Plaintext: []policyv1alpha1.PlaintextOverrider{
			{Path: "/spec/replicas", Operator: "replace", Value: apiextensionsv1.JSON{Raw: []byte("9")}},
			// Our labels are not lost with those of the template.
			{Path: "/metadata/labels", Operator: "add", Value: apiextensionsv1.JSON{Raw: []byte(`{"tier": "eu"}`)}},
		},
	}
	spec := policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: annotate}}}
	edit := func(r *Request) {
		r.Policies = []policyv1alpha1.Override{
			&policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "cop"}, Spec: spec},
			&policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "op"}, Spec: spec},
		}
	}
	work := composeNginx(t, edit)
	if got, _, _ := unstructured.NestedInt64(manifestOf(t, work).Object, "spec", "replicas"); got != 9 {
		t.Errorf("replicas are %d, want 9", got)
	}
	if got := manifestOf(t, work).GetLabels()["karmada.io/managed"]; got != "true" {
		t.Errorf("the managed label is %q", got)
	}
	for annotation, policy := range map[string]string{"applied-cluster-overrides": "cop", "applied-overrides": "op"} {
		var applied []struct {
			PolicyName string                    `json:"policyName"`
			Overriders policyv1alpha1.Overriders `json:"overriders"`
		}
		if err := json.Unmarshal([]byte(work.Annotations["policy.karmada.io/"+annotation]), &applied); err != nil {
			t.Fatalf("%s: %v", annotation, err)
		}
		if len(applied) != 1 || applied[0].PolicyName != policy || len(applied[0].Overriders.Plaintext) != 2 {
			t.Errorf("%s is %+v, want the one rule of %s", annotation, applied, policy)
		}
	}

	without := composeNginx(t, func(r *Request) { r.Existing = work })
	if len(without.Annotations) != 3 {
		t.Errorf("without policies the annotations are %v, want no trace of overrides", without.Annotations)
	}
}

// TestLargeOverridesAreRecordedByPolicy: their values would exceed what the annotations of a Work may have.
func TestLargeOverridesAreRecordedByPolicy(t *testing.T) {
	long := policyv1alpha1.RuleWithCluster{Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
		Path: "/metadata/annotations/a", Operator: policyv1alpha1.OverriderOpAdd, Value: apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("x", 50_000) + `"`)},
	}}}}
	for name, tc := range map[string]struct{ rules, policies, named int }{
		"one that fits":         {1, 1, 1},
		"two rules of a policy": {2, 1, 1},
		"two policies":          {1, 2, 2},
		"more than fit":         {1, 1200, 992},
	} {
		t.Run(name, func(t *testing.T) {
			applied := make([]override.Applied, 0, tc.rules*tc.policies)
			for i := range tc.policies {
				for range tc.rules {
					applied = append(applied, override.Applied{PolicyName: fmt.Sprintf("policy-%025d", i), Overriders: long.Overriders})
				}
			}
			annotations := map[string]string{}
			if err := recordOverrides(&workv1alpha1.Work{}, annotations, override.Result{Namespace: applied}); err != nil {
				t.Fatal(err)
			}
			text := annotations[workv1alpha1.AppliedOverridesAnnotation]
			var recorded []override.Applied
			if err := json.Unmarshal([]byte(text), &recorded); err != nil || len(text) > maxRecorded {
				t.Fatalf("%d bytes are recorded: %v", len(text), err)
			}
			if got := len(recorded); got != tc.named || recorded[0].PolicyName != applied[0].PolicyName {
				t.Errorf("%d policies are recorded, want %d", got, tc.named)
			}
			if whole := len(recorded[0].Overriders.Plaintext) == 1; whole != (len(applied) == 1) {
				t.Errorf("the edits of %d rules are recorded: %t", len(applied), whole)
			}
		})
	}
}

func TestComposeOverExisting(t *testing.T) {
	first := composeNginx(t, nil)
	first.ResourceVersion = "5"
	first.Labels["theirs"] = "kept"
	first.Labels[workv1alpha1.WorkPermanentIDLabel] = "stamped-by-admission"
	again := composeNginx(t, func(r *Request) { r.Existing = first })
	if again.Labels["theirs"] != "kept" || again.Labels[workv1alpha1.WorkPermanentIDLabel] != "stamped-by-admission" {
		t.Errorf("labels are %v, want those of others and the id kept", again.Labels)
	}
	if got := manifestOf(t, again).GetLabels()[workv1alpha1.WorkPermanentIDLabel]; got != "stamped-by-admission" {
		t.Errorf("the manifest carries id %q, want that of the Work", got)
	}
	third := composeNginx(t, func(r *Request) { r.Existing = again })
	if !Same(again, third) {
		t.Error("composing twice from the same input differs")
	}
	spaced := again.DeepCopy()
	var value any
	if err := json.Unmarshal(spaced.Spec.Workload.Manifests[0].Raw, &value); err != nil {
		t.Fatal(err)
	}
	spaced.Spec.Workload.Manifests[0].Raw, _ = json.MarshalIndent(value, "", "  ")
	if !Same(spaced, third) {
		t.Error("a manifest that only differs in white space counts as changed")
	}
	suspended := composeNginx(t, func(r *Request) {
		r.Existing = again
		r.Binding.BindingSpec().Suspension = &workv1alpha2.Suspension{Suspension: policyv1alpha1.Suspension{
			DispatchingOnClusters: &policyv1alpha1.SuspendClusters{ClusterNames: []string{"m1"}}}}
		r.Binding.BindingSpec().PreserveResourcesOnDeletion = new(true)
	})
	if !isTrue(suspended.Spec.SuspendDispatching) || !isTrue(suspended.Spec.PreserveResourcesOnDeletion) || Same(again, suspended) {
		t.Errorf("got %+v, want a suspended Work that preserves", suspended.Spec)
	}
}

func TestComposePreservedState(t *testing.T) {
	task := workv1alpha2.GracefulEvictionTask{
		FromCluster: "m9", PurgeMode: policyv1alpha1.PurgeModeDirectly,
		PreservedLabelState: map[string]string{"epoch": "7"}, ClustersBeforeFailover: []string{"m9"},
	}
	cases := map[string]struct {
		edit func(*Request, *workv1alpha2.GracefulEvictionTask)
		want string
	}{
		"SingleNewCopy":    {func(*Request, *workv1alpha2.GracefulEvictionTask) {}, "7"},
		"TwoTargets":       {func(r *Request, _ *workv1alpha2.GracefulEvictionTask) { r.Targets = 2 }, ""},
		"GracefulEviction": {func(_ *Request, task *workv1alpha2.GracefulEvictionTask) { task.PurgeMode = "Gracefully" }, ""},
		"WasThereBefore": {func(_ *Request, task *workv1alpha2.GracefulEvictionTask) {
			task.ClustersBeforeFailover = []string{"m1"}
		}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			work := composeNginx(t, func(r *Request) {
				own := task
				r.Targets = 1
				tc.edit(r, &own)
				r.Binding.BindingSpec().GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{own}
			})
			if got := manifestOf(t, work).GetLabels()["epoch"]; got != tc.want {
				t.Errorf("label is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestComposeNodePorts(t *testing.T) {
	const service = `
apiVersion: v1
kind: Service
metadata: {name: nginx, namespace: default}
spec: {ports: [{port: 80, nodePort: 30001}, {port: 81, nodePort: 30002}]}
`
	work := composeNginx(t, func(r *Request) {
		r.Template = parse(t, service)
		r.Binding.BindingSpec().Replicas = 0
		r.Policies = []policyv1alpha1.Override{&policyv1alpha1.ClusterOverridePolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "cop"},
			Spec: policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
				Plaintext: []policyv1alpha1.PlaintextOverrider{
					{Path: "/spec/ports/1/nodePort", Operator: "replace", Value: apiextensionsv1.JSON{Raw: []byte("31000")}},
				}}}}},
		}}
	})
	ports := servicePorts(manifestOf(t, work))
	if ports[0]["nodePort"] != nil || ports[1]["nodePort"] != int64(31000) {
		t.Errorf("ports are %v, want only the node port that the override chose", ports)
	}
}
