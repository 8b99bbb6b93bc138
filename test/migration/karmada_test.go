package migration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// workID is an id of a Work that Karmada makes.
	workID = "5a3b2c1d-0000-4000-8000-000000000003"
	// karmada is the manager of the fields that Karmada's controllers write.
	karmada = "karmada-controller-manager"
	// registry is where images come from in the member, by an override policy.
	registry = "registry.east.example.com"
)

// leases are those of Karmada's controllers, the second one in a namespace that a flag chooses.
var leases = []types.NamespacedName{
	{Namespace: "karmada-system", Name: "karmada-controller-manager"}, {Namespace: metav1.NamespaceSystem, Name: "karmada-scheduler"},
}

// renewed renews the Leases of Karmada's controllers until the function that it returns is called.
func renewed(t *testing.T, hub *fleettest.Part) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var renewing sync.WaitGroup
	renewing.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			for _, name := range leases {
				lease := &coordinationv1.Lease{}
				if err := hub.Get(ctx, name, lease); err != nil {
					continue // the test fails, as no Lease is renewed
				}
				now := metav1.NowMicro()
				lease.Spec.RenewTime = &now
				_ = hub.Cluster.Update(ctx, lease) // the same
			}
		}, 2*time.Second)
	})
	return func() {
		cancel()
		renewing.Wait()
	}
}

// template is an object that Karmada propagates to the member.
type template struct {
	object *unstructured.Unstructured
	// policy and binding are their permanent ids.
	policy, binding string
	placement       string
	replicas        int
}

// propagated makes templates, their policies and bindings, their Works, and the objects in the member, as Karmada's controllers write them.
func propagated(t *testing.T, hub, member *fleettest.Part) {
	t.Helper()
	for _, name := range []string{shop, "karmada-es-east"} {
		create(t, hub, "kubectl", `{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, name)
	}
	// Its controllers were stopped: the Leases are not renewed.
	for _, lease := range leases {
		create(t, hub, karmada, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: %s, namespace: %s}, spec: {holderIdentity: gone}}`, lease.Name, lease.Namespace)
	}
	dispatched(t, hub, member, workv1alpha1.WorkName("Namespace", "", shop), "", "", fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  labels: {work.karmada.io/permanent-id: %s, karmada.io/managed: "true"}
  annotations: {work.karmada.io/namespace: karmada-es-east, work.karmada.io/name: %s}
`, workID, workv1alpha1.WorkName("Namespace", "", shop)))
	// The rights of the account that impersonates are in Works, too.
	dispatched(t, hub, member, workv1alpha1.WorkName("ClusterRole", "", "karmada-impersonator"), "", "", `
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: karmada-impersonator, labels: {karmada.io/system: "true", karmada.io/managed: "true"}},
  rules: [{apiGroups: [""], resources: [users], verbs: [impersonate], resourceNames: [alice]}]}`)

	web := template{policy: "5a3b2c1d-0000-4000-8000-000000000001", binding: "5a3b2c1d-0000-4000-8000-000000000002", replicas: 2, placement: `{"clusterAffinity":{"clusterNames":["east"]},` + tolerations + `}`}
	web.object = claimed(t, hub, web, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: "nginx:1"}]}}
`)
	overrides := create(t, hub, "kubectl", `
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: registry, namespace: shop, labels: {overridepolicy.karmada.io/permanent-id: 5a3b2c1d-0000-4000-8000-000000000008}}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}]
  overrideRules:
  - targetCluster: {clusterNames: [east]}
    overriders: {imageOverrider: [{component: Registry, operator: replace, value: %s}]}
`, registry)
	rule := overrides.Object["spec"].(map[string]any)["overrideRules"].([]any)[0].(map[string]any)["overriders"]
	spec := strings.ReplaceAll(inJSON(t, web.object.Object["spec"]), `"nginx:1"`, `"`+registry+`/nginx:1"`)
	applied := inJSON(t, []any{map[string]any{"policyName": "registry", "overriders": rule}})
	dispatched(t, hub, member, web.work(), web.binding, applied, web.manifest(spec))

	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.harbour.example.com}
