package migration

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestClassify(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		at     stage
		copied bool
		noted  bool
	}{
		"Cluster":             {"{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: a}}", clusters, true, false},
		"Binding":             {"{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding, metadata: {name: a, namespace: b}}", bindings, true, false},
		"Override":            {"{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterOverridePolicy, metadata: {name: a}}", rules, true, false},
		"Policy":              {"{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: a, namespace: b}}", policies, true, false},
		"Quota":               {"{apiVersion: policy.karmada.io/v1alpha1, kind: FederatedResourceQuota, metadata: {name: a, namespace: b}}", policies, true, true},
		"Rebalancer":          {"{apiVersion: apps.karmada.io/v1alpha1, kind: WorkloadRebalancer, metadata: {name: a}}", 0, false, true},
		"Definition":          {"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.example.com}}", definitions, true, false},
		"OwnDefinition":       {"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: works.work.karmada.io}}", 0, false, false},
		"Namespace":           {"{apiVersion: v1, kind: Namespace, metadata: {name: shop}}", namespaces, true, false},
		"ReservedNamespace":   {"{apiVersion: v1, kind: Namespace, metadata: {name: karmada-es-a}}", 0, false, false},
		"Template":            {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: shop}}", templates, true, false},
		"Deleting":            {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: shop, deletionTimestamp: '2026-01-01T00:00:00Z'}}", 0, false, true},
		"OfAController":       {"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a, namespace: shop, ownerReferences: [{controller: true, uid: a}]}}", 0, false, true},
		"AccountToken":        {"{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: a, namespace: shop}}", 0, false, false},
		"RegisteredAPI":       {"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.apps, labels: {kube-aggregator.kubernetes.io/automanaged: onstart}}}", 0, false, false},
		"APIOfKarmada":        {"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1alpha1.cluster.karmada.io}, spec: {service: {namespace: karmada-system, name: karmada-aggregated-apiserver}}}", 0, false, false},
		"BootstrapRole":       {"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: view, labels: {kubernetes.io/bootstrapping: rbac-defaults}}}", 0, false, false},
		"WorkOfUser":          {"{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: a, namespace: karmada-es-a, labels: {work.karmada.io/permanent-id: x}}}", works, true, false},
		"WorkOfBinding":       {"{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: a, namespace: karmada-es-a, annotations: {resourcebinding.karmada.io/name: x}}}", works, false, false},
		"WorkWithANamespace":  {"{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: a, namespace: karmada-es-a}, spec: {workload: {manifests: [{apiVersion: v1, kind: Namespace}]}}}", works, false, false},
		"WorkOfImpersonator":  {"{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: karmada-impersonator-7cbb6bd5c9, namespace: karmada-es-a}}", works, false, false},
		"WorkOfSlices":        {"{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: a, namespace: karmada-es-a, labels: {endpointslice.karmada.io/name: x}}}", works, false, false},
		"SliceOfAController":  {"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, namespace: shop, labels: {endpointslice.kubernetes.io/managed-by: x}}}", 0, false, false},
		"OwnWebhook":          {"{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: karmada-mutating}}", 0, false, false},
		"FleetKindsOfAnother": {"{apiVersion: fleet.flagship.io/v1alpha1, kind: ClusterCapacity, metadata: {name: a}}", 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			obj := parsed(t, tc.object)
			gvk := obj.GroupVersionKind()
			at, copied, reason := classify(resource{GroupVersionResource: schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version}, kind: gvk.Kind}, obj)
			if at != tc.at || copied != tc.copied || (reason != "") != tc.noted {
				t.Errorf("at stage %d, copied %v, reason %q", at, copied, reason)
			}
		})
	}
}

func TestCleaned(t *testing.T) {
	pruned := interpret.Chain(builtin.New(clock.RealClock{}))
	for name, tc := range map[string]struct{ object, want string }{
		"ServerSet": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b, uid: u, resourceVersion: '1', generation: 2, ownerReferences: [{uid: x}], finalizers: [karmada.io/x, example.com/y]}, data: {k: v}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b, finalizers: [example.com/y]}, data: {k: v}}",
		},
		"Claims": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {propagationpolicy.karmada.io/permanent-id: x, own: l}, annotations: {propagationpolicy.karmada.io/name: x, own: a}}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {own: l}, annotations: {own: a}}}",
		},
		"Job": {
			"{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 5, selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}, template: {metadata: {labels: {batch.kubernetes.io/job-name: a, own: l}}}}, status: {active: 1}}",
			"{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 5, template: {metadata: {labels: {own: l}}}}}",
		},
		"Service": {
			"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80}]}}",
			"{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}",
		},
		"Policy": {
			"{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: a, labels: {propagationpolicy.karmada.io/permanent-id: x}, finalizers: [karmada.io/propagation-policy-controller]}, spec: {}}",
			"{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: a}, spec: {}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(parsed(t, tc.want).Object, cleaned(pruned, parsed(t, tc.object)).Object); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHeld(t *testing.T) {
	cluster := parsed(t, "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: a, annotations: {flagship.io/resume-dispatching: x}}, "+
		"spec: {taints: [{key: cluster.karmada.io/not-ready, effect: NoSchedule}, {key: own, effect: NoSchedule}]}}")
	want := parsed(t, "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: a, annotations: {flagship.io/hold-dispatching: why}}, "+
		"spec: {taints: [{key: own, effect: NoSchedule}]}}")
	if diff := cmp.Diff(want.Object, held(cluster, "why").Object); diff != "" {
		t.Error(diff)
	}
}

