package bindings

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Key is where the binding of a template is, unless another template's binding is there.
func Key(ref hubstore.Ref) types.NamespacedName {
	return types.NamespacedName{
		Namespace: ref.Namespace,
		Name:      workv1alpha2.BindingName(ref.GroupVersionKind.Kind, ref.Name),
	}
}

// AlternativeKey is where the binding of a template is while another template's has its bindingKey.
func AlternativeKey(ref hubstore.Ref) types.NamespacedName {
	return types.NamespacedName{
		Namespace: ref.Namespace,
		Name:      workv1alpha2.AlternativeBindingName(ref.GroupVersionKind.GroupKind(), ref.Namespace, ref.Name),
	}
}

// New is a binding of a template, named, owned and guarded, with nothing in its spec yet. The owner makes the garbage
// collector delete bindings whose template is deleted while the control plane is down.
func New(ref hubstore.Ref, uid types.UID, name string) workv1alpha2.Binding {
	binding := workv1alpha2.EmptyBinding(ref.Namespace)
	binding.SetNamespace(ref.Namespace)
	binding.SetName(name)
	binding.SetFinalizers([]string{binding.Finalizer()})
	binding.SetOwnerReferences([]metav1.OwnerReference{ownerReference(ref, uid)})
	return binding
}

func ownerReference(ref hubstore.Ref, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion:         ref.GroupVersionKind.GroupVersion().String(),
		Kind:               ref.GroupVersionKind.Kind,
		Name:               ref.Name,
		UID:                uid,
		Controller:         ptr.To(true),
		BlockOwnerDeletion: ptr.To(true),
	}
}

// Adopt makes the template that the spec of a binding names its owner. Other owners stay, but for an earlier template of
// the same name. It returns whether that is a change.
func Adopt(binding workv1alpha2.Binding) bool {
	if IsOwned(binding) {
		return false
	}
	ref := hubstore.TemplateOf(binding.BindingSpec())
	owner := ownerReference(ref, binding.BindingSpec().Resource.UID)
	others := slices.DeleteFunc(slices.Clone(binding.GetOwnerReferences()), func(o metav1.OwnerReference) bool {
		return ptr.Deref(o.Controller, false) || o.Kind == owner.Kind && o.Name == owner.Name
	})
	binding.SetOwnerReferences(append(others, owner))
	return true
}

// IsOwned returns whether a binding still belongs to its template. When a template is deleted with the "orphan" policy, the garbage
// collector takes the owner away first, and then the binding stays. So does one that was restored from a backup and has not met its
// template yet: admission takes the owner away.
func IsOwned(binding workv1alpha2.Binding) bool {
	for _, owner := range binding.GetOwnerReferences() {
		if owner.UID == binding.BindingSpec().Resource.UID {
			return true
		}
	}
	return false
}

// Workload is what the interpreter returns for a template.
type Workload struct {
	Replicas     int32
	Requirements *workv1alpha2.ReplicaRequirements
	Components   []workv1alpha2.Component
	Identities   interpret.Identities
}

// FillTemplate writes into a spec what follows from the template itself.
func FillTemplate(spec *workv1alpha2.ResourceBindingSpec, ref hubstore.Ref, meta metav1.Object, workload Workload) {
	spec.Resource = workv1alpha2.ObjectReference{
		APIVersion:      ref.GroupVersionKind.GroupVersion().String(),
		Kind:            ref.GroupVersionKind.Kind,
		Namespace:       ref.Namespace,
		Name:            ref.Name,
		UID:             meta.GetUID(),
		ResourceVersion: meta.GetResourceVersion(),
	}
	spec.Replicas = workload.Replicas
	spec.ReplicaRequirements = workload.Requirements
	spec.Components = workload.Components
}

// FillPolicy writes into a spec what follows from the policy. Priority is the value of the priority class the policy names. What
// others write into a spec, targets and evictions above all, is left as it is.
func FillPolicy(spec *workv1alpha2.ResourceBindingSpec, propagation *policyv1alpha1.PropagationSpec, labels map[string]string, priority *int32) {
	//lint:ignore SA1019 the old field keeps working
	spec.PropagateDeps = propagation.PropagateDeps || propagation.Association
	spec.SchedulerName = propagation.SchedulerName
	spec.Placement = propagation.Placement.DeepCopy()
	spec.Failover = propagation.Failover.DeepCopy()
	spec.ConflictResolution = propagation.ConflictResolution
	spec.PreserveResourcesOnDeletion = propagation.PreserveResourcesOnDeletion
	spec.Suspension = suspension(spec.Suspension, propagation.Suspension)
	spec.WorkloadAffinityGroups = affinityGroups(propagation.Placement.WorkloadAffinity, labels)
	spec.SchedulePriority = nil
	if priority != nil {
		spec.SchedulePriority = &workv1alpha2.SchedulePriority{Priority: *priority}
	}
}

// suspension takes dispatching from the policy and leaves scheduling, which only a binding can suspend, as it is.
func suspension(present *workv1alpha2.Suspension, wanted *policyv1alpha1.Suspension) *workv1alpha2.Suspension {
	var result workv1alpha2.Suspension
	if present != nil {
		result.Scheduling = present.Scheduling
	}
	if wanted != nil {
		result.Suspension = *wanted.DeepCopy()
	}
	if result.Scheduling == nil && wanted == nil {
		return nil
	}
	return &result
}

func affinityGroups(affinity *policyv1alpha1.WorkloadAffinity, labels map[string]string) *workv1alpha2.WorkloadAffinityGroups {
	if affinity == nil {
		return nil
	}
	var groups workv1alpha2.WorkloadAffinityGroups
	if affinity.Affinity != nil {
		groups.AffinityGroup = group(affinity.Affinity.GroupByLabelKey, labels)
	}
	if affinity.AntiAffinity != nil {
		groups.AntiAffinityGroup = group(affinity.AntiAffinity.GroupByLabelKey, labels)
	}
	if groups == (workv1alpha2.WorkloadAffinityGroups{}) {
		return nil
	}
	return &groups
}

func group(key string, labels map[string]string) string {
	value, ok := labels[key]
	if !ok {
		return ""
	}
	return key + "=" + value
}

// IsNameOf returns whether a binding is where the binding of a template may be.
func IsNameOf(binding workv1alpha2.Binding, ref hubstore.Ref) bool {
	key := client.ObjectKeyFromObject(binding)
	return key == Key(ref) || key == AlternativeKey(ref)
}

// OptIns are the annotations that bindings take over from their policy.
var OptIns = []string{
	policyv1alpha1.PartialPlacementAnnotation, policyv1alpha1.FailbackAnnotation, policyv1alpha1.PurgeModeAnnotation,
	policyv1alpha1.KeepUnselectedAnnotation, policyv1alpha1.DescheduleAnnotation, clusterv1alpha1.ApplyAsAnnotation,
	policyv1alpha1.HandoverAnnotation, policyv1alpha1.ClusterFailbackAnnotation, policyv1alpha1.ClusterFailbackSoakAnnotation,
	policyv1alpha1.ClusterFailbackRequestedAnnotation, policyv1alpha1.DriftAnnotation, policyv1alpha1.SpreadStaticWeightsAnnotation,
	policyv1alpha1.MembersIndependentAnnotation, policyv1alpha1.DriftIgnoreAnnotation,
}
