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

// TestAgainstTheAPIAlone has a control plane that serves Karmada's kinds and runs nothing of Flagship. Its objects, and those in the member,
// are as Karmada's controllers write them. They are imported, and then exported to another one of that kind.
func TestAgainstTheAPIAlone(t *testing.T) {
	fleettest.Nightly(t, "TestImport guards an import and an export, too; this takes 140 s")
	t.Parallel()
	source, member := apiAlone(t), fleettest.StartMember(t, "east", "--nodes", "1")
	joined(t, source, member)
	propagated(t, source, member)
	notSupported(t, source)
	rolledOut(t, map[string]*fleettest.Part{"east": member})
	kept := objectsOf(t, member)
	if len(kept) != 5 { // a Namespace, a Deployment with two pods, and a Boat
		t.Fatalf("the member has %v", kept)
	}

	hub := fleettest.StartHub(t)
	importing := []string{"import", "--kubeconfig", hub.Kubeconfig, "--from-kubeconfig", source.Kubeconfig}
	notes(t, importing)
	copied := run(t, append(importing, "-o", "json")...)
	if len(copied.Copied.Refused) > 0 || copied.Comparison.Same != 3 || len(copied.Comparison.Differences) > 0 {
		t.Fatalf("the import reports %+v", copied)
	}
	// Without the rules of the other control plane the result would be another one.
	if raw := manifestIn(t, hub, "Deployment", "web"); !strings.Contains(raw, registry) {
		t.Errorf("the Deployment is rendered without its override policy: %s", raw)
	}
	if raw := manifestIn(t, hub, "Boat", "gull"); !strings.Contains(raw, `"watches":6`) {
		t.Errorf("the Boat is rendered without its customization: %s", raw)
	}
	stop := renewed(t, source)
	refused := fleettest.Flagship(t, append(importing, "--cut-over")...)
	for _, lease := range leases {
		if refused.Code == 0 || !strings.Contains(refused.Stderr, "the other control plane may still write to clusters: Lease ") || !strings.Contains(refused.Stderr, "Lease "+lease.String()+" is renewed") {
			t.Errorf("a cut-over while the Lease %s is renewed: %+v", lease, refused)
		}
	}
	stop()
	if now := objectsOf(t, member); !maps.Equal(now, kept) {
		t.Errorf("objects have changed before the cut-over, from %v to %v", kept, now)
	}
	if r := fleettest.Flagship(t, append(importing, "--cut-over")...); r.Code != 0 || !strings.Contains(r.Stdout, "cluster east is taken over") {
		t.Fatalf("the cut-over: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	applied(t, hub, "east")
	taken(t, member)
	same := func() {
		t.Helper()
		unchanged(t, map[string]*fleettest.Part{"east": member}, map[string]map[string]object{"east": kept})
		for _, o := range managed(t, member) {
			for _, entry := range o.GetManagedFields() {
				if entry.Manager == karmada {
					t.Errorf("%s has fields of %s", o.GetKind(), karmada)
				}
			}
		}
	}
	same()
	fleettest.ExpectListed(t, hub.Cluster, &workv1alpha2.ResourceBindingList{}, shop, func(all *workv1alpha2.ResourceBindingList) error {
		for _, b := range all.Items {
			if len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Name != "east" || b.Spec.Clusters[0].Replicas != b.Spec.Replicas {
				return fmt.Errorf("the binding is %+v", b.Spec)
			}
			if err := fleettest.ConditionTrue(b.Status.Conditions, workv1alpha2.FullyApplied); err != nil {
				return err
			}
		}
		if len(all.Items) != 2 {
			return fmt.Errorf("there are %d bindings", len(all.Items))
		}
		return nil
	})
	staysUnmarked(t, hub, member)
	same()

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

// staysUnmarked checks that a Deployment which was taken over as it was is known as up to date, and that neither a start of the control
// plane nor a change of another object writes it.
func staysUnmarked(t *testing.T, hub, member *fleettest.Part) {
	t.Helper()
	upToDate := func(d *appsv1.Deployment) error {
		if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != 2 {
			return fmt.Errorf("the status of generation %d is %+v", d.Generation, d.Status)
		}
		return nil
	}
	fleettest.ExpectEventually(t, hub.Cluster, fleettest.Deployment(shop, "web", 2), upToDate)
	before := fleettest.CountRequests(t, member.Cluster)
	hub.Stop(t)
	hub.Start(t)
	sent := fleettest.ConfigMap(shop, "later", map[string]string{"a": "b"})
	fleettest.Create(t, hub.Cluster, sent, fleettest.Policy(shop, "later", fleettest.To("east"), sent))
	fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap(shop, "later", nil), fleettest.Exists)
	fleettest.ExpectEventually(t, hub.Cluster, fleettest.Deployment(shop, "web", 2), upToDate)
	if writes := fleettest.CountRequests(t, member.Cluster).Since(before).Writes().Of("deployments"); writes.Total() > 0 {
		t.Errorf("the Deployment is written after a start:\n%s", writes)
	}
	fleettest.Delete(t, hub.Cluster, sent)
	fleettest.ExpectGone(t, member.Cluster, fleettest.ConfigMap(shop, "later", nil))
}

// manifestIn is the object that a control plane would write to the member.
func manifestIn(t *testing.T, hub *fleettest.Part, kind, name string) string {
	t.Helper()
	work := workOf("east", kind, name)
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(work), work); err != nil || len(work.Spec.Workload.Manifests) != 1 {
		t.Fatalf("the Work has %d manifests: %v", len(work.Spec.Workload.Manifests), err)
	}
	return string(work.Spec.Workload.Manifests[0].Raw)
}

// exportsToTheAPIAlone gives the member to a control plane whose controllers do not run yet, so that it renders no Works to compare.
func exportsToTheAPIAlone(t *testing.T, hub *fleettest.Part) {
	t.Helper()
	target := apiAlone(t)
	exporting := []string{"export", "--kubeconfig", hub.Kubeconfig, "--to-kubeconfig", target.Kubeconfig, "--timeout", "30s"}
	r := fleettest.Flagship(t, append(exporting, "-o", "json")...)
	var exported report
	if err := json.Unmarshal([]byte(r.Stdout), &exported); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if r.Code == 0 || len(exported.Copied.Refused) > 0 || len(exported.Comparison.Differences) != 3 {
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
		established(t, hub, d)
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
