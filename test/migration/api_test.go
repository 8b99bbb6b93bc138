package migration_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/api/crds"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// Ids that Karmada makes, and the manager of its controllers.
const (
	policyID, bindingID, workID = "5a3b2c1d-0000-4000-8000-000000000001", "5a3b2c1d-0000-4000-8000-000000000002", "5a3b2c1d-0000-4000-8000-000000000003"
	karmada                     = "karmada-controller-manager"
)

// TestAgainstTheAPIAlone has a control plane that serves Karmada's kinds and runs nothing of Flagship. Its objects, and those in the member,
// are as Karmada's controllers write them. They are imported, and then exported to another one of that kind.
func TestAgainstTheAPIAlone(t *testing.T) {
	t.Parallel()
	source, member := apiAlone(t), fleettest.StartMember(t, "east", "--bare")
	joined(t, source, member)
	propagated(t, source, member)
	kept := map[string]object{}
	for _, o := range managed(t, member) {
		kept[o.GetKind()] = inMember(t, o)
	}
	if len(kept) != 2 {
		t.Fatalf("the member has %v", kept)
	}

	hub := fleettest.StartHub(t)
	importing := []string{"import", "--kubeconfig", hub.Kubeconfig, "--from-kubeconfig", source.Kubeconfig}
	copied := run(t, append(importing, "-o", "json")...)
	if len(copied.Copied.Refused) > 0 || copied.Comparison.Same != 2 || len(copied.Comparison.Differences) > 0 {
		t.Fatalf("the import reports %+v", copied)
	}
	if r := fleettest.Flagship(t, append(importing, "--cut-over")...); r.Code != 0 || !strings.Contains(r.Stdout, "cluster east is taken over") {
		t.Fatalf("the cut-over: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	taken(t, member)
	same := func() {
		t.Helper()
		for _, o := range managed(t, member) {
			was, known := kept[o.GetKind()]
			if !known {
				continue // the hub added it, such as the definitions of ServiceExports
			}
			is := inMember(t, o)
			was.resourceVersion, is.resourceVersion = "", ""
			if is != was {
				t.Errorf("%s was %+v and is %+v", o.GetKind(), was, is)
			}
			for _, entry := range o.GetManagedFields() {
				if entry.Manager == karmada {
					t.Errorf("%s has fields of %s", o.GetKind(), karmada)
				}
			}
		}
	}
	same()
	fleettest.ExpectListed(t, hub.Cluster, &workv1alpha2.ResourceBindingList{}, shop, func(all *workv1alpha2.ResourceBindingList) error {
		if len(all.Items) != 1 || len(all.Items[0].Spec.Clusters) != 1 || all.Items[0].Spec.Clusters[0].Name != "east" || all.Items[0].Spec.Clusters[0].Replicas != 2 {
			return fmt.Errorf("the bindings are %+v", all.Items)
		}
		return fleettest.ConditionTrue(all.Items[0].Status.Conditions, workv1alpha2.FullyApplied)
	})

	exportsToTheAPIAlone(t, hub)
	same()
	fleettest.Update(t, hub.Cluster, fleettest.Deployment(shop, "web", 2), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) })
	fleettest.ExpectEventually(t, hub.Cluster, workOf("east", "Deployment", "web"), func(w *workv1alpha1.Work) error {
		held := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkDispatching)
		if !strings.Contains(string(w.Spec.Workload.Manifests[0].Raw), `"replicas":5`) || held == nil || held.Reason != workv1alpha1.DispatchingHeldReason {
			return fmt.Errorf("its condition is %+v", held)
		}
		return nil
	})
	same() // it is given away
}

