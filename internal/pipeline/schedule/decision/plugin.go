package decision

// Round is one pass over the fleet for one term of a request's affinities.
type Round struct {
	Request  *Request
	Snapshot *Snapshot
	Term     Term

	Tiers tiers
}

// Filter decides which clusters may receive an object at all.
type Filter struct {
	// Name identifies the filter in decisions.
	Name string
	// Fixed is true if the result for a cluster that does not hold the object follows from the description of the cluster, without
	// its available resources, and from the term, the tolerations, the spread constraints and the kind of the object. Such a result
	// is kept for the next object of the same kind and placement: often one policy places thousands.
	Fixed bool
	// Prepare reads the round once. The Check it returns is called for every cluster; nil means that every cluster passes.
	Prepare func(*Round) Check
}

// Check returns why a cluster is dropped, or nil if it passes. It must not change anything, and is called often: reasons are best
// made in Prepare.
type Check func(*Candidate) *Reason

// Scorer ranks the clusters that passed all filters.
type Scorer struct {
	// Name identifies the scorer in decisions.
	Name string
	// Prepare reads the round once. The Rate it returns is called for every cluster that fits; nil means that all score zero.
	Prepare func(*Round) Rate
}

// Rate returns the score of a cluster, from 0 to MaxScore.
type Rate func(*Candidate) int64

// MaxScore is the highest score that one scorer gives.
const MaxScore = 100
