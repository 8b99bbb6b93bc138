package render

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// unreadable is a client without an answer about Clusters.
type unreadable struct {
	client.Client
	failure error
}

func (u unreadable) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*clusterv1alpha1.Cluster); ok {
		return u.failure
	}
	return u.Client.Get(ctx, key, obj, opts...)
}

// TestWorksOfAClusterThatCannotBeReadStay: if the cluster is being removed, what happens to their objects may not be written to them yet.
func TestWorksOfAClusterThatCannotBeReadStay(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, binding, cluster("m1", nil))
	s.mustReconcile(binding)
	s.writes = nil
	failure := errors.New("no answer")
	s.reconciler.client = unreadable{s.client, failure}
	works := []*workv1alpha1.Work{s.work("m1")}
	if err := s.reconciler.deleteAll(t.Context(), works); !errors.Is(err, failure) {
		t.Errorf("got %v, want the failure, to be retried", err)
	}
	wantWrites(t, "the cluster cannot be read", s.writes)
	s.reconciler.client = s.client
	if err := s.reconciler.deleteAll(t.Context(), works); err != nil || len(s.writes) == 0 {
		t.Errorf("writes %v, %v; want the deletion once the cluster can be read", s.writes, err)
	}
}