spec:
  group: harbour.example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, listKind: BoatList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	established(t, hub, create(t, hub, "kubectl", definition))
	established(t, member, create(t, member, "kubectl", definition))
	create(t, hub, "kubectl", `
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: boats}
spec:
  target: {apiVersion: harbour.example.com/v1, kind: Boat}
  customizations:
    replicaResource: {luaScript: "function GetReplicas(obj) return obj.spec.crew, {} end"}
    replicaRevision: {luaScript: "function ReviseReplica(obj, n) obj.spec.crew = n; obj.spec.watches = 2 * n; return obj end"}
    retention: {luaScript: "function Retain(desired, observed) desired.spec.captain = observed.spec.captain; return desired end"}
`)
	gull := template{policy: "5a3b2c1d-0000-4000-8000-000000000004", binding: "5a3b2c1d-0000-4000-8000-000000000005", replicas: 3, placement: `{"clusterAffinity":{"clusterNames":["east"]},` + tolerations +
		`,"replicaScheduling":{"replicaSchedulingType":"Divided","replicaDivisionPreference":"Aggregated"}}`}
	gull.object = claimed(t, hub, gull, `{apiVersion: harbour.example.com/v1, kind: Boat, metadata: {name: gull, namespace: shop}, spec: {crew: 3}}`)
	dispatched(t, hub, member, gull.work(), gull.binding, "", gull.manifest(`{"crew": 3, "watches": 6}`))
	// The member has a field of its own, which Karmada retains.
	boat := &unstructured.Unstructured{}
	boat.SetGroupVersionKind(boatKind)
	boat.SetNamespace(shop)
	boat.SetName("gull")
	fleettest.Update(t, member.Cluster, boat, func(b *unstructured.Unstructured) { b.Object["spec"].(map[string]any)["captain"] = "ann" })
}

const tolerations = `"clusterTolerations":[{"key":"cluster.karmada.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]`

// claimed makes a template with its policy and binding.
func claimed(t *testing.T, hub *fleettest.Part, of template, text string) *unstructured.Unstructured {
	t.Helper()
	made := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &made.Object); err != nil {
		t.Fatal(err)
	}
	name, kind := made.GetName(), made.GetKind()
	create(t, hub, "kubectl", `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: %[1]s, namespace: shop, labels: {propagationpolicy.karmada.io/permanent-id: %[4]s}, finalizers: [karmada.io/propagation-policy-controller]}
spec:
  resourceSelectors: [{apiVersion: %[2]s, kind: %[3]s, name: %[1]s, namespace: shop}]
  placement: %[5]s
  priority: 0
  preemption: Never
  schedulerName: default-scheduler
  conflictResolution: Abort
`, name, made.GetAPIVersion(), kind, of.policy, of.placement)
	labels, annotations := of.claim(made)
	made.SetLabels(labels)
	made.SetAnnotations(annotations)
	made = create(t, hub, "kubectl", "%s", inJSON(t, made.Object))
	create(t, hub, karmada, `
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata:
  name: %[1]s-%[2]s
  namespace: shop
  labels: {propagationpolicy.karmada.io/permanent-id: %[3]s, resourcebinding.karmada.io/permanent-id: %[4]s}
  annotations:
    propagationpolicy.karmada.io/namespace: shop
    propagationpolicy.karmada.io/name: %[1]s
    policy.karmada.io/applied-placement: '%[5]s'
  finalizers: [karmada.io/binding-controller, karmada.io/binding-dependencies-distributor]
  ownerReferences: [{apiVersion: %[6]s, kind: %[7]s, name: %[1]s, uid: %[8]s, controller: true, blockOwnerDeletion: true}]
spec:
  resource: {apiVersion: %[6]s, kind: %[7]s, namespace: shop, name: %[1]s, uid: %[8]s, resourceVersion: "%[9]s"}
  replicas: %[10]d
  replicaRequirements: {}
  clusters: [{name: east, replicas: %[10]d}]
  conflictResolution: Abort
  schedulerName: default-scheduler
  placement: %[5]s
status:
  schedulerObservedGeneration: 2
  lastScheduledTime: "2026-01-01T00:00:00Z"
  conditions:
  - {type: Scheduled, status: "True", reason: Success, message: Binding has been scheduled successfully., lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: FullyApplied, status: "True", reason: FullyAppliedSuccess, message: All works have been successfully applied, lastTransitionTime: "2026-01-01T00:00:00Z"}
`, name, strings.ToLower(kind), of.policy, of.binding, of.placement, made.GetAPIVersion(), kind, made.GetUID(), made.GetResourceVersion(), of.replicas)
	return made
}

// claim are the labels and annotations of a template that a policy selects.
func (t template) claim(made *unstructured.Unstructured) (labels, annotations map[string]string) {
	labels = map[string]string{"propagationpolicy.karmada.io/permanent-id": t.policy}
	for key, value := range made.GetLabels() {
		labels[key] = value
	}
	return labels, map[string]string{"propagationpolicy.karmada.io/namespace": shop, "propagationpolicy.karmada.io/name": made.GetName()}
}

func (t template) work() string {
	return workv1alpha1.WorkName(t.object.GetKind(), shop, t.object.GetName())
}

