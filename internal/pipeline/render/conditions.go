package render

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

const (
	fieldManager = client.FieldOwner("flagship-render")
	// maxMessage is the length of a condition's message in the schema, in bytes: there are no fewer of them than characters.
	maxMessage = 32768
)

// reportRendered sets or removes the condition.
func (r *Reconciler) reportRendered(ctx context.Context, binding workv1alpha2.Binding, failure error) error {
	var want *metav1.Condition
	if failure != nil {
		want = new(workv1alpha2.NotRenderedCondition(binding.GetGeneration(), compose.ReasonOf(failure), cut(failure.Error(), maxMessage)))
	}
	return hubclient.ApplyCondition(ctx, r.client, fieldManager, binding, workv1alpha2.Rendered, want, r.deps.Clock.Now())
}

// kind is the kind of binding this reconciler is for.
func (r *Reconciler) kind() schema.GroupVersionKind {
	if r.namespaced {
		return workv1alpha2.GroupVersion.WithKind(workv1alpha2.KindResourceBinding)
	}
	return workv1alpha2.GroupVersion.WithKind(workv1alpha2.KindClusterResourceBinding)
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const dots = "..."
	at := limit - len(dots)
	for at > 0 && text[at]&0xC0 == 0x80 { // Not inside a character.
		at--
	}
	return text[:at] + dots
}