// exportsToTheAPIAlone gives the member to a control plane whose controllers do not run yet, so that it renders no Works to compare.
func exportsToTheAPIAlone(t *testing.T, hub *fleettest.Part) {
	t.Helper()
	target := apiAlone(t)
	exporting := []string{"export", "--kubeconfig", hub.Kubeconfig, "--to-kubeconfig", target.Kubeconfig, "--timeout", "5s"}
	r := fleettest.Flagship(t, append(exporting, "-o", "json")...)
	var exported report
	if err := json.Unmarshal([]byte(r.Stdout), &exported); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if r.Code == 0 || len(exported.Copied.Refused) > 0 || len(exported.Comparison.Differences) != 2 {
		t.Fatalf("the export: %+v", r)
	}
	fleettest.ExpectRefusal(t, "would change", append(exporting, "--cut-over")...)
	for _, o := range []client.Object{
		fleettest.Deployment(shop, "web", 2), &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}},
		&policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}},
		&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web-deployment"}},
	} {
		if err := target.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Error(err)
			continue
		}
		for key := range o.GetAnnotations() {
			if strings.Contains(key, "flagship.io/") {
				t.Errorf("%T has the annotation %s", o, key)
			}
		}
		if cluster, ok := o.(*clusterv1alpha1.Cluster); ok && cluster.Spec.SecretRef != nil {
			t.Errorf("the cluster has its credentials before the cut-over: %+v", cluster.Spec)
		}
	}
	if r := fleettest.Flagship(t, append(exporting, "--cut-over", "--accept-differences")...); r.Code != 0 || !strings.Contains(r.Stdout, "cluster east is given away") {
		t.Fatalf("the cut-over: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	cluster, secret := &clusterv1alpha1.Cluster{}, &corev1.Secret{}
	if err := target.Get(t.Context(), client.ObjectKey{Name: "east"}, cluster); err != nil || cluster.Spec.SecretRef == nil {
		t.Fatalf("the cluster is %+v, %v", cluster.Spec, err)
	}
	if err := target.Get(t.Context(), client.ObjectKey{Namespace: cluster.Spec.SecretRef.Namespace, Name: cluster.Spec.SecretRef.Name}, secret); err != nil || len(secret.Data["token"]) == 0 {
		t.Errorf("the credential is %v, %v", slicesOf(secret.Data), err)
	}
	if owners := secret.OwnerReferences; len(owners) != 1 || owners[0].UID != cluster.UID {
		t.Errorf("the credential belongs to %v", owners)
	}
}

func slicesOf(data map[string][]byte) (keys []string) {
	for key := range maps.Keys(data) {
		keys = append(keys, key)
	}
	return keys
}

// inMember is what of an object in a member may not change.
func inMember(t *testing.T, o unstructured.Unstructured) object {
	t.Helper()
	text, err := json.Marshal(map[string]any{"spec": o.Object["spec"], "data": o.Object["data"]})
	if err != nil {
		t.Fatal(err)
	}
	return object{string(o.GetUID()), string(text), o.GetResourceVersion()}
}

// apiAlone is an API server with the kinds of Karmada, and no controllers for them. Karmada serves Clusters by an aggregated API server.
func apiAlone(t *testing.T) *fleettest.Part {
	t.Helper()
	hub := fleettest.StartMember(t, "karmada", "--bare")
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	anything := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}}
	definitions = append(definitions, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "clusters.cluster.karmada.io", Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, test"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: clusterv1alpha1.GroupName, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "clusters", Singular: "cluster", Kind: "Cluster", ListKind: "ClusterList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true, Schema: anything,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	})
	for _, d := range definitions {
		if !strings.HasSuffix(d.Spec.Group, ".karmada.io") {
			continue
		}
		if err := hub.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		fleettest.ExpectEventually(t, hub.Cluster, d, func(d *apiextensionsv1.CustomResourceDefinition) error {
			for _, c := range d.Status.Conditions {
				if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("it has %+v", d.Status.Conditions)
		})
	}
	for _, name := range []string{"karmada-system", "karmada-cluster"} {
		create(t, hub, "kubectl", `{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, name)
	}
	return hub
}

// create creates an object of YAML as a manager, with its status.
func create(t *testing.T, in *fleettest.Part, manager, format string, args ...any) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, format, args...), &obj.Object); err != nil {
		t.Fatalf("%v: %s", err, fmt.Sprintf(format, args...))
	}
	status, hasStatus := obj.Object["status"]
	err := in.Create(t.Context(), obj, client.FieldOwner(manager))
	if err == nil && hasStatus {
		obj.Object["status"] = status
		err = in.Status().Update(t.Context(), obj, client.FieldOwner(manager))
	}
	if err != nil {
		t.Fatalf("creating %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	return obj
}

// joined makes the accounts in the member, and the Cluster, as `karmadactl join` does.
func joined(t *testing.T, hub, member *fleettest.Part) {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(member.Config)
	create(t, member, "karmadactl", `{apiVersion: v1, kind: Namespace, metadata: {name: karmada-cluster, labels: {karmada.io/system: "true"}}}`)
	const role = "karmada-controller-manager:karmada-east"
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, {NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "karmada-cluster", Name: "karmada-east"}}},
	} {
		if err := member.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	kubeSystem, err := kube.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster := create(t, hub, "karmadactl", `
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: east, finalizers: [karmada.io/cluster-controller]}
spec:
  id: %s
  syncMode: Push
  apiEndpoint: %s
  secretRef: {namespace: karmada-cluster, name: east}
  impersonatorSecretRef: {namespace: karmada-cluster, name: east-impersonator}
status:
  kubernetesVersion: v1.31.0
  conditions: [{type: Ready, status: "True", reason: ClusterReady, message: cluster is healthy and ready to accept workloads, lastTransitionTime: "2026-01-01T00:00:00Z"}]
`, kubeSystem.UID, member.Config.Host)
	for account, secret := range map[string]string{"karmada-east": "east", "karmada-impersonator": "east-impersonator"} {
		create(t, member, "karmadactl", `{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s, namespace: karmada-cluster, labels: {karmada.io/system: "true"}}}`, account)
		seconds := int64(24 * 60 * 60)
		token, err := kube.CoreV1().ServiceAccounts("karmada-cluster").CreateToken(t.Context(), account,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		create(t, hub, "karmadactl", `
apiVersion: v1
kind: Secret
metadata:
  name: %s
  namespace: karmada-cluster
  ownerReferences: [{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, name: east, uid: %s, controller: true, blockOwnerDeletion: true}]
data: {token: %s, caBundle: %s}
`, secret, cluster.GetUID(), base64.StdEncoding.EncodeToString([]byte(token.Status.Token)), base64.StdEncoding.EncodeToString(member.Config.CAData))
	}
}

// propagated makes a template, its policy and binding, its Work, and the object in the member, as Karmada's controllers write them.
func propagated(t *testing.T, hub, member *fleettest.Part) {
	t.Helper()
	for _, name := range []string{shop, "karmada-es-east"} {
		create(t, hub, "kubectl", `{apiVersion: v1, kind: Namespace, metadata: {name: %s}}`, name)
	}
	// Its controllers were stopped: the Lease is not renewed.
	create(t, hub, karmada, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: karmada-controller-manager, namespace: karmada-system}, spec: {holderIdentity: gone}}`)
	create(t, hub, "kubectl", `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop, labels: {propagationpolicy.karmada.io/permanent-id: %[1]s}, finalizers: [karmada.io/propagation-policy-controller]}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}]
  placement: {clusterAffinity: {clusterNames: [east]}, clusterTolerations: [{key: cluster.karmada.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]}
  priority: 0
  preemption: Never
  schedulerName: default-scheduler
  conflictResolution: Abort
`, policyID)
	const spec = `
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: "nginx:1"}]}}
`
	claim := fmt.Sprintf(`propagationpolicy.karmada.io/permanent-id: %s`, policyID)
	template := create(t, hub, "kubectl", `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels: {app: web, %s}
  annotations: {propagationpolicy.karmada.io/namespace: shop, propagationpolicy.karmada.io/name: web}
`+spec, claim)
	create(t, hub, karmada, `
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata:
  name: web-deployment
  namespace: shop
  labels: {%[1]s, resourcebinding.karmada.io/permanent-id: %[2]s}
  annotations:
    propagationpolicy.karmada.io/namespace: shop
    propagationpolicy.karmada.io/name: web
    policy.karmada.io/applied-placement: '{"clusterAffinity":{"clusterNames":["east"]},"clusterTolerations":[{"key":"cluster.karmada.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]}'
  finalizers: [karmada.io/binding-controller, karmada.io/binding-dependencies-distributor]
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: %[3]s, controller: true, blockOwnerDeletion: true}]
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: %[3]s, resourceVersion: "%[4]s"}
  replicas: 2
  replicaRequirements: {}
  clusters: [{name: east, replicas: 2}]
  conflictResolution: Abort
  schedulerName: default-scheduler
  placement: {clusterAffinity: {clusterNames: [east]}, clusterTolerations: [{key: cluster.karmada.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]}
status:
  schedulerObservedGeneration: 2
  lastScheduledTime: "2026-01-01T00:00:00Z"
  conditions:
  - {type: Scheduled, status: "True", reason: Success, message: Binding has been scheduled successfully., lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: FullyApplied, status: "True", reason: FullyAppliedSuccess, message: All works have been successfully applied, lastTransitionTime: "2026-01-01T00:00:00Z"}
`, claim, bindingID, template.GetUID(), template.GetResourceVersion())

	defaulted, err := json.Marshal(template.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	web, namespace := workv1alpha1.WorkName("Deployment", shop, "web"), workv1alpha1.WorkName("Namespace", "", shop)
	marks := fmt.Sprintf(`
  labels: {app: web, %s, resourcebinding.karmada.io/permanent-id: %s, work.karmada.io/permanent-id: %s, karmada.io/managed: "true"}
  annotations:
    propagationpolicy.karmada.io/namespace: shop
    propagationpolicy.karmada.io/name: web
    resourcebinding.karmada.io/namespace: shop
    resourcebinding.karmada.io/name: web-deployment
    work.karmada.io/namespace: karmada-es-east
    work.karmada.io/name: %s
    work.karmada.io/conflict-resolution: abort
    resourcetemplate.karmada.io/uid: %s
    resourcetemplate.karmada.io/generation: "1"
    resourcetemplate.karmada.io/managed-annotations: propagationpolicy.karmada.io/name,propagationpolicy.karmada.io/namespace,resourcebinding.karmada.io/name,resourcebinding.karmada.io/namespace,resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,resourcetemplate.karmada.io/uid,work.karmada.io/conflict-resolution,work.karmada.io/name,work.karmada.io/namespace
    resourcetemplate.karmada.io/managed-labels: app,propagationpolicy.karmada.io/permanent-id,resourcebinding.karmada.io/permanent-id,work.karmada.io/permanent-id
`, claim, bindingID, workID, web, template.GetUID())
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: shop" + marks + "spec: " + string(defaulted)
	inNamespace := fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  labels: {work.karmada.io/permanent-id: %s, karmada.io/managed: "true"}
  annotations: {work.karmada.io/namespace: karmada-es-east, work.karmada.io/name: %s}
`, workID, namespace)
	// The rights of the account that impersonates are in Works, too.
	const impersonator = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: karmada-impersonator, labels: {karmada.io/system: "true", karmada.io/managed: "true"}},
  rules: [{apiGroups: [""], resources: [users], verbs: [impersonate], resourceNames: [alice]}]}`
	for _, work := range [][2]string{{namespace, inNamespace}, {web, deployment}, {workv1alpha1.WorkName("ClusterRole", "", "karmada-impersonator"), impersonator}} {
		name, manifest := work[0], work[1]
		create(t, member, karmada, "%s", manifest)
		text, err := yaml.YAMLToJSON([]byte(manifest))
		if err != nil {
			t.Fatal(err)
		}
		owner := ""
		if name == web {
			owner = fmt.Sprintf("resourcebinding.karmada.io/permanent-id: %s, ", bindingID)
		}
		create(t, hub, karmada, `
apiVersion: work.karmada.io/v1alpha1
kind: Work
metadata:
  name: %s
  namespace: karmada-es-east
  labels: {%swork.karmada.io/permanent-id: %s}
  finalizers: [karmada.io/execution-controller]
spec: {workload: {manifests: [%s]}}
status: {conditions: [{type: Applied, status: "True", reason: AppliedSuccessful, message: Manifest has been successfully applied, lastTransitionTime: "2026-01-01T00:00:00Z"}]}
`, name, owner, workID, text)
	}
}
