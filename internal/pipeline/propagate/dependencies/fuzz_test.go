package dependencies

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// FuzzDependencies reads any list of dependencies from a binding. What counts of it is of the binding's namespace, or a definition.
func FuzzDependencies(f *testing.F) {
	f.Add(`[{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"s"},{"apiVersion":"v1","kind":"Namespace","name":"bank"}]`)
	f.Add(`[{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","name":"a.b"},{"kind":"Secret","namespace":"bank","labelSelector":{}}]`)
	f.Add(`{"a": 1}`)
	f.Fuzz(func(t *testing.T, list string) {
		for _, namespace := range []string{"shop", ""} {
			binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Annotations: map[string]string{workv1alpha2.DependenciesAnnotation: list},
			}}
			var parsed []interpret.Dependency
			bounded.Run(t, func() {
				parsed = Parse(binding)
				_ = IndexValues(binding)
				_ = RefersTo(binding, policy.Subject{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: "shop", Name: "s"})
			})
			for _, d := range parsed {
				definition := d.Namespace == "" && d.Kind == "CustomResourceDefinition"
				if !definition && (namespace == "" || d.Namespace != namespace) {
					t.Fatalf("a binding of namespace %q depends on %+v", namespace, interpret.Dependency(d))
				}
			}
		}
	})
}
