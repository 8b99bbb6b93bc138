package render

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// panicsAbout is an interpreter that panics for one number of replicas, as for one cluster.
type panicsAbout struct {
	replicasOnly
	replicas int32
}

func (p panicsAbout) Revise(ctx context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	if replicas == p.replicas {
		panic("a manifest that the interpreter does not expect")
	}
	return p.replicasOnly.Revise(ctx, obj, replicas)
}

// TestAPanicIsThatOfOneCluster: an interpreter that panics about what one cluster gets neither ends the process nor keeps the others from
// their Works.
func TestAPanicIsThatOfOneCluster(t *testing.T) {
	binding := nginxBinding("m1", "m2")
	s := newStage(t, binding, cluster("m1", nil), cluster("m2", nil))
	s.reconciler.composer.Interpreter = panicsAbout{replicas: binding.Spec.Clusters[0].Replicas}
	writes, _, err := s.reconcile(binding)
	panicked, ok := errors.AsType[*controlloop.PanicError](err)
	if !ok || len(panicked.Stack) == 0 {
		t.Errorf("got %v, want a panic with its stack", err)
	}
	if len(writes) == 0 || writes[0] != "create "+"karmada-es-m2/"+s.work("m2").Name {
		t.Errorf("writes are %v, want the Work of the other cluster", writes)
	}
	s.reconciler.composer.Interpreter = replicasOnly{}
	s.mustReconcile(binding)
	s.work("m1")
}
