package v1alpha1

// Several servers of one control plane may each serve a share of the members. Each has a Lease in SystemNamespace, with this label and these
// annotations. They are for the servers only.
const (
	// ServerLabel marks the Lease of a server.
	ServerLabel = "flagship.io/server"
	// ServerURLAnnotation is where the other servers reach its API.
	ServerURLAnnotation = "flagship.io/server-url"
	// ServerElectionAnnotation is its identity in the election of the leader.
	ServerElectionAnnotation = "flagship.io/server-election-identity"
	// ServerViewAnnotation lists the identities of the servers to which it assigns members, separated by commas.
	ServerViewAnnotation = "flagship.io/server-view"
)
