package fleettest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// MemberAPI checks what the control plane relies on in the API server of a member, with the clients that it uses itself. It runs
// against a real API server and against the stand-ins of benchmarks, so that these answer as the real one does.
func MemberAPI(t *testing.T, config *rest.Config) {
	const id = "0123456789"
	fleet, err := member.NewFleet(member.Config{
		Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
			return member.Credential{Token: config.BearerToken, CABundle: config.CAData, Certificate: config.CertData, Key: config.KeyData}, nil
		},
		ControlPlane: ownership.ControlPlane{ID: id}, AllowLoopback: true,
		HasWork: func(types.NamespacedName) bool { return true }, // else little is kept of an object
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	system, err := kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "api", UID: "1"}, Spec: clusterv1alpha1.ClusterSpec{
		SyncMode: clusterv1alpha1.Push, APIEndpoint: config.Host, ID: string(system.UID),
	}}
	if err := fleet.Upsert(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	conn, _ := fleet.Get("api")
	m := &memberAPI{conn: conn, kube: kube, manager: ownership.ManagerOf(id), namespace: "api-" + rand.String(8)}
	t.Run("discovery", m.discovery)
	t.Run("apply", m.apply)
	t.Run("conflicts", m.conflicts)
	t.Run("watch", m.watch)
	t.Run("delete", m.delete)
	t.Run("pages", m.pages)
	t.Run("tokens", m.tokens)
	t.Run("definitions", m.definitions)
}

// memberAPI is one run of MemberAPI. Its steps build on each other.
type memberAPI struct {
	conn               *member.Conn
	kube               kubernetes.Interface
	manager, namespace string
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func (m *memberAPI) discovery(t *testing.T) {
	if ready, message, err := m.conn.Probe(t.Context()); !ready || err != nil {
		t.Fatalf("ready is %v: %s, %v", ready, message, err)
	}
	groups, lists, err := m.conn.Discovery().ServerGroupsAndResourcesWithContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			found[list.GroupVersion+" "+r.Name] = r.Namespaced
		}
	}
	for name, namespaced := range map[string]bool{
		"v1 nodes": false, "v1 pods": true, "apps/v1 deployments": true, "rbac.authorization.k8s.io/v1 clusterroles": false,
	} {
		if got, ok := found[name]; !ok || got != namespaced {
			t.Errorf("%s: served is %v, namespaced is %v", name, ok, got)
		}
	}
	namespaced, served := found["resource.k8s.io/v1 deviceclasses"] // since 1.34
	if before, had := found["resource.k8s.io/v1alpha2 resourceclasses"]; namespaced || before || !served && !had {
		t.Errorf("classes of devices: served in v1 is %v, in v1alpha2 %v; namespaced are %v and %v", served, had, namespaced, before)
	}
	if len(groups) < 15 {
		t.Errorf("%d groups", len(groups))
	}
	mapping, err := m.conn.Mapping(t.Context(), schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	if err != nil || mapping.Resource.Resource != "deployments" || !mapping.Namespaced {
		t.Errorf("Deployments are %v, %v", mapping, err)
	}
	if _, err := m.conn.Mapping(t.Context(), schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Nothing"}); !meta.IsNoMatchError(err) {
		t.Errorf("a kind that is not served: %v", err)
	}
	if _, err := m.conn.AnyMapping(t.Context(), schema.GroupKind{Group: "batch", Kind: "Job"}); err != nil {
		t.Errorf("Jobs: %v", err)
	}
	if id, err := m.conn.Schema(t.Context(), schema.GroupVersion{Group: "apps", Version: "v1"}); err != nil || id == "" {
		t.Errorf("the schemas of apps/v1 are %q, %v", id, err)
	}
}

func (m *memberAPI) objects() dynamic.ResourceInterface {
	return m.conn.Dynamic().Resource(configMaps).Namespace(m.namespace)
}

// send applies a ConfigMap as the control plane does.
func (m *memberAPI) send(ctx context.Context, name, value string, force bool, edit func(*unstructured.Unstructured)) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": value}}}
	object.SetName(name)
	object.SetNamespace(m.namespace)
	object.SetLabels(map[string]string{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue})
	object.SetAnnotations(map[string]string{workv1alpha1.WorkNamespaceAnnotation: workv1alpha1.ExecutionNamespace("api"), workv1alpha1.WorkNameAnnotation: name})
	if edit != nil {
		edit(object)
	}
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return m.objects().Patch(ctx, name, types.ApplyPatchType, raw, metav1.PatchOptions{FieldManager: m.manager, Force: &force})
}

// absent makes an apply a creation: no object has this version.
func absent(object *unstructured.Unstructured) { object.SetResourceVersion("1") }

func (m *memberAPI) apply(t *testing.T) {
	_, err := m.send(t.Context(), "a", "1", false, absent)
	if status, ok := err.(apierrors.APIStatus); !apierrors.IsNotFound(err) || !ok || status.Status().Details.Kind != "namespaces" { //nolint:errorlint // As it comes.
		t.Fatalf("in a namespace that does not exist: %v", err)
	}
	if _, err := m.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	made, err := m.send(t.Context(), "a", "1", false, absent)
	if err != nil {
		t.Fatal(err)
	}
	if fields := m.conn.ControlPlane().OurFields(made); fields["f:data"] == nil {
		t.Errorf("the fields that the control plane owns are %v", fields)
	}
	if _, err := m.send(t.Context(), "a", "2", false, absent); !apierrors.IsConflict(err) {
		t.Errorf("a creation of what exists: %v", err)
	}
	again, err := m.send(t.Context(), "a", "1", false, nil)
	if err != nil || again.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("the same again is version %s after %s, %v", again.GetResourceVersion(), made.GetResourceVersion(), err)
	}
	if _, err := m.send(t.Context(), "a", "2", false, func(o *unstructured.Unstructured) { o.SetUID("other") }); !apierrors.IsInvalid(err) {
		t.Errorf("for an object with another UID: %v", err)
	}
	_, err = m.send(t.Context(), "a", "1", false, func(o *unstructured.Unstructured) { o.Object["unknown"] = "x" })
	if err == nil || !strings.Contains(err.Error(), ".unknown: field not declared in schema") {
		t.Errorf("an unknown field: %v", err)
	}
}

