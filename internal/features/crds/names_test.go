package crds

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// builderIndexer registers indexes with a fake client.
type builderIndexer struct{ builder *fake.ClientBuilder }

func (b builderIndexer) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	b.builder.WithIndex(obj, field, extract)
	return nil
}

// late is a reader that is built after its indexes.
type late struct{ client.Reader }

func TestDefinitionsAreFoundInWorks(t *testing.T) {
	manifest := func(raw string) workv1alpha1.Manifest {
		return workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}
	}
	carrying := &workv1alpha1.Work{
		ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-m", Name: "gears", UID: "1"},
		Spec: workv1alpha1.WorkSpec{Workload: workv1alpha1.WorkloadTemplate{Manifests: []workv1alpha1.Manifest{
			manifest(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "about"}, "data": {"text": "CustomResourceDefinition"}}`),
			manifest(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gears.example.io"},
				"spec": {"group": "example.io", "names": {"plural": "gears", "kind": "Gear"}, "versions": []}}`),
		}}},
	}
	other := &workv1alpha1.Work{
		ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-m", Name: "other", UID: "2"},
		Spec: workv1alpha1.WorkSpec{Workload: workv1alpha1.WorkloadTemplate{Manifests: []workv1alpha1.Manifest{
			manifest(`["CustomResourceDefinition"]`),
			manifest(`{"apiVersion": "example.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "cogs.example.io"},
				"spec": {"group": "example.io", "names": {"kind": "Cog"}}}`),
		}}},
	}
	scheme := runtime.NewScheme()
	if err := workv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(carrying, other)
	works := &late{}
	names, err := NamesFromWorks(t.Context(), builderIndexer{builder}, works)
	if err != nil {
		t.Fatal(err)
	}
	works.Reader = builder.Build()

	for kind, want := range map[runtimeschema.GroupVersionKind]string{
		{Group: "example.io", Version: "v2", Kind: "Gear"}:  "gears.example.io",
		{Group: "example.com", Version: "v1", Kind: "Gear"}: "",
		{Group: "example.io", Version: "v1", Kind: "Cog"}:   "",
		{Version: "v1", Kind: "ConfigMap"}:                  "",
	} {
		if got := names.Named(t.Context(), kind); got != want {
			t.Errorf("the definition of %s is %q, want %q", kind, got, want)
		}
	}
	about, ok := names.Reference(t.Context(), "gears.example.io")
	if !ok || about.Kind != "Work" || about.Name != "gears" || about.UID != "1" || about.Namespace != "karmada-es-m" {
		t.Errorf("events are about %+v, %v; want the Work of the definition", about, ok)
	}
	if _, ok := names.Reference(t.Context(), "cogs.example.io"); ok {
		t.Error("an object of another group counts as a definition")
	}
}
