package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// Stages of the control plane, as actors.
const (
	actorPropagate = "propagate"
	actorSchedule  = "schedule"
	actorRender    = "render"
	actorApply     = "apply"
	actorObserve   = "observe"
	actorAggregate = "aggregate"
)

// maxPolicies is how many policies that lost are in an answer.
const maxPolicies = 20

// Facts are what is known of a template.
type Facts struct {
	Template *unstructured.Unstructured
	// Stays is why the object is no template and never leaves; "" if it may.
	Stays string
	// Policies is the decision which policy the template belongs to, and Created when each of them was created.
	Policies policy.Decision
	Created  map[policy.Key]metav1.Time
	// Binding is nil if there is none.
	Binding workv1alpha2.Binding
	// Candidates are the clusters as the scheduler evaluates them now; Unscheduled is why there are none.
	Candidates  []Candidate
	Unscheduled string
	// NextTry is when the binding is scheduled again, zero if it does not wait.
	NextTry time.Time
	// Targets are the clusters that are to have the object, in order.
	Targets []Target
	// StatusUnwritable is true if objects of the kind have no subresource status on the control plane.
	StatusUnwritable bool
}

// Candidate is a cluster as the scheduler evaluates it.
type Candidate struct {
	Name string
	// Target is true if the cluster is to have the object now.
	Target bool
	// Dropped is why not, by filter; Remedies are the changes that together would let it in.
	Dropped, Remedies []string
	// Filter is the first that drops it, or the word for another reason. Empty for a cluster that is chosen.
	Filter string
	Scores []fleetv1alpha1.ClusterScore
	// Replicas and Available are nil where they do not count.
	Replicas, Available *int32
}

// Target is a cluster that is to have the object.
type Target struct {
	Name string
	// Cluster and Work are nil if they do not exist.
	Cluster *clusterv1alpha1.Cluster
	Work    *workv1alpha1.Work
	// WorkName is that of the Work that there is or will be.
	WorkName string
	// Overrides are the verdicts of override policies; OverrideError is why the object cannot be edited.
	Overrides     []override.Verdict
	OverrideError string
}

// Template returns the path of a template, in order.
func Template(f Facts) []Step {
	steps := []Step{templateStep(f.Template)}
	if f.Stays != "" && f.Binding == nil {
		step := done(fleetv1alpha1.StageTemplate, f.Stays)
		step.Outcome, step.Reason = fleetv1alpha1.OutcomeFailed, "StaysOnControlPlane"
		return append(steps, step)
	}
	steps = append(steps, policySteps(f)...)
	if f.Binding == nil {
		return steps
	}
	steps = append(steps, dependencySteps(f.Binding)...)
	steps = append(steps, bindingSteps(f)...)
	for i := range f.Candidates {
		steps = append(steps, candidateStep(f.Binding, &f.Candidates[i]))
	}
	for i := range f.Targets {
		t := &f.Targets[i]
		steps = append(steps, clusterStateSteps(f.Binding, t)...)
		steps = append(steps, overrideSteps(f.Binding, t)...)
		steps = append(steps, workSteps(f.Binding, t)...)
	}
	return append(steps, statusSteps(&f)...)
}

func done(stage fleetv1alpha1.ExplanationStage, message string, needs ...Right) Step {
	return Step{ExplanationStep: fleetv1alpha1.ExplanationStep{Stage: stage, Outcome: fleetv1alpha1.OutcomeDone, Message: message}, Needs: needs}
}