func (m *memberAPI) conflicts(t *testing.T) {
	patch := []byte(`{"data":{"key":"theirs","other":"theirs"}}`)
	if _, err := m.kube.CoreV1().ConfigMaps(m.namespace).Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "other"}); err != nil {
		t.Fatal(err)
	}
	_, err := m.send(t.Context(), "a", "2", false, nil)
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		t.Errorf("a field of another manager: %v", err)
	}
	forced, err := m.send(t.Context(), "a", "2", true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if data, _, _ := unstructured.NestedStringMap(forced.Object, "data"); data["key"] != "2" || data["other"] != "theirs" {
		t.Errorf("data is %v", data)
	}
}

func (m *memberAPI) watch(t *testing.T) {
	m.conn.Hold("test", configMaps)
	t.Cleanup(func() { m.conn.Release("test") })
	Eventually(t, "the watch to begin", func() bool { return m.conn.HasSynced(configMaps) })
	value := func(name, want string) func() bool {
		return func() bool {
			object, ok := m.conn.Lookup(configMaps, m.namespace, name)
			got, _, _ := unstructured.NestedString(objectOf(object), "data", "key")
			return ok == (want != "") && got == want
		}
	}
	Eventually(t, "the object of before", value("a", "2"))
	if _, err := m.send(t.Context(), "b", "new", false, absent); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "a new object", value("b", "new"))
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, workv1alpha1.ManagedLabel)
	if _, err := m.objects().Patch(t.Context(), "b", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "an object without the label to go", value("b", ""))
}

func objectOf(u *unstructured.Unstructured) map[string]any {
	if u == nil {
		return nil
	}
	return u.Object
}

func (m *memberAPI) delete(t *testing.T) {
	other := types.UID("other")
	if err := m.objects().Delete(t.Context(), "b", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}); !apierrors.IsConflict(err) {
		t.Errorf("with the UID of another object: %v", err)
	}
	finalizers := func(list ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.SetFinalizers(list) }
	}
	if _, err := m.send(t.Context(), "b", "new", true, finalizers("example.com/hold")); err != nil {
		t.Fatal(err)
	}
	if err := m.objects().Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	held, err := m.objects().Get(t.Context(), "b", metav1.GetOptions{})
	if err != nil || held.GetDeletionTimestamp() == nil {
		t.Fatalf("an object with a finalizer: %v", err)
	}
	if _, err := m.objects().Patch(t.Context(), "b", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.objects().Get(t.Context(), "b", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without its finalizer: %v", err)
	}
}

func (m *memberAPI) pages(t *testing.T) {
	for i := range 5 {
		if _, err := m.send(t.Context(), fmt.Sprintf("page-%d", i), "x", false, nil); err != nil {
			t.Fatal(err)
		}
	}
	options := metav1.ListOptions{LabelSelector: workv1alpha1.ManagedLabel + "=" + workv1alpha1.ManagedLabelValue, Limit: 2}
	var names []string
	for {
		page, err := m.objects().List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			names = append(names, item.GetName())
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "a page-0 page-1 page-2 page-3 page-4" {
		t.Errorf("the pages have %s", got)
	}
	heads, err := m.conn.Metadata().Resource(configMaps).Namespace(m.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(heads.Items) < 6 || heads.Items[0].Name == "" {
		t.Errorf("the metadata is %v, %v", heads, err)
	}
}

func (m *memberAPI) tokens(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "account"}}
	if _, err := m.kube.CoreV1().ServiceAccounts(m.namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	life := 110 * time.Minute // neither the default, an hour, nor more than a member with a limit gives
	seconds := int64(life / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	issued, err := m.kube.CoreV1().ServiceAccounts(m.namespace).CreateToken(t.Context(), "account", request, metav1.CreateOptions{})
	if err != nil || strings.Count(issued.Status.Token, ".") != 2 || time.Until(issued.Status.ExpirationTimestamp.Time) < life-20*time.Minute {
		t.Errorf("the token is %v, %v", issued, err)
	}
	if _, err := m.kube.CoreV1().ServiceAccounts(m.namespace).CreateToken(t.Context(), "none", request, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a token of no account: %v", err)
	}
}

func (m *memberAPI) definitions(t *testing.T) {
	group := m.namespace + ".example.com"
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := m.conn.Dynamic().Resource(resource).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.kube.Discovery().RESTClient().Delete().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things." + group).Do(context.WithoutCancel(t.Context())).Error()
	})
	kind := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}
	Eventually(t, "the kind to be served", func() bool {
		_, err := m.conn.Mapping(t.Context(), kind)
		return err == nil
	})
	thing := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"x": "y"}}}
	thing.SetGroupVersionKind(kind)
	thing.SetName("one")
	things := m.conn.Dynamic().Resource(kind.GroupVersion().WithResource("things")).Namespace(m.namespace)
	Eventually(t, "an object of the kind", func() bool {
		made, err := things.Apply(t.Context(), "one", thing, metav1.ApplyOptions{FieldManager: m.manager})
		return err == nil && made.GetGeneration() == 1
	})
}
