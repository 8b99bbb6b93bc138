package appfailover

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
)

const fieldManager = client.FieldOwner("flagship-application-failover")

// reportState sets or removes the condition StatePreserved.
func (m *mover) reportState(ctx context.Context, b workv1alpha2.Binding, hold *held) error {
	var want *metav1.Condition
	if hold != nil {
		want = new(workv1alpha2.StateNotPreservedCondition(b.GetGeneration(), hold.reason, hold.message))
	}
	return hubclient.ApplyCondition(ctx, m.Client, fieldManager, b, workv1alpha2.StatePreserved, want, m.Clock.Now())
}
