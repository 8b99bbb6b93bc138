package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Subject is what policies select by in a template.
type Subject struct {
	GroupVersionKind schema.GroupVersionKind
	Namespace, Name  string
	Labels           map[string]string
	// OtherVersions are those in which the hub serves the same object, besides the one in Ref: a selector may name any of them.
	OtherVersions []string
}

// Is returns whether a kind, in whatever version, is that of the subject.
func (s *Subject) Is(gvk schema.GroupVersionKind) bool {
	return gvk == s.GroupVersionKind ||
		gvk.GroupKind() == s.GroupVersionKind.GroupKind() && slices.Contains(s.OtherVersions, gvk.Version)
}

// SubjectOf returns what policies select by in a template.
func SubjectOf(kind schema.GroupVersionKind, meta metav1.Object, otherVersions []string) Subject {
	return Subject{
		GroupVersionKind: kind, Namespace: meta.GetNamespace(), Name: meta.GetName(), Labels: meta.GetLabels(), OtherVersions: otherVersions,
	}
}

// Rank returns how precisely a policy selects a template; the higher wins.
type Rank int

// The ranks, from no match to a match by name.
const (
	RankNone Rank = iota
	RankKind
	RankLabels
	RankName
)

// String is the rank in words, as decisions show it.
func (r Rank) String() string {
	switch r {
	case RankKind:
		return "by kind"
	case RankLabels:
		return "by labels"
	case RankName:
		return "by name"
	default:
		return "not at all"
	}
}

// Key names a PropagationPolicy or, when Namespace is empty, a ClusterPropagationPolicy.
type Key struct{ Namespace, Name string }

// KeyOf is the key of a policy.
func KeyOf(policy metav1.Object) Key {
	return Key{Namespace: policy.GetNamespace(), Name: policy.GetName()}
}

// String is the policy as decisions and logs show it.
func (k Key) String() string {
	if k.Namespace == "" {
		return "ClusterPropagationPolicy " + k.Name
	}
	return "PropagationPolicy " + k.Namespace + "/" + k.Name
}

// Candidate is a policy that was considered for a template.
type Candidate struct {
	Policy   Key
	Priority int32
	Rank     Rank
	// Dropped returns why it is not the one, and is empty for the winner.
	Dropped string
	// Miss returns how close a policy of RankNone came.
	Miss Miss
}

// Miss returns how far a policy is from selecting a template.
type Miss int

// The misses, from far to near.
const (
	// MissKind is a policy for other kinds or other namespaces.
	MissKind Miss = iota
	// MissName is one that names other objects of the kind, not this one.
	MissName
	// MissLabels is one that selects objects of the kind by labels, and this one lacks them.
	MissLabels
	// MissVersion is one that names the kind in a version that is not served.
	MissVersion
)

// Decision is the policy that a template belongs to, and why.
type Decision struct {
	// Winner is nil when no policy selects the template.
	Winner policyv1alpha1.Propagation
	// Candidates are all policies that were considered, best first.
	Candidates []Candidate
}

// Choose picks the policy for a template that belongs to none. Policies being deleted do not count. A policy of the template's
// namespace beats every cluster-wide one; then the higher priority wins, then the more precise selector, then the smaller name.
func Choose(subject Subject, policies []policyv1alpha1.Propagation) Decision {
	type contender struct {
		policy policyv1alpha1.Propagation
		Candidate
	}
	contenders := make([]contender, 0, len(policies))
	for _, policy := range policies {
		candidate := consider(subject, policy)
		if policy.GetDeletionTimestamp() != nil {
			candidate.Rank, candidate.Dropped = RankNone, "is being deleted"
		}
		contenders = append(contenders, contender{policy, candidate})
	}
	slices.SortFunc(contenders, func(a, b contender) int { return compare(a.Candidate, b.Candidate) })

	var decision Decision
	for i, c := range contenders {
		if c.Rank != RankNone {
			if i == 0 {
				decision.Winner = c.policy
			} else {
				c.Dropped = losing(contenders[0].Candidate, c.Candidate)
			}
		}
		decision.Candidates = append(decision.Candidates, c.Candidate)
	}
	return decision
}

