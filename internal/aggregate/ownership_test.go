package aggregate

import (
	"testing"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func TestOnlyItsOwnBindingWritesATemplate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*workv1alpha2.ResourceBinding)
		want   bool
	}{
		"its own":          {func(*workv1alpha2.ResourceBinding) {}, true},
		"another's name":   {func(b *workv1alpha2.ResourceBinding) { b.Name = "mine" }, false},
		"other namespace":  {func(b *workv1alpha2.ResourceBinding) { b.Namespace = "tenant" }, false},
		"another's object": {func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.Name = "api" }, false},
	} {
		b := binding()
		test.change(b)
		if got := speaksFor(b); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	wide := &workv1alpha2.ClusterResourceBinding{}
	wide.Name = "reader-clusterrole"
	wide.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "reader"}
	if !speaksFor(wide) {
		t.Error("the binding of a cluster-scoped template does not count as its own")
	}
}

func TestWorksThatNameAnotherBindingDoNotCount(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	stolen := append(good, func(w *workv1alpha1.Work) { w.Annotations[workv1alpha2.ResourceBindingNameAnnotation] = "other" })
	unnamed := append(good, func(w *workv1alpha1.Work) { w.Annotations = nil })
	s := newShore(t, binding(), work("a", stolen...), work("b", unnamed...))
	works, err := s.loop.works(t.Context(), s.binding())
	if err != nil {
		t.Fatal(err)
	}
	if len(works) > 0 {
		t.Errorf("%d Works count for a binding that they do not name", len(works))
	}
}
