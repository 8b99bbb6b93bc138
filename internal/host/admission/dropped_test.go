package admission_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"
)

// A Service whose address a user chose gets a warning when it is created: members allocate another one.
func TestAnAddressThatIsNotSentWarns(t *testing.T) {
	for address, want := range map[string]int{"": 0, "None": 0, "10.0.0.7": 1} {
		service := &core.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: core.ServiceSpec{ClusterIP: address}}
		for operation, count := range map[admission.Operation]int{admission.Create: want, admission.Update: 0} {
			var got recorder
			kind := schema.GroupVersionKind{Version: "v1", Kind: "Service"}
			a := admission.NewAttributesRecord(service, service, kind, "shop", "web", kind.GroupVersion().WithResource("services"), "", operation, nil, false, nil)
			if err := newPlugin().Validate(warning.WithWarningRecorder(t.Context(), &got), a, nil); err != nil {
				t.Fatal(err)
			}
			if len(got) != count || count > 0 && !strings.HasPrefix(got[0], "spec.clusterIP: ") {
				t.Errorf("%s with %q: the warnings are %q", operation, address, got)
			}
		}
	}
}
