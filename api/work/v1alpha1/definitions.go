package v1alpha1

// Annotations that a user puts on a CustomResourceDefinition on the hub.
const (
	// AllowBreakingAnnotation with the value "true" lets changes of the definition
	// into members although they lose data or fail clients there. Take it off
	// afterwards: it allows the next change, too.
	AllowBreakingAnnotation = "flagship.io/allow-breaking-changes"
	// AllowDeletionAnnotation with the value "true" lets the definition be deleted
	// although members have objects of its kind, which are deleted with it.
	AllowDeletionAnnotation = "flagship.io/allow-deletion-with-instances"
)

// Condition types of a CustomResourceDefinition on the hub, besides those of its
// own API server. Owned by aggregate.
const (
	// DefinitionEstablishedInMembers is True when every member that is to have the
	// definition serves it as it is now.
	DefinitionEstablishedInMembers = "EstablishedInMembers"
	// DefinitionStoredInOneVersion is True when no member keeps objects in another
	// version than the one for storage, so that the others can be dropped.
	DefinitionStoredInOneVersion = "StoredInOneVersion"
)

// Reasons of these conditions.
const (
	EstablishedEverywhereReason = "EstablishedEverywhere"
	NotEstablishedReason        = "NotEstablished"
	OnlyStorageVersionReason    = "OnlyStorageVersion"
	OlderVersionsStoredReason   = "OlderVersionsStored"
)
