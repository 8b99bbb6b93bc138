package decision

import (
	"fmt"
	"strings"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Decision is the result of a Request, with everything it was based on.
type Decision struct {
	// Targets are the chosen clusters, by name. Empty after a failure.
	Targets []workv1alpha2.TargetCluster
	// Affinity names the term of clusterAffinities that was used, if there are any.
	Affinity string
	// Missing is how many replicas found no place. Only a request that allows partial placement succeeds with some missing.
	Missing int32
	// Shortage is the message of what is missing and where replicas are available, if anything is missing.
	Shortage string
	// Failure is why nothing was chosen; nil after success.
	Failure *Failure
	// Attempts has one entry per term that was tried, in that order.
	Attempts []Attempt
}

// Failure is why an object could not be placed.
type Failure struct {
	// Reason is one of the BindingReason constants of the binding API.
	Reason string
	// Message is for people.
	Message string
}

func NoClusterFits(message string) *Failure {
	return &Failure{Reason: workv1alpha2.BindingReasonNoClusterFit, Message: message}
}

func Unschedulable(message string) *Failure {
	return &Failure{Reason: workv1alpha2.BindingReasonUnschedulable, Message: message}
}

func InvalidRequest(err error) *Failure {
	return &Failure{Reason: workv1alpha2.BindingReasonSchedulerError, Message: err.Error()}
}

// Attempt is the result for one term.
type Attempt struct {
	// Term is what was tried.
	Term Term
	// Candidates has one entry per cluster of the snapshot, by name.
	Candidates []Candidate
	// Failure is why the term cannot be used; nil if it can.
	Failure *Failure

	Targets  []workv1alpha2.TargetCluster
	Missing  int32
	Shortage string
	Filters  []Filter
	Scorers  []string
	Points   []int64 // what each scorer gave: len(Scorers) per candidate
}

// DroppedBy names the filter that dropped the i-th cluster, or "" if it fits.
func (a *Attempt) DroppedBy(i int) string {
	if a.Candidates[i].Reason == nil {
		return ""
	}
	return a.Filters[a.Candidates[i].Filter].Name
}

// Scores returns what each scorer gave the i-th cluster, for a cluster that fits. Scorers that do not apply to the request are
// missing.
func (a *Attempt) Scores(i int) map[string]int64 {
	out := make(map[string]int64, len(a.Scorers))
	if a.Candidates[i].Reason != nil {
		return out
	}
	for n, name := range a.Scorers {
		out[name] = a.Points[i*len(a.Scorers)+n]
	}
	return out
}

// Candidate is what one attempt found out about one cluster.
type Candidate struct {
	Cluster *Cluster
	// Reason returns why the cluster was dropped; nil for one that fits.
	Reason *Reason
	// Score is the sum of all scorers.
	Score int64
	// Weight is the static weight, where there is one.
	Weight int64
	// Current is how many replicas are there now, Replicas how many it received.
	Current, Replicas int32
	// Allocatable is how many more replicas fit, Available adds those that are there already. Only set where that makes a difference.
	Allocatable, Available int32
	// Tier is the overflow tier, 0 for the base affinity.
	Tier int16
	// Held is true if the object is there now.
	Held bool
	// Chosen is true if the cluster is among those selected. One that is but receives no replicas is no target.
	Chosen bool

	Filter uint8  // which of the attempt's filters dropped it
	Key    uint64 // its rank, where clusters are selected: the smaller the better
}

// Dropped returns whether a filter dropped some cluster in some attempt.
func (d *Decision) Dropped(filter string) bool {
	for n := range d.Attempts {
		a := &d.Attempts[n]
		for i := range a.Candidates {
			if a.DroppedBy(i) == filter {
				return true
			}
		}
	}
	return false
}

// Unselected returns whether the affinities of the placement select none of the clusters there are, which is how a user orders that the
// object leaves all of them. It does not count if an affinity names a cluster that there is not, by mistake or because it has yet to
// join, nor if a cluster was dropped for another reason first.
func (d *Decision) Unselected(snapshot *Snapshot) bool {
	for n := range d.Attempts {
		a := &d.Attempts[n]
		if affinity := a.Term.Affinity; affinity != nil && !snapshot.hasAll(affinity.ClusterNames) {
			return false
		}
		for i := range a.Term.Overflow {
			if !snapshot.hasAll(a.Term.Overflow[i].ClusterNames) {
				return false
			}
		}
		for i := range a.Candidates {
			if a.DroppedBy(i) != ClusterAffinityFilter {
				return false
			}
		}
		if len(a.Candidates) == 0 {
			return false
		}
	}
	return len(d.Attempts) > 0
}

// ClusterAffinityFilter is the name of the filter that drops clusters which the placement does not select.
const ClusterAffinityFilter = "ClusterAffinity"

// Explain is the messages of all terms that failed, or "" if none did.
func (d *Decision) Explain() string {
	var parts []string
	for i := range d.Attempts {
		a := &d.Attempts[i]
		switch {
		case a.Failure == nil:
		case a.Term.Name == "":
			parts = append(parts, a.Failure.Message)
		default:
			parts = append(parts, fmt.Sprintf("%s: %s", a.Term.Path(), a.Failure.Message))
		}
	}
	return strings.Join(parts, "; ")
}

func (d *Decision) Accept(a *Attempt) {
	d.Targets, d.Affinity, d.Missing, d.Shortage = a.Targets, a.Term.Name, a.Missing, a.Shortage
}

// MostPlaced returns the attempt that left the fewest replicas without a place, the earlier of equals.
func (d *Decision) MostPlaced() *Attempt {
	var best *Attempt
	for i := range d.Attempts {
		a := &d.Attempts[i]
		if a.Failure == nil && (best == nil || a.Missing < best.Missing) {
			best = a
		}
	}
	return best
}