// compare orders candidates, best first.
func compare(a, b Candidate) int {
	return cmp.Or(
		compareBool(b.Rank != RankNone, a.Rank != RankNone),
		compareBool(b.Policy.Namespace != "", a.Policy.Namespace != ""),
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(b.Rank, a.Rank),
		cmp.Compare(a.Policy.Name, b.Policy.Name),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// losing returns what decided between a winner and a candidate that also matches.
func losing(winner, loser Candidate) string {
	switch {
	case winner.Policy.Namespace != "" && loser.Policy.Namespace == "":
		return fmt.Sprintf("%s is of the object's own namespace", winner.Policy)
	case winner.Priority != loser.Priority:
		return fmt.Sprintf("%s has priority %d, this one %d", winner.Policy, winner.Priority, loser.Priority)
	case winner.Rank != loser.Rank:
		return fmt.Sprintf("%s selects the object %s, this one %s", winner.Policy, winner.Rank, loser.Rank)
	default:
		return fmt.Sprintf("%s has the smaller name", winner.Policy)
	}
}

// Match returns how precisely a policy selects a template. It does not care whether the policy is being deleted.
func Match(subject Subject, policy policyv1alpha1.Propagation) Rank {
	return consider(subject, policy).Rank
}

func consider(subject Subject, policy policyv1alpha1.Propagation) Candidate {
	c := Candidate{Policy: KeyOf(policy), Priority: PriorityOf(policy), Dropped: "selects other kinds"}
	if c.Policy.Namespace != "" && c.Policy.Namespace != subject.Namespace {
		c.Dropped = "is of another namespace"
		return c
	}
	for _, selector := range policy.PropagationSpec().ResourceSelectors {
		switch gvk := KindOf(selector); {
		case subject.Is(gvk):
			c.try(subject, selector)
		case gvk.GroupKind() == subject.GroupVersionKind.GroupKind():
			c.miss(MissVersion, fmt.Sprintf("selects %s of %s, a version that is not served", selector.Kind, selector.APIVersion))
		}
	}
	if c.Rank != RankNone {
		c.Dropped, c.Miss = "", MissKind
	}
	return c
}

// try improves the candidate by one selector of the right kind.
func (c *Candidate) try(subject Subject, selector policyv1alpha1.ResourceSelector) {
	namespace := cmp.Or(c.Policy.Namespace, selector.Namespace)
	switch {
	case namespace != "" && namespace != subject.Namespace:
		c.miss(MissKind, fmt.Sprintf("selects %s of namespace %q", selector.Kind, namespace))
	case selector.Name != "" && selector.Name != subject.Name:
		c.miss(MissName, fmt.Sprintf("selects %s by other names", selector.Kind))
	case selector.Name != "":
		c.Rank = RankName
	case selector.LabelSelector == nil:
		c.Rank = max(c.Rank, RankKind)
	default:
		parsed, err := metav1.LabelSelectorAsSelector(selector.LabelSelector)
		switch {
		case err != nil:
			c.miss(MissLabels, "has an invalid label selector: "+err.Error())
		case parsed.Matches(labels.Set(subject.Labels)):
			c.Rank = max(c.Rank, RankLabels)
		default:
			c.miss(MissLabels, fmt.Sprintf("selects %s with labels %s", selector.Kind, metav1.FormatLabelSelector(selector.LabelSelector)))
		}
	}
}

// miss keeps the nearest miss.
func (c *Candidate) miss(miss Miss, why string) {
	if miss >= c.Miss {
		c.Miss, c.Dropped = miss, why
	}
}

// Preempt picks the policy that may take the template away from the one that holds it, nil if none may. It needs preemption Always
// and a selector by the template's name; a namespaced policy prevails over any cluster-wide one and over namespaced ones of
// strictly lower priority, a cluster-wide policy only over cluster-wide ones of strictly lower priority.
func Preempt(subject Subject, holder policyv1alpha1.Propagation, policies []policyv1alpha1.Propagation) policyv1alpha1.Propagation {
	var able []policyv1alpha1.Propagation
	for _, policy := range policies {
		if policy.PropagationSpec().Preemption == policyv1alpha1.PreemptAlways && prevails(policy, holder) {
			if Match(subject, policy) == RankName {
				able = append(able, policy)
			}
		}
	}
	return Choose(subject, able).Winner
}

// Judge is the whole answer to the question which policy a template belongs to, and why: holder is the policy that its claim names,
// nil if it belongs to none. It keeps what it has unless a policy may take it away.
func Judge(subject Subject, holder policyv1alpha1.Propagation, policies []policyv1alpha1.Propagation) Decision {
	if holder == nil {
		return Choose(subject, policies)
	}
	winner := Preempt(subject, holder, policies)
	if winner == nil {
		winner = holder
	}
	decision := Decision{Winner: winner}
	for _, policy := range policies {
		candidate := consider(subject, policy)
		switch {
		case KeyOf(policy) == KeyOf(winner):
			if candidate.Rank == RankNone {
				candidate.Dropped = "holds the object, though it " + candidate.Dropped
			}
		case policy.GetDeletionTimestamp() != nil:
			candidate.Rank, candidate.Dropped = RankNone, "is being deleted"
		case candidate.Rank != RankNone:
			candidate.Dropped = failing(subject, policy, holder, winner)
		}
		decision.Candidates = append(decision.Candidates, candidate)
	}
	slices.SortStableFunc(decision.Candidates, func(a, b Candidate) int {
		return cmp.Or(compareBool(b.Policy == KeyOf(winner), a.Policy == KeyOf(winner)), compare(a, b))
	})
	return decision
}

// failing returns why a policy that selects the template does not take it from its holder, or lost it to, or against, the winner.
func failing(subject Subject, policy, holder, winner policyv1alpha1.Propagation) string {
	switch {
	case KeyOf(policy) == KeyOf(holder):
		return fmt.Sprintf("%s takes the object from it", KeyOf(winner))
	case !prevails(policy, holder) && (policy.GetNamespace() == "") != (holder.GetNamespace() == ""):
		return fmt.Sprintf("%s, which holds it, is of the object's own namespace", KeyOf(holder))
	case !prevails(policy, holder):
		return fmt.Sprintf("%s, which holds it, has priority %d, this one %d", KeyOf(holder), PriorityOf(holder), PriorityOf(policy))
	case policy.PropagationSpec().Preemption != policyv1alpha1.PreemptAlways:
		return fmt.Sprintf("%s holds it, and this one has not preemption Always", KeyOf(holder))
	case Match(subject, policy) != RankName:
		return fmt.Sprintf("%s holds it, and only objects selected by name are preempted", KeyOf(holder))
	default:
		return losing(consider(subject, winner), consider(subject, policy))
	}
}

func prevails(policy, holder policyv1alpha1.Propagation) bool {
	switch {
	case KeyOf(policy) == KeyOf(holder):
		return false
	case policy.GetNamespace() != "" && holder.GetNamespace() == "":
		return true
	case policy.GetNamespace() == "" && holder.GetNamespace() != "":
		return false
	default:
		return PriorityOf(policy) > PriorityOf(holder)
	}
}

func PriorityOf(policy policyv1alpha1.Propagation) int32 {
	return ptr.Deref(policy.PropagationSpec().Priority, 0)
}

// Contested returns whether more than one policy selects the template.
func (d Decision) Contested() bool {
	return d.Winner != nil && slices.ContainsFunc(d.Candidates, func(c Candidate) bool {
		return c.Rank != RankNone && c.Policy != KeyOf(d.Winner)
	})
}

// Near returns whether a policy came close enough to selecting the template for its owner to wonder why it does not.
func (d Decision) Near() bool {
	return slices.ContainsFunc(d.Candidates, func(c Candidate) bool { return c.Miss >= MissLabels })
}

// Explain is the decision as a sentence, for an event.
func (d Decision) Explain() string {
	var b strings.Builder
	if d.Winner != nil {
		fmt.Fprintf(&b, "%s applies", KeyOf(d.Winner))
	} else {
		b.WriteString("No policy match for resource")
	}
	named, lost := 0, 0
	for _, c := range d.Candidates {
		switch {
		case c.Dropped == "":
		case c.Miss == MissName:
			named++
		case lost < explained:
			separator := " "
			if c.Rank != RankNone {
				separator = ": " // it selects the object and lost to another
			}
			fmt.Fprintf(&b, "; %s%s%s", c.Policy, separator, c.Dropped)
			lost++
		default:
			lost++
		}
	}
	if lost > explained {
		fmt.Fprintf(&b, "; and %d more", lost-explained)
	}
	if named > 0 {
		fmt.Fprintf(&b, "; %d select other objects by name", named)
	}
	return b.String()
}

// explained is how many candidates an event names.
const explained = 8

// KindOf is the kind of a selector; it is empty when unparsable.
func KindOf(selector policyv1alpha1.ResourceSelector) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(selector.APIVersion, selector.Kind)
}

// IndexKeys returns what a policy selects as values of a cache index, in whatever version: "Deployment.apps|web" for one name,
// "Deployment.apps|" for any, "Deployment.apps" for both.
func IndexKeys(policy policyv1alpha1.Propagation) []string {
	var keys []string
	for _, s := range policy.PropagationSpec().ResourceSelectors {
		kind := KindOf(s).GroupKind()
		keys = append(keys, kind.String(), NameKey(kind, s.Name))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// NameKey is the index value of a selector by name; the name is empty for one without.
func NameKey(kind schema.GroupKind, name string) string { return kind.String() + "|" + name }
