package builtin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestInStoredVersion(t *testing.T) {
	stored := func(r schema.GroupResource) string {
		return map[string]string{"gauges.example.com": "v1beta1", "dials.example.com": "v1"}[r.String()]
	}
	list := func(gv string, names ...string) *metav1.APIResourceList {
		out := &metav1.APIResourceList{GroupVersion: gv, APIResources: []metav1.APIResource{}}
		for _, name := range names {
			out.APIResources = append(out.APIResources, metav1.APIResource{Name: name})
		}
		return out
	}
	got := inStoredVersion([]*metav1.APIResourceList{list("v1", "configmaps"), list("example.com/v1", "dials", "gauges", "others")}, stored)
	want := []*metav1.APIResourceList{list("v1", "configmaps"), list("example.com/v1", "dials", "others"), list("example.com/v1beta1", "gauges")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
