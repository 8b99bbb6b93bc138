package policies

import (
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Steps returns the loop without a manager.
func Steps(l *Loop) controlloop.Steps[Request] {
	return controlloop.Steps[Request]{Reconciler: l, Watches: []controlloop.Watch[Request]{
		controlloop.On(onPolicy[*policyv1alpha1.PropagationPolicy]()),
		controlloop.On(onPolicy[*policyv1alpha1.ClusterPropagationPolicy]()),
		controlloop.On(onOverride[*policyv1alpha1.OverridePolicy]()),
		controlloop.On(onOverride[*policyv1alpha1.ClusterOverridePolicy]()),
	}}
}