func templateStep(obj *unstructured.Unstructured) Step {
	created := obj.GetCreationTimestamp()
	step := done(fleetv1alpha1.StageTemplate, "")
	step.Object, step.Time = IdentityOf(obj), &created
	for _, entry := range obj.GetManagedFields() { // the latest write to the object itself
		if entry.Subresource == "" && entry.Time != nil && !entry.Time.Before(step.Time) {
			step.Actor, step.Time = entry.Manager, entry.Time
		}
	}
	if by := pausedBy(obj); by != "" {
		step.Outcome, step.Reason, step.Message = fleetv1alpha1.OutcomeWaiting, "Paused", "the object itself says that nothing is to happen: "+by+" is true"
	}
	if deleted := obj.GetDeletionTimestamp(); deleted != nil {
		step.Outcome, step.Time, step.Message = fleetv1alpha1.OutcomeWaiting, deleted, "it is being deleted, and awaits the finalizers "+strings.Join(obj.GetFinalizers(), ", ")
	}
	return step
}

// pausedBy names the field by which an object is paused or suspended, as many kinds have it; "" if none is set.
func pausedBy(obj *unstructured.Unstructured) string {
	for _, name := range []string{"paused", "suspend"} {
		if set, _, err := unstructured.NestedBool(obj.Object, "spec", name); err == nil && set {
			return "spec." + name
		}
	}
	return ""
}

