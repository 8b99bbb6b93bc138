package crds

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

// oneTemplate has one template as the cache shows it, nil if it shows none, and as the API server has it.
type oneTemplate struct {
	Templates
	cached *metav1.PartialObjectMetadata
	stored *unstructured.Unstructured
	failed error
}

func (o oneTemplate) Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	return o.cached, o.cached != nil
}

func (o oneTemplate) Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error) {
	if o.stored == nil && o.failed == nil {
		return nil, apierrors.NewNotFound(runtimeschema.GroupResource{Resource: "gears"}, "one")
	}
	return o.stored, o.failed
}

// A cache that is late does not make an object wanted that was deleted.
func TestInstancesAreWantedByTheStorage(t *testing.T) {
	gear := `{"apiVersion":"example.io/v1","kind":"Gear","metadata":{"namespace":"shop","name":"one"}}`
	work := &workv1alpha1.Work{}
	work.Namespace, work.Name = workv1alpha1.ExecutionNamespace("a"), "one"
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(gear)}}}
	scheme := runtime.NewScheme()
	if err := workv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	works := fake.NewClientBuilder().WithScheme(scheme).WithObjects(work).Build()
	ending := &unstructured.Unstructured{}
	ending.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	failed := errors.New("no answer")
	for name, tc := range map[string]struct {
		templates oneTemplate
		wanted    bool
		err       error
	}{
		"the cache shows none":          {templates: oneTemplate{stored: &unstructured.Unstructured{}}},
		"both have it":                  {templates: oneTemplate{cached: &metav1.PartialObjectMetadata{}, stored: &unstructured.Unstructured{}}, wanted: true},
		"it was deleted a moment ago":   {templates: oneTemplate{cached: &metav1.PartialObjectMetadata{}}},
		"its deletion was requested so": {templates: oneTemplate{cached: &metav1.PartialObjectMetadata{}, stored: ending}},
		"the API server does not answer": {
			templates: oneTemplate{cached: &metav1.PartialObjectMetadata{}, failed: failed}, err: failed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			carrier := &Carrier{deps: Deps{Templates: tc.templates, Works: works}}
			counts, wanted, err := carrier.Instances(t.Context(), "example.io", "Gear")
			if !errors.Is(err, tc.err) || wanted != tc.wanted {
				t.Errorf("wanted is %t, %v", wanted, err)
			}
			if diff := cmp.Diff(map[string]int{"a": 1}, counts); tc.err == nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}
