package decision

// Round is one pass over the fleet for one term of a request's affinities.
type Round struct {
	Request  *Request
	Snapshot *Snapshot
	Term     Term

	Tiers tiers
}

// Filter decides which clusters may receive an object at all.
type Filter interface {
	// Name identifies the filter in decisions.
	Name() string
	// Prepare reads the round once. The Check it returns is called for every cluster; nil means that every cluster passes. An
	// error means that the request itself cannot be understood, and ends the decision.
	Prepare(*Round) (Check, error)
}

// Check returns why a cluster is dropped, or nil if it passes. It must not
// change anything, and is called often: reasons are best made in Prepare.
type Check func(*Candidate) *Reason

// Scorer ranks the clusters that passed all filters.
type Scorer interface {
	// Name identifies the scorer in decisions.
	Name() string
	// Prepare reads the round once. The Rate it returns is called for every cluster that fits; nil means that all score zero.
	Prepare(*Round) Rate
}

// Rate returns the score of a cluster, from 0 to MaxScore.
type Rate func(*Candidate) int64

// MaxScore is the highest score that one scorer gives.
const MaxScore = 100

// Fixed is a Filter whose answer about a cluster that does not hold the object follows from the description of the cluster, its
// room apart, and from the term, the tolerations, the spread constraints and the kind of the object. What it returns is kept for
// the next object of the same kind and placement: mostly one policy places thousands.
type Fixed interface {
	Filter
	// Fixed does nothing but say so.
	Fixed()
}
