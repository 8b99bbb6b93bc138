package admission

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"

	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// AuthorsName is the name of Authors in the admission chain.
const AuthorsName = "FlagshipAuthors"

// Authors stores which user requests to create, change or delete an object, for the history, and the span of the request, for traces. It runs after every other
// plugin of the chain, changes nothing, and refuses nothing. What the control plane writes itself is left out, as are dry runs and
// subresources.
type Authors struct{ requests *history.Authors }

var _ admission.ValidationInterface = &Authors{}

// NewAuthors makes the plugin.
func NewAuthors(requests *history.Authors) *Authors { return &Authors{requests} }

// Handles implements admission.Interface.
func (*Authors) Handles(operation admission.Operation) bool { return operation != admission.Connect }

// Validate stores the user and the span of a request.
func (p *Authors) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" || a.IsDryRun() || ofControlPlane(a) {
		return nil
	}
	switch a.GetKind().Kind {
	case "Event", "Lease": // written often, and no templates
		return nil
	}
	change := history.Change{Deletion: a.GetOperation() == admission.Delete}
	object := a.GetOldObject()
	if a.GetOperation() == admission.Create {
		object = a.GetObject()
	}
	if object == nil { // a collection is deleted: its objects follow
		return nil
	}
	of, err := meta.Accessor(object)
	if err != nil {
		return nil //nolint:nilerr // What has no metadata has no history.
	}
	if change.UID = of.GetUID(); a.GetOperation() == admission.Update {
		change.From = of.GetResourceVersion()
	}
	p.requests.Requested(change, a.GetUserInfo().GetName(), trace.SpanContextFromContext(ctx))
	return nil
}