// manifest is the object in the member, with a spec of JSON. Its template was changed six times.
func (t template) manifest(spec string) string {
	labels, annotations := t.claim(t.object)
	labels["resourcebinding.karmada.io/permanent-id"], labels["work.karmada.io/permanent-id"], labels["karmada.io/managed"] = t.binding, workID, "true"
	const lists = "resourcetemplate.karmada.io/managed-"
	for key, value := range map[string]string{
		"resourcebinding.karmada.io/namespace": shop, "resourcebinding.karmada.io/name": t.object.GetName() + "-" + strings.ToLower(t.object.GetKind()),
		"work.karmada.io/namespace": "karmada-es-east", "work.karmada.io/name": t.work(), "work.karmada.io/conflict-resolution": "abort",
		"resourcetemplate.karmada.io/uid": string(t.object.GetUID()), "resourcetemplate.karmada.io/generation": "7",
		lists + "annotations": "propagationpolicy.karmada.io/name,propagationpolicy.karmada.io/namespace,resourcebinding.karmada.io/name,resourcebinding.karmada.io/namespace," +
			lists + "annotations," + lists + "labels,resourcetemplate.karmada.io/uid,work.karmada.io/conflict-resolution,work.karmada.io/name,work.karmada.io/namespace",
		lists + "labels": "app,propagationpolicy.karmada.io/permanent-id,resourcebinding.karmada.io/permanent-id,work.karmada.io/permanent-id",
	} {
		annotations[key] = value
	}
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": t.object.GetAPIVersion(), "kind": t.object.GetKind()}}
	made.SetName(t.object.GetName())
	made.SetNamespace(shop)
	made.SetLabels(labels)
	made.SetAnnotations(annotations)
	head, err := json.Marshal(made.Object)
	if err != nil {
		panic(err) // it has strings alone
	}
	return strings.TrimSuffix(string(head), "}") + `,"spec":` + spec + "}"
}

// dispatched makes an object in the member, and its Work, with the overrides that were applied to it as JSON.
func dispatched(t *testing.T, hub, member *fleettest.Part, name, binding, overrides, manifest string) {
	t.Helper()
	create(t, member, karmada, "%s", manifest)
	text, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	owner, annotations := "", ""
	if binding != "" {
		owner = fmt.Sprintf("resourcebinding.karmada.io/permanent-id: %s, ", binding)
	}
	if overrides != "" {
		annotations = fmt.Sprintf("policy.karmada.io/applied-overrides: '%s'", overrides)
	}
	create(t, hub, karmada, `
apiVersion: work.karmada.io/v1alpha1
kind: Work
metadata:
  name: %s
  namespace: karmada-es-east
  labels: {%swork.karmada.io/permanent-id: %s}
  annotations: {%s}
  finalizers: [karmada.io/execution-controller]
spec: {workload: {manifests: [%s]}}
status: {conditions: [{type: Applied, status: "True", reason: AppliedSuccessful, message: Manifest has been successfully applied, lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`, name, owner, workID, annotations, text)
}

func inJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// notSupported makes objects that an import does not copy, or that nothing acts on.
func notSupported(t *testing.T, hub *fleettest.Part) {
	t.Helper()
	create(t, hub, "kubectl", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: shop-admins}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}`)
	create(t, hub, "kubectl", `
apiVersion: autoscaling.karmada.io/v1alpha1
kind: FederatedHPA
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 9
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
`)
	create(t, hub, "kubectl", `
{apiVersion: apps.karmada.io/v1alpha1, kind: WorkloadRebalancer, metadata: {name: once}, spec: {workloads: [{apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}]}}`)
}

// notes expects the dry run to report what is not supported, with the names of the objects.
func notes(t *testing.T, importing []string) {
	t.Helper()
	wanted := []note{
		{"clusterroles.rbac.authorization.k8s.io", "no ClusterResourceBinding propagates it; it may configure its control plane itself", "shop-admins"},
		{"federatedhpas.autoscaling.karmada.io", "it is copied, but nothing acts on it yet", "shop/web"},
		{"workloadrebalancers.apps.karmada.io", "it is a request that was answered", "once"},
	}
	planned := run(t, append(importing, "--dry-run", "-o", "json")...)
	table := fleettest.Flagship(t, append(importing, "--dry-run")...)
	for _, want := range wanted {
		found := false
		for _, n := range planned.Notes {
			found = found || n.Kind == want.kind && n.Reason == want.reason && n.Count >= 1 && strings.Contains(strings.Join(n.Names, " ")+" ", want.name+" ")
		}
		if !found {
			t.Errorf("%s %s is not in the notes %+v", want.kind, want.name, planned.Notes)
		}
		found = false
		for line := range strings.Lines(table.Stdout) {
			found = found || strings.HasPrefix(line, "note ") && strings.Contains(line, " "+want.kind+" ") && strings.Contains(line, want.reason+": ") && strings.Contains(line, want.name)
		}
		if !found || table.Code != 0 {
			t.Errorf("%s %s is not in the table (exit code %d):\n%s%s", want.kind, want.name, table.Code, table.Stdout, table.Stderr)
		}
	}
}

type note struct{ kind, reason, name string }
