package hubclient

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// StoredEvents returns a recorder of events that are stored in the control plane. A manager has to run it.
func StoredEvents(kube kubernetes.Interface, clk clock.PassiveClock) *events.Deduplicating {
	return events.New(func(ctx context.Context, e *corev1.Event) error {
		_, err := kube.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
		return err
	}, clk)
}
