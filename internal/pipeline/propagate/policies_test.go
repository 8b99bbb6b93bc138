package propagate

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

var deploymentKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

type policyOption func(*metav1.ObjectMeta, *policyv1alpha1.PropagationSpec)

// pp is a policy of namespace shop, cpp a cluster-wide one; both select Deployments and have the id "<name>-id".
func pp(name string, options ...policyOption) *policyv1alpha1.PropagationPolicy {
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: "uid-" + "pp",
		Labels: map[string]string{policyv1alpha1.PropagationPolicyPermanentIDLabel: name + "-id"},
	}}
	return configured(p, &p.ObjectMeta, options)
}

func cpp(name string, options ...policyOption) *policyv1alpha1.ClusterPropagationPolicy {
	p := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel: name + "-id"},
	}}
	return configured(p, &p.ObjectMeta, options)
}

func configured[P policyv1alpha1.Propagation](p P, meta *metav1.ObjectMeta, options []policyOption) P {
	for _, option := range options {
		option(meta, p.PropagationSpec())
	}
	if len(p.PropagationSpec().ResourceSelectors) == 0 {
		selecting("")(meta, p.PropagationSpec())
	}
	return p
}

// selecting adds a selector for Deployments: by name, by "key=value", or any.
func selecting(what string) policyOption {
	return func(_ *metav1.ObjectMeta, spec *policyv1alpha1.PropagationSpec) {
		selector := policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment"}
		if key, value, ok := strings.Cut(what, "="); ok {
			selector.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
		} else {
			selector.Name = what
		}
		spec.ResourceSelectors = append(spec.ResourceSelectors, selector)
	}
}

func priority(n int32) policyOption {
	return func(_ *metav1.ObjectMeta, spec *policyv1alpha1.PropagationSpec) { spec.Priority = ptr.To(n) }
}

func preempting(_ *metav1.ObjectMeta, spec *policyv1alpha1.PropagationSpec) {
	spec.Preemption = policyv1alpha1.PreemptAlways
}

func lazy(_ *metav1.ObjectMeta, spec *policyv1alpha1.PropagationSpec) {
	spec.ActivationPreference = policyv1alpha1.LazyActivation
}

func with(change func(*policyv1alpha1.PropagationSpec)) policyOption {
	return func(_ *metav1.ObjectMeta, spec *policyv1alpha1.PropagationSpec) { change(spec) }
}