func TestCompare(t *testing.T) {
	const marks = "labels: {karmada.io/managed: 'true', own: l}, annotations: {work.karmada.io/name: w, resourcetemplate.karmada.io/uid: "
	object := func(uid, rest string) *manifest {
		return &manifest{Unstructured: parsed(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, creationTimestamp: null, "+marks+uid+"}}, "+rest+"}")}
	}
	own := func(rest string) *manifest { return &manifest{object("1", rest).Unstructured, true} }
	before := map[string]*manifest{
		"own": own("data: {a: x}"), "ownBefore": own("data: {}"), "ownOfOne": object("1", "data: {a: x}"),
		"same": object("1", "data: {a: x}, b: null"), "changed": object("1", "data: {a: x, b: y}, list: [1, 2]"), "orphan": object("1", "data: {}"),
	}
	after := map[string]*manifest{
		"own": own("data: {a: y}"), "ownAfter": own("data: {}"), "ownOfOne": own("data: {a: y}"),
		"same": object("2", "data: {a: x}"), "changed": object("2", "data: {a: z, b: y, c: n}, list: [2, 1]"), "added": object("2", "data: {}"),
	}
	c := &Comparison{}
	c.compare("east", before, after)
	want := &Comparison{Same: 1, Differences: []Difference{
		{"east", Added, "added", nil}, {"east", Changed, "changed", []string{"data.a", "data.c", "list"}}, {"east", Orphaned, "orphan", nil},
	}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestIsIncluded(t *testing.T) {
	for name, tc := range map[string]struct {
		wanted, present string
		want            bool
	}{
		"Same":       {"{a: 1, b: [{c: 2}]}", "{a: 1, b: [{c: 2}]}", true},
		"Defaults":   {"{a: 1, b: [{c: 2}]}", "{a: 1, b: [{c: 2, d: 3}], e: 4}", true},
		"Value":      {"{a: 1}", "{a: 2}", false},
		"Missing":    {"{a: {b: 1}}", "{}", false},
		"Item":       {"{a: [1, 2]}", "{a: [1]}", false},
		"OtherShape": {"{a: {b: 1}}", "{a: [1]}", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isIncluded(parsed(t, tc.wanted).Object, parsed(t, tc.present).Object); got != tc.want {
				t.Errorf("included is %v", got)
			}
		})
	}
}

func TestNotesAreBounded(t *testing.T) {
	p := &Plan{}
	for range maxNames + 2 {
		p.note(resource{kind: "A"}, parsed(t, "{metadata: {name: a}}"), "why")
	}
	p.note(resource{kind: "A"}, parsed(t, "{metadata: {name: a}}"), "another")
	if len(p.Notes) != 2 || p.Notes[0].Count != maxNames+2 || len(p.Notes[0].Names) != maxNames || !slices.Equal(p.Notes[1].Names, []string{"a"}) {
		t.Errorf("the notes are %+v", p.Notes)
	}
}

func TestWhatMayBeReplaced(t *testing.T) {
	for name, tt := range map[string]struct {
		apiVersion, kind, manager string
		overwrite, want           bool
	}{
		"an object of others":                 {"v1", "ConfigMap", "kubectl", false, false},
		"an object of others, with overwrite": {"v1", "ConfigMap", "kubectl", true, true},
		"a copy":                              {"v1", "ConfigMap", ImportManager, false, true},
		"a copy of an export":                 {"v1", "ConfigMap", ExportManager, false, false},
		"a Cluster of others, with overwrite": {"cluster.karmada.io/v1alpha1", "Cluster", "flagship", true, false},
		"a copy of a Cluster":                 {"cluster.karmada.io/v1alpha1", "Cluster", ImportManager, false, true},
	} {
		present := &unstructured.Unstructured{}
		present.SetAPIVersion(tt.apiVersion)
		present.SetKind(tt.kind)
		present.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: tt.manager}})
		c := &Copier{Manager: ImportManager, Overwrite: tt.overwrite}
		if got := c.mayReplace(present); got != tt.want {
			t.Errorf("%s: it may be replaced: %t", name, got)
		}
	}
}
