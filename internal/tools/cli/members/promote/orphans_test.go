package promote

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/taken"
)

// configMaps is the request for one.
var configMaps = &taken.Request{Namespace: "shop", Name: "made", Mapping: &meta.RESTMapping{
	Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Scope: meta.RESTScopeNamespace,
}}

// orphan is an object as a control plane left it in a member.
func orphan(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": "v"},
		"metadata": map[string]any{
			"name": "made", "namespace": "shop", "uid": "1", "resourceVersion": "2",
			"labels":      map[string]any{"app": "web", workv1alpha1.ManagedLabel: "true", workv1alpha1.WorkPermanentIDLabel: "id"},
			"annotations": map[string]any{"note": "own", workv1alpha1.TemplateUIDAnnotation: "uid", workv1alpha1.ControlPlaneAnnotation: "id"},
		},
	}}
	if change != nil {
		change(obj)
	}
	return obj
}

func TestOrphanPromotion(t *testing.T) {
	p, err := orphanPromotion(configMaps, orphan(nil), "east", true)
	if err != nil {
		t.Fatal(err)
	}
	labels, annotations := p.template.GetLabels(), p.template.GetAnnotations()
	if len(labels) != 1 || labels["app"] != "web" || len(annotations) != 1 || annotations["note"] != "own" {
		t.Errorf("the template has labels %v and annotations %v, want those of its author", labels, annotations)
	}
	if p.template.GetUID() != "" || p.template.GetResourceVersion() != "" {
		t.Errorf("the template is %v", p.template.Object)
	}
	if clusters, _, _ := unstructured.NestedStringSlice(p.policy.Object, "spec", "placement", "clusterAffinity", "clusterNames"); len(clusters) != 1 || clusters[0] != "east" {
		t.Errorf("the policy is %v", p.policy.Object)
	}
	if p, err := orphanPromotion(configMaps, orphan(nil), "east", false); err != nil || p.policy != nil || p.template == nil {
		t.Errorf("without a policy: %+v, %v", p, err)
	}
}

func TestWhatIsNoTemplate(t *testing.T) {
	for want, change := range map[string]func(*unstructured.Unstructured){
		"being deleted":      func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.Unix(1, 0))) },
		"without a template": func(o *unstructured.Unstructured) { o.SetAnnotations(nil) },
		"made it itself": func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{workv1alpha1.DerivedLabel: "EndpointSlice"})
		},
		"promote that instead": func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}})
		},
	} {
		if _, err := orphanPromotion(configMaps, orphan(change), "east", true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
}

// TestARecordIsOfOneTemplate: the uid of a template that was deleted makes no other object known.
func TestARecordIsOfOneTemplate(t *testing.T) {
	same := fleetv1alpha1.ObjectIdentity{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "made"}
	if !wasTemplate(configMaps, same) {
		t.Error("the template is not known")
	}
	for _, change := range []func(*fleetv1alpha1.ObjectIdentity){
		func(o *fleetv1alpha1.ObjectIdentity) { o.APIVersion, o.Kind = "rbac.authorization.k8s.io/v1", "Role" },
		func(o *fleetv1alpha1.ObjectIdentity) { o.Kind = "Secret" },
		func(o *fleetv1alpha1.ObjectIdentity) { o.Namespace = "other" },
		func(o *fleetv1alpha1.ObjectIdentity) { o.Name = "other" },
		func(o *fleetv1alpha1.ObjectIdentity) { *o = fleetv1alpha1.ObjectIdentity{} },
	} {
		other := same
		if change(&other); wasTemplate(configMaps, other) {
			t.Errorf("%+v is taken for it", other)
		}
	}
}

// TestWhatACommandLineNeeds: orphans are created as they were read, and what acts on the control plane one by one.
func TestWhatACommandLineNeeds(t *testing.T) {
	for line, want := range map[string]string{
		"--cluster m1":                                             "either an object or --orphans",
		"deployment/web":                                           "needs the cluster",
		"--cluster m1 --orphans":                                   "give the digest",
		"--cluster m1 --orphans --unrecorded":                      "needs --with-policy",
		"--cluster m1 deployment/web --unrecorded":                 "needs --with-policy",
		"--cluster m1 deployment/web --with-policy":                "needs --orphans",
		"--cluster m1 --orphans --dry-run --acts-on-control-plane": "one object",
		"--cluster m1 a b/c":                                       "one object",
	} {
		c := NewCommand(cli.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs(strings.Fields(line))
		err := c.ExecuteContext(t.Context())
		if _, misuse := errors.AsType[cli.UsageError](err); !misuse || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
