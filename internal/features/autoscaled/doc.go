// Package autoscaled lets the template of a workload follow horizontal pod autoscalers (HPAs) in members, as an HPA in one cluster
// changes the replicas of its target.
//
// The scale target of every HPA that a policy propagates gets the label resourcetemplate.karmada.io/retain-replicas, so that members
// keep their replicas. The replicas of a Deployment with that label which is divided among clusters are set to the sum of the members', of
// which each counts as far as the autoscaler allows.
//
// In: HPAs and their targets on the control plane, bindings.
//
// Out: labels, annotations and spec.replicas of templates; events on them.
//
// Owns: the annotation flagship.io/autoscaled of templates and, where it is, the label retain-replicas.
//
// Never: changes a label that a user set, or an object in a member.
package autoscaled
