package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

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
		"no object":                           {"karmada-es-a", `[]`, []string{"spec.workload.manifests[0]"}},
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
