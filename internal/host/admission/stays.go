package admission

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// reportStays warns who creates an object in a namespace of Kubernetes that no policy sends it to members, and publishes an event. A
// policy may be written before or after the object, so that what policies select does not count.
func (p *Plugin) reportStays(ctx context.Context, a admission.Attributes, object subject) {
	kind := a.GetKind()
	if a.GetOperation() != admission.Create || ofControlPlane(a) || !workv1alpha1.NamespaceOfKubernetes(object.GetNamespace()) ||
		object.GetAnnotations()[workv1alpha1.PropagateAnnotation] == "true" || p.Never(kind, "", object.GetName()) ||
		strings.HasPrefix(object.GetName(), bootstrapapi.BootstrapTokenSecretPrefix) { // no other cluster has a use for a token
		return
	}
	text := workv1alpha1.StaysIn(object.GetNamespace())
	warning.AddWarning(ctx, "", text)
	if p.Publish != nil && !a.IsDryRun() {
		p.Publish(events.Success(events.Reference(kind, object), events.StaysOnControlPlane, text))
	}
}
