package v1alpha1

// Labels.
const (
	// WorkPermanentIDLabel carries the id (a UUID) of a Work, on the Work itself and on its manifests.
	WorkPermanentIDLabel = "work.karmada.io/permanent-id"
	// ManagedLabel set to ManagedLabelValue marks an object in a member as ours: only such
	// objects are watched, updated and deleted.
	ManagedLabel = "karmada.io/managed"
	// ManagedLabelValue is the only value of ManagedLabel.
	ManagedLabelValue = "true"
	// ReleasedByLabel is the id of the control plane that released an object in a member. While no control plane manages the object, that one takes it
	// back when its template goes to the member again. It is no proof of anything: who may write an object may write the label.
	ReleasedByLabel = "flagship.io/released-by"
	// HistoryLabel is the uid of the template whose revision a ControllerRevision is. Its name begins with HistoryPrefix. The content
	// is readable for the control plane alone; it is never propagated.
	HistoryLabel = "flagship.io/history-of"
	// HistoryPrefix begins the names of ControllerRevisions with the history of templates.
	HistoryPrefix = "flagship-history-"
	// DerivedLabel marks a ReplicaSet that the control plane derives from a Deployment and does not store. The control plane's own
	// loops leave out ReplicaSets with it.
	DerivedLabel = "flagship.io/derived"
)

// Annotations on objects in members.
const (
	// WorkNamespaceAnnotation is the namespace of the Work that an object belongs to.
	WorkNamespaceAnnotation = "work.karmada.io/namespace"
	// WorkNameAnnotation is the name of the Work that an object belongs to.
	WorkNameAnnotation = "work.karmada.io/name"
	// TemplateGenerationAnnotation is metadata.generation of the template an object was made from.
	TemplateGenerationAnnotation = "resourcetemplate.karmada.io/generation"
	// TemplateUIDAnnotation is metadata.uid of the template an object was made from.
	TemplateUIDAnnotation = "resourcetemplate.karmada.io/uid"
	// ManagedAnnotationsAnnotation lists, sorted and separated by commas, the annotation keys that
	// came from here, itself and ManagedLabelsAnnotation included.
	ManagedAnnotationsAnnotation = "resourcetemplate.karmada.io/managed-annotations"
	// LastAppliedAnnotation records what was applied last, in a form that only its writer reads: it saves requests and separates
	// drift from conflicts.
	LastAppliedAnnotation = "flagship.io/record"
	// ControlPlaneAnnotation is the id of the control plane that an object belongs to: the uid of that control plane's
	// namespace kube-system. Another control plane changes the object only if a user requests it with Overwrite, and never
	// deletes it. An object without it was written by an older version or by Karmada, or is a Deployment that was taken over from
	// Karmada and belongs to the control plane whose field manager owns the managed label.
	ControlPlaneAnnotation = "flagship.io/control-plane"
	// TakenFromAnnotation lists, separated by commas, the ids of the control planes from which the object was taken over
	// with Overwrite. None of them takes it back as long as another one holds it, so that two control planes which both
	// have Overwrite do not take turns.
	TakenFromAnnotation = "flagship.io/taken-from"
	// AdoptedAnnotation set to "true" marks an object that was there before us, or that another control plane had. It is
	// released with its Work, not deleted, unless the Work sets preserveResourcesOnDeletion: false.
	AdoptedAnnotation = "flagship.io/adopted"
	// ManagedLabelsAnnotation lists, sorted and separated by commas, the label keys that came from here.
	ManagedLabelsAnnotation = "resourcetemplate.karmada.io/managed-labels"
)

// Conflict resolution, on a template (by a user), a Work and an object in a member.
const (
	// ConflictResolutionAnnotation wins over the policy's conflictResolution.
	ConflictResolutionAnnotation = "work.karmada.io/conflict-resolution"
	// ConflictResolutionOverwrite adopts an object of the same name that is not ours.
	ConflictResolutionOverwrite = "overwrite"
	// ConflictResolutionAbort leaves such an object alone and reports it.
	ConflictResolutionAbort = "abort"
)

// CarriedNamespaceAnnotation on a Work names the namespace that it carries because namespaces go to every cluster, policy
// or not. The binding of a policy that selects the namespace takes the Work over, and does not delete it: see v1alpha2.Unbind.
const CarriedNamespaceAnnotation = "namespace.karmada.io/name"

// Annotations on a Work with the overrides that were applied to it, as JSON [{policyName, overriders}].
const (
	AppliedOverridesAnnotation        = "policy.karmada.io/applied-overrides"
	AppliedClusterOverridesAnnotation = "policy.karmada.io/applied-cluster-overrides"
)

// ExecutionFinalizer keeps a Work until its objects are gone from the member.
const ExecutionFinalizer = "karmada.io/execution-controller"
