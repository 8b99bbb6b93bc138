package aggregate

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func TestOnlyItsOwnBindingWritesATemplate(t *testing.T) {
	alternative := workv1alpha2.AlternativeBindingName(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "shop", "web")
	foreign := func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Resource.UID, b.Spec.Resource.APIVersion = "other", "example.io/v1"
	}
	for name, test := range map[string]struct {
		change func(*workv1alpha2.ResourceBinding)
		// usual changes the binding that has the usual name.
		usual func(*workv1alpha2.ResourceBinding)
		want  bool
	}{
		"its own":                      {change: func(*workv1alpha2.ResourceBinding) {}, want: true},
		"another's name":               {change: func(b *workv1alpha2.ResourceBinding) { b.Name = "mine" }},
		"other namespace":              {change: func(b *workv1alpha2.ResourceBinding) { b.Namespace = "tenant" }},
		"another's object":             {change: func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.Name = "api" }},
		"the name is taken":            {change: func(b *workv1alpha2.ResourceBinding) { b.Name = alternative }, usual: foreign, want: true},
		"the name is its own's, again": {change: func(b *workv1alpha2.ResourceBinding) { b.Name = alternative }},
	} {
		usual, b := binding(), binding()
		if test.usual != nil {
			test.usual(usual)
		}
		s := newFixture(t, usual)
		test.change(b)
		if got, err := s.loop.speaksFor(t.Context(), b); err != nil || got != test.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, test.want)
		}
	}
	wide := &workv1alpha2.ClusterResourceBinding{}
	wide.Name = "reader-clusterrole"
	wide.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "reader"}
	if its, err := newFixture(t, binding()).loop.speaksFor(t.Context(), wide); err != nil || !its {
		t.Errorf("the binding of a cluster-scoped template: %v, %v", its, err)
	}
}

func TestWorksThatNameAnotherBindingDoNotCount(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	stolen := append(good, func(w *workv1alpha1.Work) { w.Annotations[workv1alpha2.ResourceBindingNameAnnotation] = "other" })
	unnamed := append(good, func(w *workv1alpha1.Work) { w.Annotations = nil })
	s := newFixture(t, binding(), work("a", stolen...), work("b", unnamed...))
	works, err := s.loop.works(t.Context(), s.binding())
	if err != nil {
		t.Fatal(err)
	}
	if len(works) > 0 {
		t.Errorf("%d Works count for a binding that they do not name", len(works))
	}
}
