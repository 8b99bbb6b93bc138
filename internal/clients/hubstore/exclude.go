package hubstore

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

var controllerRevisionKind = schema.GroupKind{Group: "apps", Kind: "ControllerRevision"}

// bootstrapLabel marks the RBAC objects every API server creates for itself.
const bootstrapLabel = "kubernetes.io/bootstrapping"

// RegisteredLabel marks the APIServices that an API server makes for what it serves itself.
const RegisteredLabel = "kube-aggregator.kubernetes.io/automanaged"

// excludedKinds are internal to an API server, and never propagated to
// another one.
var excludedKinds = map[schema.GroupKind]bool{
	{Group: "", Kind: "Event"}:                                          true,
	{Group: "events.k8s.io", Kind: "Event"}:                             true,
	{Group: "coordination.k8s.io", Kind: "Lease"}:                       true,
	{Group: "coordination.k8s.io", Kind: "LeaseCandidate"}:              true,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:   true,
	{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"}:       true,
	{Group: "internal.apiserver.k8s.io", Kind: "StorageVersion"}:        true,
	{Group: "storagemigration.k8s.io", Kind: "StorageVersionMigration"}: true,
}

// ownGroups are the groups of the control plane's API. Their objects configure it, and members have no use for them. Other groups below
// karmada.io belong to users.
var ownGroups = sets.New("apps.karmada.io", "autoscaling.karmada.io", "cluster.karmada.io", "config.karmada.io", "networking.karmada.io",
	"policy.karmada.io", "remedy.karmada.io", "search.karmada.io", "work.karmada.io", "flagship.io", "fleet.flagship.io")

// excludedKind returns whether no object of the kind is a template.
func excludedKind(gk schema.GroupKind) bool {
	return excludedKinds[gk] || ownGroups.Has(gk.Group)
}

// ReservedNamespace is workv1alpha1.ReservedNamespace: nothing in such a namespace is a template, nor is it one.
func ReservedNamespace(name string) bool { return workv1alpha1.ReservedNamespace(name) }

// MayLeave returns whether an object that is Excluded is a template if it has the annotation workv1alpha1.PropagateAnnotation.
func MayLeave(ref Ref) bool {
	if !workv1alpha1.NamespaceOfKubernetes(ref.Namespace) {
		return false
	}
	ref.Namespace = ""
	return !Excluded(ref)
}

// Stays returns why an object whose kind may be a template is none; "" if it is one.
func Stays(ref Ref, object metav1.Object) string {
	switch leaves := MayLeave(ref); {
	case leaves && object.GetAnnotations()[workv1alpha1.PropagateAnnotation] == "true", !Excluded(ref):
		return ""
	case leaves:
		return workv1alpha1.StaysIn(ref.Namespace)
	default:
		return "it stays on the control plane: it, or its namespace, belongs to the API server or the control plane itself"
	}
}

// StaysWith is Stays where exclude, unless it is nil, keeps further objects on the control plane.
func StaysWith(exclude func(Ref) bool, ref Ref, object metav1.Object) string {
	if exclude != nil && exclude(ref) {
		return "it stays on the control plane: a flag of the control plane keeps its namespace here"
	}
	return Stays(ref, object)
}

// InEveryMember returns whether a definition is one of exports and imports. The control plane brings these to every member
// itself, in Works that have the names a binding's would have.
func InEveryMember(definition string) bool {
	return strings.HasSuffix(definition, "."+multiclusterv1beta1.GroupName)
}

// Excluded returns whether an object is not a template although its kind may be one:
// objects in reserved namespaces, and what an API server or its controllers
// make for themselves in every namespace. Kinds of the control plane's own
// groups, events and leases are excluded altogether.
func Excluded(ref Ref) bool {
	gk := ref.GroupVersionKind.GroupKind()
	if excludedKind(gk) || ReservedNamespace(ref.Namespace) {
		return true
	}
	switch gk {
	case definitionKind: // its name is that of the resource, a dot and the group
		_, group, _ := strings.Cut(ref.Name, ".")
		return ownGroups.Has(group) || InEveryMember(ref.Name)
	case schema.GroupKind{Kind: "Namespace"}:
		return ReservedNamespace(ref.Name)
	case schema.GroupKind{Kind: "ConfigMap"}:
		return ref.Name == "kube-root-ca.crt"
	case schema.GroupKind{Kind: "ServiceAccount"}:
		return ref.Name == "default"
	case controllerRevisionKind: // the history of templates; a binding may name what is not watched
		return strings.HasPrefix(ref.Name, workv1alpha1.HistoryPrefix)
	case schema.GroupKind{Kind: "Service"}, schema.GroupKind{Kind: "Endpoints"},
		schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:
		// The hub's own address, published by its API server.
		return ref.Namespace == metav1.NamespaceDefault && ref.Name == "kubernetes"
	}
	return false
}
