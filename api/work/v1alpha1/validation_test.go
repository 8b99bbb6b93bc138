package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func TestAnObjectIsOrderedOnce(t *testing.T) {
	manifest := func(apiVersion, kind, namespace, name string) string {
		return `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{"namespace":"` + namespace + `","name":"` + name + `"}}`
	}
	first := manifest("apps/v1", "Deployment", "shop", "web")
	cases := map[string]struct {
		second string
		same   bool
	}{
		"the same":          {first, true},
		"another version":   {manifest("apps/v1beta1", "Deployment", "shop", "web"), true},
		"another group":     {manifest("example.com/v1", "Deployment", "shop", "web"), false},
		"another kind":      {manifest("apps/v1", "StatefulSet", "shop", "web"), false},
		"another namespace": {manifest("apps/v1", "Deployment", "", "web"), false},
		"another name":      {manifest("apps/v1", "Deployment", "shop", "db"), false},
	}
	for reason, c := range cases {
		work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-a"}}
		for _, raw := range []string{first, c.second} {
			work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}})
		}
		errs := workv1alpha1.Validate(work)
		if !c.same && len(errs) > 0 {
			t.Errorf("%s is refused: %v", reason, errs)
		}
		if c.same && (len(errs) != 1 || errs[0].Type != field.ErrorTypeDuplicate || errs[0].Field != "spec.workload.manifests[1]") {
			t.Errorf("%s: got %v", reason, errs)
		}
	}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-a"}}
	for _, namespace := range []string{"", "default"} {
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests,
			workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(manifest("v1", "Secret", namespace, "a"))}})
	}
	if errs := workv1alpha1.Validate(work); len(errs) != 1 {
		t.Errorf("an object without a namespace goes into the default one, where it is already: got %v", errs)
	}
}

func TestValidate(t *testing.T) {
	cases := map[string]struct {
		namespace, manifest string
		want                []string // the fields found wrong
	}{
		"an object": {"karmada-es-a", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`, nil},
		"a place for no cluster": {"default", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`,
			[]string{"metadata.namespace"}},
		"no apiVersion": {"karmada-es-a", `{"kind":"Secret","metadata":{"name":"a"}}`, []string{"spec.workload.manifests[0].apiVersion"}},
		"no kind":       {"karmada-es-a", `{"apiVersion":"v1","metadata":{"name":"a"}}`, []string{"spec.workload.manifests[0].kind"}},
		"a name to be generated": {"karmada-es-a", `{"apiVersion":"v1","kind":"Secret","metadata":{"generateName":"a-"}}`,
			[]string{"spec.workload.manifests[0].metadata.name"}},
		"nothing at all": {"karmada-es-a", `{}`, []string{
			"spec.workload.manifests[0].apiVersion", "spec.workload.manifests[0].kind", "spec.workload.manifests[0].metadata.name"}},
		"no object": {"karmada-es-a", `[]`, []string{"spec.workload.manifests[0]"}},
		"null":      {"karmada-es-a", ``, []string{"spec.workload.manifests[0]"}},
		"a kind in capitals": {"karmada-es-a", `{"apiVersion":"v1","KIND":"Secret","metadata":{"name":"a"}}`,
			[]string{"spec.workload.manifests[0].kind"}},
		"a group of two": {"karmada-es-a", `{"apiVersion":"a/b/c","kind":"Secret","metadata":{"name":"a"}}`,
			[]string{"spec.workload.manifests[0].apiVersion"}},
		"a name that is a number": {"karmada-es-a", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":5}}`,
			[]string{"spec.workload.manifests[0].metadata.name"}},
		"a name that is a path": {"karmada-es-a", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"../a"}}`,
			[]string{"spec.workload.manifests[0].metadata.name"}},
		"a role's name": {"karmada-es-a", `{"apiVersion":"v1","kind":"Role","metadata":{"name":"system:Node_1"}}`, nil},
		"a namespace that cannot be": {"karmada-es-a", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"A b"}}`,
			[]string{"spec.workload.manifests[0].metadata.namespace"}},
		"metadata that is text": {"karmada-es-a", `{"apiVersion":"v1","kind":"Secret","metadata":"a"}`,
			[]string{"spec.workload.manifests[0].metadata"}},
		"a label that is a number": {"karmada-es-a", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","labels":{"a":5}}}`,
			[]string{"spec.workload.manifests[0].metadata.labels"}},
		"an annotation that is true": {"karmada-es-a", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","annotations":{"a":true}}}`,
			[]string{"spec.workload.manifests[0].metadata.annotations"}},
		"a list":                              {"karmada-es-a", `{"apiVersion":"v1","kind":"List","items":[]}`, []string{"spec.workload.manifests[0].kind"}},
		"a kind that only sounds like a list": {"karmada-es-a", `{"apiVersion":"example.com/v1","kind":"AllowList","metadata":{"name":"a"}}`, nil},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace}}
			work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(c.manifest)}}}
			var got []string
			for _, err := range workv1alpha1.Validate(work) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields found wrong differ (-want +got):\n%s", diff)
			}
		})
	}
}
