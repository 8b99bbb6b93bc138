package promote

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

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
	p, err := orphanPromotion(orphan(nil), "east", true)
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
	if p, err := orphanPromotion(orphan(nil), "east", false); err != nil || p.policy != nil || p.template == nil {
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
		if _, err := orphanPromotion(orphan(change), "east", true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
}
