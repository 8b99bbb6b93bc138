package admission

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// warnAnnotations warns who writes an object whose annotations leave too few bytes for those by which a policy applies.
func (p *Plugin) warnAnnotations(ctx context.Context, a admission.Attributes, object, old subject) {
	err := policy.CheckAnnotations(object)
	if err == nil || ofControlPlane(a) || old != nil && policy.CheckAnnotations(old) != nil || p.Never(a.GetKind(), object.GetNamespace(), object.GetName()) {
		return
	}
	warning.AddWarning(ctx, "", err.Error())
}