// IdentityOf names an object.
func IdentityOf(obj *unstructured.Unstructured) *fleetv1alpha1.ObjectIdentity {
	return &fleetv1alpha1.ObjectIdentity{APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func policySteps(f Facts) []Step {
	if owner := policy.OtherOwner(f.Template); owner != "" {
		return []Step{done(fleetv1alpha1.StagePolicy, "no policy applies: the object belongs to "+owner)}
	}
	var steps []Step
	for i, c := range f.Policies.Candidates {
		if i > maxPolicies {
			break
		}
		kind := policyv1alpha1.KindPropagationPolicy
		if c.Policy.Namespace == "" {
			kind = policyv1alpha1.KindClusterPropagationPolicy
		}
		step := done(fleetv1alpha1.StagePolicy, fmt.Sprintf("selects the object %s, priority %d", c.Rank, c.Priority), policyRight(c.Policy))
		step.Object = &fleetv1alpha1.ObjectIdentity{APIVersion: policyv1alpha1.SchemeGroupVersion.String(), Kind: kind, Namespace: c.Policy.Namespace, Name: c.Policy.Name}
		if created, ok := f.Created[c.Policy]; ok {
			step.Time = &created
		}
		winner := f.Policies.Winner
		switch wins := winner != nil && policy.KeyOf(winner) == c.Policy; {
		case wins && c.Dropped != "":
			step.Message = c.Dropped
		case !wins:
			step.Outcome, step.Message = fleetv1alpha1.OutcomeDropped, c.Dropped
			if winner != nil { // the reason may name it
				step.Needs = append(step.Needs, policyRight(policy.KeyOf(winner)))
			}
		}
		steps = append(steps, step)
	}
	if f.Policies.Winner == nil && (f.Binding == nil || len(f.Binding.BindingSpec().RequiredBy) == 0) {
		step := done(fleetv1alpha1.StagePolicy, "no policy selects the object: create a PropagationPolicy in its namespace, or a ClusterPropagationPolicy")
		step.Outcome, step.Reason = fleetv1alpha1.OutcomeWaiting, "NoPolicyMatches"
		if f.Binding != nil {
			step.Message = "no policy selects the object: its binding and its copies stay as they are"
		}
		steps = append(steps, step)
	} else if f.Binding == nil {
		step := done(fleetv1alpha1.StageBinding, "the binding is not created yet")
		step.Outcome, step.Actor = fleetv1alpha1.OutcomeWaiting, actorPropagate
		if err := policy.CheckAnnotations(f.Template); err != nil {
			step.Outcome, step.Message = fleetv1alpha1.OutcomeFailed, err.Error()
		}
		steps = append(steps, step)
	}
	return steps
}

func policyRight(key policy.Key) Right {
	resource := policyv1alpha1.ResourcePluralPropagationPolicy
	if key.Namespace == "" {
		resource = policyv1alpha1.ResourcePluralClusterPropagationPolicy
	}
	return Right{policyv1alpha1.GroupName, resource, key.Namespace, key.Name}
}

func bindingRight(namespace, name string) Right {
	resource := workv1alpha2.ResourcePluralResourceBinding
	if namespace == "" {
		resource = workv1alpha2.ResourcePluralClusterResourceBinding
	}
	return Right{workv1alpha2.GroupName, resource, namespace, name}
}

func clusterRight(name string) Right {
	return Right{clusterv1alpha1.GroupName, clusterv1alpha1.ResourcePluralCluster, "", name}
}

func rightOf(b workv1alpha2.Binding) Right { return bindingRight(b.GetNamespace(), b.GetName()) }

// BindingRight is the right to get a binding.
func BindingRight(b workv1alpha2.Binding) Right { return rightOf(b) }

func dependencySteps(b workv1alpha2.Binding) []Step {
	var steps []Step
	for _, by := range b.BindingSpec().RequiredBy {
		step := done(fleetv1alpha1.StageDependency, "goes wherever "+strings.TrimPrefix(by.Namespace+"/"+by.Name, "/")+" goes, which depends on it",
			rightOf(b), bindingRight(by.Namespace, by.Name))
		step.Object, step.Actor = bindingIdentity(by.Namespace, by.Name), actorPropagate
		steps = append(steps, step)
	}
	var along []fleetv1alpha1.ObjectIdentity // the list in the annotation has these fields, and selectors of objects without a name
	if list := b.GetAnnotations()[workv1alpha2.DependenciesAnnotation]; list != "" && json.Unmarshal([]byte(list), &along) != nil {
		along = nil // another client wrote the annotation; propagate writes it anew
	}
	for i := range along {
		if along[i].Name == "" || len(steps) > maxPolicies {
			continue
		}
		step := done(fleetv1alpha1.StageDependency, "goes wherever the object goes, if it exists", rightOf(b))
		step.Object, step.Actor = &along[i], actorPropagate
		steps = append(steps, step)
	}
	return steps
}

func bindingIdentity(namespace, name string) *fleetv1alpha1.ObjectIdentity {
	kind := workv1alpha2.KindResourceBinding
	if namespace == "" {
		kind = workv1alpha2.KindClusterResourceBinding
	}
	return &fleetv1alpha1.ObjectIdentity{APIVersion: workv1alpha2.GroupVersion.String(), Kind: kind, Namespace: namespace, Name: name}
}

func bindingSteps(f Facts) []Step {
	b := f.Binding
	spec, status := b.BindingSpec(), b.BindingStatus()
	created := b.GetCreationTimestamp()
	step := done(fleetv1alpha1.StageBinding, "", rightOf(b))
	step.Object, step.Actor, step.Time = bindingIdentity(b.GetNamespace(), b.GetName()), actorPropagate, &created
	if deleted := b.GetDeletionTimestamp(); deleted != nil {
		step.Outcome, step.Time, step.Message = fleetv1alpha1.OutcomeWaiting, deleted, "it is being deleted, and awaits the deletion of its Works"
	}
	steps := []Step{step}
	if scheduled := scheduledStep(f, spec, status); scheduled != nil {
		steps = append(steps, *scheduled)
	}
	for _, c := range status.Conditions {
		failed := done(fleetv1alpha1.StageBinding, c.Message, rightOf(b))
		failed.Reason, failed.Time, failed.Outcome = c.Reason, &c.LastTransitionTime, fleetv1alpha1.OutcomeFailed
		switch {
		case c.Type == workv1alpha2.Rendered && c.Status == metav1.ConditionFalse:
			failed.Actor = actorRender
		case c.Type == workv1alpha2.EvictionHeld && c.Status == metav1.ConditionTrue:
			failed.Outcome, failed.Actor = fleetv1alpha1.OutcomeWaiting, "evict"
		case c.Type == workv1alpha2.DivisionWarning && c.Status == metav1.ConditionTrue:
			failed.Outcome, failed.Actor = fleetv1alpha1.OutcomeWaiting, actorSchedule
		default:
			continue
		}
		steps = append(steps, failed)
	}
	return steps
}

// scheduledStep is what the scheduler did; nil if it has nothing to do, since the object only follows others.
func scheduledStep(f Facts, spec *workv1alpha2.ResourceBindingSpec, status *workv1alpha2.ResourceBindingStatus) *Step {
	step := done(fleetv1alpha1.StageBinding, "scheduled to "+targets(spec.Clusters), rightOf(f.Binding))
	step.Actor, step.Time = actorSchedule, status.LastScheduledTime
	condition := meta.FindStatusCondition(status.Conditions, workv1alpha2.Scheduled)
	switch {
	case spec.Suspension != nil && spec.Suspension.Scheduling != nil && *spec.Suspension.Scheduling:
		step.Outcome, step.Reason, step.Message = fleetv1alpha1.OutcomeWaiting, "Suspended", "scheduling is suspended by spec.suspension.scheduling of its policy"
	case condition == nil && f.Policies.Winner == nil && len(spec.RequiredBy) > 0:
		return nil
	case condition == nil:
		step.Outcome, step.Message = fleetv1alpha1.OutcomeWaiting, "it is not scheduled yet"
	case condition.Status != metav1.ConditionTrue:
		step.Outcome, step.Reason, step.Message, step.Time = fleetv1alpha1.OutcomeWaiting, condition.Reason, condition.Message, &condition.LastTransitionTime
	case status.SchedulerObservedGeneration != 0 && status.SchedulerObservedGeneration < f.Binding.GetGeneration():
		step.Outcome, step.Message = fleetv1alpha1.OutcomeWaiting, step.Message+"; its latest change is not scheduled yet"
	default:
		step.Reason = condition.Reason
	}
	if f.Unscheduled != "" {
		step.Message += "; " + f.Unscheduled
	}
	if !f.NextTry.IsZero() {
		step.NextTry = &metav1.Time{Time: f.NextTry}
	}
	return &step
}

func targets(clusters []workv1alpha2.TargetCluster) string {
	if len(clusters) == 0 {
		return "no cluster"
	}
	var names []string
	for _, c := range clusters {
		name := c.Name
		if c.Replicas > 0 {
			name += fmt.Sprintf(" (%d)", c.Replicas)
		}
		names = append(names, name)
	}
	if len(names) > maxPolicies {
		names = append(names[:maxPolicies], fmt.Sprintf("and %d more", len(names)-maxPolicies))
	}
	return strings.Join(names, ", ")
}

func candidateStep(b workv1alpha2.Binding, c *Candidate) Step {
	step := done(fleetv1alpha1.StageCluster, "chosen", rightOf(b), clusterRight(c.Name))
	step.Cluster, step.Actor, step.Scores, step.Replicas, step.Available = c.Name, actorSchedule, c.Scores, c.Replicas, c.Available
	if c.Filter != "" {
		step.Outcome, step.Reason, step.Message, step.Remedies = fleetv1alpha1.OutcomeDropped, c.Filter, strings.Join(c.Dropped, ", "), c.Remedies
	}
	if c.Target && c.Filter != "" {
		step.Outcome, step.Message = fleetv1alpha1.OutcomeWaiting, "has the object, and would not be chosen again: "+step.Message
	}
	return step
}

// clusterStateSteps returns what keeps the control plane from a cluster at all.
func clusterStateSteps(b workv1alpha2.Binding, t *Target) []Step {
	step := done(fleetv1alpha1.StageCluster, "", rightOf(b), clusterRight(t.Name))
	step.Cluster, step.Outcome = t.Name, fleetv1alpha1.OutcomeWaiting
	if t.Cluster == nil {
		step.Message = "there is no Cluster of that name"
		return []Step{step}
	}
	ready := meta.FindStatusCondition(t.Cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	switch {
	case t.Cluster.DeletionTimestamp != nil:
		step.Message, step.Time = "the cluster is being removed", t.Cluster.DeletionTimestamp
	case ready == nil:
		step.Message = "the cluster has not reported that it is ready"
	case ready.Status != metav1.ConditionTrue:
		step.Reason, step.Time, step.Message = ready.Reason, &ready.LastTransitionTime, "the cluster is not ready: "+ready.Message
	default:
		return unread(step, t.Cluster)
	}
	return []Step{step}
}

// unread is the step about a cluster of which the control plane cannot read everything: what is reported of objects there may be old.
func unread(step Step, cluster *clusterv1alpha1.Cluster) []Step {
	readable := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionResourcesReadable)
	if readable == nil || readable.Reason != clusterv1alpha1.ResourcesTooManyReason { // other rights are about nodes and pods
		return nil
	}
	step.Reason, step.Time, step.Message = readable.Reason, &readable.LastTransitionTime, "what is reported of objects in the cluster may be old: "+readable.Message
	return []Step{step}
}

func overrideSteps(b workv1alpha2.Binding, t *Target) []Step {
	var steps []Step
	// What a rule finds may be what another has written, so that a step needs the rights of all before it.
	needs := []Right{rightOf(b), clusterRight(t.Name)}
	for _, v := range t.Overrides {
		if v.Reason == override.ReasonResourceUnselected {
			continue
		}
		right := overrideRight(v.Policy)
		if v.Applied && !slices.Contains(needs, right) {
			needs = append(needs, right)
		}
		step := done(fleetv1alpha1.StageOverride, v.Reason, append(slices.Clone(needs), right)...)
		step.Cluster, step.Actor, step.Object = t.Name, actorRender, overrideIdentity(v)
		if !v.Applied || strings.HasPrefix(v.Reason, override.ReasonNoEffect) {
			step.Outcome = fleetv1alpha1.OutcomeDropped
		}
		step.Message = fmt.Sprintf("rule %d: %s", v.Rule, v.Reason)
		for _, e := range v.Edits {
			step.Fields = append(step.Fields, fleetv1alpha1.FieldEdit{Path: e.Path, From: text(e.From), To: text(e.To)})
		}
		steps = append(steps, step)
	}
	if t.OverrideError != "" {
		// The error names a policy and what it edits. It is in the binding's condition Rendered, too.
		step := done(fleetv1alpha1.StageOverride, t.OverrideError, rightOf(b), clusterRight(t.Name))
		step.Cluster, step.Actor, step.Outcome = t.Name, actorRender, fleetv1alpha1.OutcomeFailed
		steps = append(steps, step)
	}
	return steps
}

func overrideRight(name string) Right {
	if namespace, own, ok := strings.Cut(name, "/"); ok {
		return Right{policyv1alpha1.GroupName, policyv1alpha1.ResourcePluralOverridePolicy, namespace, own}
	}
	return Right{policyv1alpha1.GroupName, policyv1alpha1.ResourcePluralClusterOverridePolicy, "", name}
}

func overrideIdentity(v override.Verdict) *fleetv1alpha1.ObjectIdentity {
	identity := &fleetv1alpha1.ObjectIdentity{APIVersion: policyv1alpha1.SchemeGroupVersion.String(), Kind: policyv1alpha1.KindClusterOverridePolicy, Name: v.Policy}
	if namespace, name, ok := strings.Cut(v.Policy, "/"); ok {
		identity.Kind, identity.Namespace, identity.Name = policyv1alpha1.KindOverridePolicy, namespace, name
	}
	return identity
}

// Sort puts the clusters that are to have the object first, then those that nearly were chosen, each by name.
func Sort(candidates []Candidate) {
	rank := func(c *Candidate) int {
		switch {
		case c.Target:
			return 0
		case c.Filter == "":
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), strings.Compare(a.Name, b.Name))
	})
}

// PolicyRight is the right to get a propagation policy.
func PolicyRight(key policy.Key) Right { return policyRight(key) }
