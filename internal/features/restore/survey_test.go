package restore

import (
	"encoding/json"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// configMap is the metadata of a ConfigMap that a Work named w carries.
func configMap(name, template, generation, record string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{
			workv1alpha1.WorkNamespaceAnnotation: "karmada-es-m1", workv1alpha1.WorkNameAnnotation: "w",
			workv1alpha1.LastAppliedAnnotation: record, workv1alpha1.TemplateUIDAnnotation: template, workv1alpha1.TemplateGenerationAnnotation: generation,
		}},
	}
}

func workWith(t *testing.T, objects ...metav1.PartialObjectMetadata) workv1alpha1.Work {
	t.Helper()
	work := workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-m1", Name: "w"}}
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return work
}

func TestCompare(t *testing.T) {
	known := workWith(t, configMap("a", "uid-1", "2", "hash.x"))
	now := metav1.Now()
	leaving, ends := workWith(t, configMap("a", "uid-1", "2", "hash.x")), configMap("a", "uid-1", "2", "hash.x")
	leaving.DeletionTimestamp, leaving.Finalizers, ends.DeletionTimestamp = &now, []string{workv1alpha1.ExecutionFinalizer}, &now
	cases := map[string]struct {
		live  metav1.PartialObjectMetadata
		works []workv1alpha1.Work
		want  []Class
	}{
		"Same":            {configMap("a", "uid-1", "2", "hash.x"), []workv1alpha1.Work{known}, nil},
		"Older":           {configMap("a", "uid-1", "1", "hash.x"), []workv1alpha1.Work{known}, nil},
		"LaterGeneration": {configMap("a", "uid-1", "3", "hash.x"), []workv1alpha1.Work{known}, []Class{Newer}},
		"OtherTemplate":   {configMap("a", "uid-2", "1", "hash.x"), []workv1alpha1.Work{known}, []Class{Newer}},
		"OtherContent":    {configMap("a", "uid-1", "2", "other.x"), []workv1alpha1.Work{known}, []Class{Different}},
		"NoRecord":        {configMap("a", "uid-1", "2", ""), []workv1alpha1.Work{known}, nil},
		"LeftByOthers":    {configMap("a", "uid-2", "9", ""), []workv1alpha1.Work{known}, nil},
		"NoWork":          {configMap("a", "uid-1", "1", "hash.x"), nil, []Class{Orphan}},
		"NotInItsWork":    {configMap("b", "uid-1", "1", "hash.x"), []workv1alpha1.Work{known}, []Class{Unwanted}},
		"WorkLeaves":      {configMap("a", "uid-1", "2", "hash.x"), []workv1alpha1.Work{leaving}, []Class{Unwanted}},
		"LeavesAlready":   {ends, []workv1alpha1.Work{leaving}, nil},
		// What Deletes leaves is not orphaned while its Work is there.
		"Kept": {configMap("kept", "uid-1", "2", "hash.x"), []workv1alpha1.Work{leaving}, nil},
	}
	scheme := runtime.NewScheme()
	if err := workv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme)
			for i := range tc.works {
				builder = builder.WithObjects(&tc.works[i])
			}
			g := &Guard{Deps: Deps{Client: builder.Build(), Deletes: func(_ ownership.ControlPlane, work *workv1alpha1.Work, live *unstructured.Unstructured) bool {
				return work.Name == "w" && live.GetKind() == "ConfigMap" && live.GetName() != "kept"
			}}}
			var report Report
			known := knownFrom("m1", ownership.ControlPlane{}, tc.works, func(*workv1alpha1.Work) []string { return []string{"hash"} })
			kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
			if err := g.compare(t.Context(), known, schema.GroupResource{Resource: "configmaps"}, kind, &tc.live, &report); err != nil {
				t.Fatal(err)
			}
			var got []Class
			for _, f := range report.Findings {
				got = append(got, f.Class)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("found %v, want %v", got, tc.want)
			}
		})
	}
}

func TestReportsAreBounded(t *testing.T) {
	var r Report
	for range maxFindings + 5 {
		r.add(Finding{Class: Orphan})
	}
	if len(r.Findings) != maxFindings || r.Counts[Orphan] != maxFindings+5 {
		t.Errorf("%d are listed and %d counted", len(r.Findings), r.Counts[Orphan])
	}
}

func TestCountOfAnotherCluster(t *testing.T) {
	lease := coordinationv1.LeaseSpec{HolderIdentity: new("uid-1"), LeaseTransitions: new(int32(7))}
	if got, counted := epochIn(lease, "uid-1"); got != 7 || !counted {
		t.Errorf("the count is %d, want 7", got)
	}
	if got, counted := epochIn(lease, "uid-2"); got != 0 || counted {
		t.Errorf("the count of a cluster that was joined again is %d, want none", got)
	}
}
