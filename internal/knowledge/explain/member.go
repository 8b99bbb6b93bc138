package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// maxComplaint is how many bytes of a condition in a member are shown.
const maxComplaint = 1024

// maxValue is how many bytes of a value are shown.
const maxValue = 200

// text is a value as JSON, "" for none.
func text(value any) string {
	if value == nil {
		return ""
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return "?" // what was read as JSON can be written as JSON
	}
	if len(raw) > maxValue {
		return strings.ToValidUTF8(string(raw[:maxValue]), "") + "…"
	}
	return string(raw)
}

// workSteps returns what render and apply did for a cluster, and what observe reported.
func workSteps(b workv1alpha2.Binding, t *Target) []Step {
	right := workRight(workv1alpha1.ExecutionNamespace(t.Name), t.WorkName)
	return workStepsFor(t, []Right{rightOf(b), right})
}

// workStepsFor is workSteps for users with the given rights.
func workStepsFor(t *Target, needs []Right) []Step {
	namespace := workv1alpha1.ExecutionNamespace(t.Name)
	identity := &fleetv1alpha1.ObjectIdentity{APIVersion: workv1alpha1.GroupVersion.String(), Kind: workv1alpha1.KindWork, Namespace: namespace, Name: t.WorkName}
	step := done(fleetv1alpha1.StageWork, "", needs...)
	step.Cluster, step.Actor, step.Object = t.Name, actorRender, identity
	if t.Work == nil {
		step.Outcome, step.Message = fleetv1alpha1.OutcomeWaiting, "the Work is not written yet"
		return []Step{step}
	}
	created := t.Work.CreationTimestamp
	if step.Time = &created; t.Work.DeletionTimestamp != nil {
		step.Outcome, step.Time, step.Message = fleetv1alpha1.OutcomeWaiting, t.Work.DeletionTimestamp, "it is being deleted, and awaits the deletion in the member"
	}
	applied := applyStep(t, needs)
	steps := []Step{step, applied}
	if drifted := driftStep(t, needs); drifted != nil {
		steps = append(steps, *drifted)
	}
	for _, m := range t.Work.Status.ManifestStatuses {
		steps = append(steps, memberStep(t, m, needs))
	}
	if len(t.Work.Status.ManifestStatuses) == 0 && applied.Outcome == fleetv1alpha1.OutcomeDone {
		silent := done(fleetv1alpha1.StageMember, "the cluster has not reported yet what it has", needs...)
		silent.Cluster, silent.Actor, silent.Outcome = t.Name, actorObserve, fleetv1alpha1.OutcomeWaiting
		steps = append(steps, silent)
	}
	return steps
}

// driftStep is what apply reports of fields that others changed; nil if there are none.
func driftStep(t *Target, needs []Right) *Step {
	c := meta.FindStatusCondition(t.Work.Status.Conditions, workv1alpha1.WorkDrifted)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	step := done(fleetv1alpha1.StageWork, c.Message, needs...)
	step.Cluster, step.Actor, step.Reason, step.Time, step.Outcome = t.Name, actorApply, c.Reason, &c.LastTransitionTime, fleetv1alpha1.OutcomeWaiting
	if c.Reason == workv1alpha1.DriftDisputedReason {
		step.Outcome = fleetv1alpha1.OutcomeFailed
	}
	return &step
}

// applyStep is what apply reports in the conditions of a Work.
func applyStep(t *Target, needs []Right) Step {
	conditions := t.Work.Status.Conditions
	step := done(fleetv1alpha1.StageWork, "not applied yet", needs...)
	step.Cluster, step.Actor, step.Outcome = t.Name, actorApply, fleetv1alpha1.OutcomeWaiting
	if c := meta.FindStatusCondition(conditions, workv1alpha1.WorkDispatching); c != nil && c.Status == metav1.ConditionFalse {
		step.Reason, step.Message, step.Time = c.Reason, c.Message, &c.LastTransitionTime
		return step
	}
	c := meta.FindStatusCondition(conditions, workv1alpha1.WorkApplied)
	if c == nil {
		return step
	}
	step.Reason, step.Message, step.Time, step.Outcome = c.Reason, c.Message, &c.LastTransitionTime, fleetv1alpha1.OutcomeFailed
	switch {
	case c.Status == metav1.ConditionTrue && c.ObservedGeneration != 0 && c.ObservedGeneration < t.Work.Generation:
		step.Outcome, step.Message = fleetv1alpha1.OutcomeWaiting, "an earlier version is applied, the latest is not yet"
	case c.Status == metav1.ConditionTrue && strings.Contains(c.Message, workv1alpha1.AppliedWithoutMark):
		step.Outcome = fleetv1alpha1.OutcomeWaiting // for an upgrade of the cluster
	case c.Status == metav1.ConditionTrue:
		step.Outcome = fleetv1alpha1.OutcomeDone
	case c.Status == metav1.ConditionUnknown, c.Reason == workv1alpha1.AppliedHeldReason, c.Reason == workv1alpha1.AppliedBrakedReason:
		step.Outcome = fleetv1alpha1.OutcomeWaiting
	default:
		step.Message += fmt.Sprintf(" (applied again within %s, and when the object changes in the member)", duration.HumanDuration(backoff.Longest))
	}
	return step
}

// memberStep is the copy in the member as observe reports it.
func memberStep(t *Target, m workv1alpha1.ManifestStatus, needs []Right) Step {
	id := m.Identifier
	step := done(fleetv1alpha1.StageMember, string(m.Health), needs...)
	step.Cluster, step.Actor, step.Reason = t.Name, actorObserve, string(m.Health)
	step.Object = &fleetv1alpha1.ObjectIdentity{APIVersion: strings.TrimPrefix(id.Group+"/"+id.Version, "/"), Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
	if m.Health != workv1alpha1.ResourceHealthy {
		step.Outcome = fleetv1alpha1.OutcomeWaiting
	}
	seen := meta.IsStatusConditionTrue(t.Work.Status.Conditions, workv1alpha1.WorkAvailable)
	if (m.Health == workv1alpha1.ResourceUnknown || m.Health == "") && workv1alpha1.HasNoStatus(m.Status) && seen {
		step.Message = "the health is not known: nothing in the cluster has reported a status of the object"
	}
	for _, kind := range []string{workv1alpha1.WorkDegraded, workv1alpha1.WorkAvailable, workv1alpha1.WorkProgressing} {
		c := meta.FindStatusCondition(t.Work.Status.Conditions, kind)
		if c == nil || (c.Status == metav1.ConditionTrue) == (kind == workv1alpha1.WorkAvailable) {
			continue
		}
		step.Time = &c.LastTransitionTime
		switch {
		case kind == workv1alpha1.WorkDegraded:
			step.Outcome = fleetv1alpha1.OutcomeFailed
		case len(t.Work.Status.ManifestStatuses) == 1: // of several it may be another one
			step.Outcome = fleetv1alpha1.OutcomeWaiting
		}
		step.Message = strings.TrimPrefix(step.Message+": "+c.Message, ": ")
		break
	}
	reported := reportOf(t.Work, m)
	if count := reported.count(id); count != "" {
		step.Replicas = reported.Replicas
		step.Message = strings.TrimPrefix(step.Message+", "+count, ", ")
	}
	if complaint := reported.complaint(); complaint != "" {
		step.Message = strings.TrimPrefix(step.Message+"; "+complaint, "; ")
		if step.Outcome == fleetv1alpha1.OutcomeDone {
			step.Outcome = fleetv1alpha1.OutcomeWaiting
		}
	}
	return step
}

// reported is what the statuses of many kinds have in common.
type reported struct {
	Replicas        *int32 `json:"replicas"`
	ReadyReplicas   *int32 `json:"readyReplicas"`
	DesiredReplicas *int32 `json:"desiredReplicas"`
	Conditions      []struct{ Type, Status, Reason, Message string }
}

// reportOf reads what a member reports of an object, and from the Work how many replicas it is to have if the report does not say so.
func reportOf(work *workv1alpha1.Work, m workv1alpha1.ManifestStatus) reported {
	var r reported
	if m.Status == nil || json.Unmarshal(m.Status.Raw, &r) != nil {
		return reported{} // a status of another form
	}
	if manifests := work.Spec.Workload.Manifests; r.DesiredReplicas == nil && r.Replicas != nil && m.Identifier.Ordinal >= 0 && m.Identifier.Ordinal < len(manifests) {
		var wanted struct{ Spec struct{ Replicas *int32 } }
		if json.Unmarshal(manifests[m.Identifier.Ordinal].Raw, &wanted) == nil {
			r.DesiredReplicas = wanted.Spec.Replicas
		}
	}
	return r
}

// count says how many replicas are ready, of as many as there should be; "" if nothing is known of them. The built-in kinds leave a zero out, and
// with other kinds what is absent is unknown.
func (r *reported) count(id workv1alpha1.ResourceIdentifier) string {
	if r.Replicas == nil && (r.DesiredReplicas == nil || id.Group != "apps") {
		return ""
	}
	wanted := ptr.Deref(r.DesiredReplicas, ptr.Deref(r.Replicas, 0))
	switch {
	case r.ReadyReplicas != nil || id.Group == "apps":
		return fmt.Sprintf("%d of %d replicas are ready", ptr.Deref(r.ReadyReplicas, 0), wanted)
	case *r.Replicas != wanted:
		return fmt.Sprintf("has %d of %d replicas", *r.Replicas, wanted)
	default:
		return fmt.Sprintf("has %d replicas", wanted)
	}
}

// bad are the conditions that say what is wrong with an object, by the status that does; the most telling first.
var bad = []struct {
	kind   string
	status string
}{
	{"ReplicaFailure", "True"}, {"Failed", "True"}, {"FailureTarget", "True"},
	{"Stalled", "True"}, {"Degraded", "True"}, {"PodScheduled", "False"},
	{"NamesAccepted", "False"}, {"Established", "False"}, {"Progressing", "False"},
	{"Suspended", "True"}, {"Synced", "False"}, {"Ready", "False"}, {"Available", "False"},
	{"Reconciling", "True"},
}

// complaint is the most telling condition with which an object says what is wrong with it.
func (r *reported) complaint() string {
	for _, b := range bad {
		for i := range r.Conditions {
			c := &r.Conditions[i]
			if c.Type != b.kind || c.Status != b.status {
				continue
			}
			text := fmt.Sprintf("condition %s is %s", c.Type, c.Status)
			if because := strings.TrimSuffix(strings.TrimPrefix(c.Reason+": "+c.Message, ": "), ": "); because != "" {
				text += ", " + because
			}
			return bounds.Cut(text, maxComplaint)
		}
	}
	return ""
}

// NoStatusSubresource says why a template has no status although its copies have.
const NoStatusSubresource = "The clusters report a status, which is in the binding. The template stays without: the definition of its kind has no subresource status. " +
	"Add subresources: {status: {}} to the version of the definition"

// HasStatus returns whether some cluster reports a status of its copy.
func HasStatus(items []workv1alpha2.AggregatedStatusItem) bool {
	return slices.ContainsFunc(items, func(i workv1alpha2.AggregatedStatusItem) bool { return !workv1alpha1.HasNoStatus(i.Status) })
}

// statusSteps returns what was aggregated.
func statusSteps(f *Facts) []Step {
	b := f.Binding
	var steps []Step
	if f.StatusUnwritable && HasStatus(b.BindingStatus().AggregatedStatus) {
		step := done(fleetv1alpha1.StageStatus, NoStatusSubresource, rightOf(b))
		step.Actor, step.Outcome, step.Reason = actorAggregate, fleetv1alpha1.OutcomeWaiting, "NoStatusSubresource"
		steps = append(steps, step)
	}
	for _, item := range b.BindingStatus().AggregatedStatus {
		step := done(fleetv1alpha1.StageStatus, "applied", rightOf(b))
		step.Cluster, step.Actor, step.Reason = item.ClusterName, actorAggregate, string(item.Health)
		if !item.Applied {
			step.Outcome, step.Message = fleetv1alpha1.OutcomeWaiting, "not applied"
			if item.AppliedMessage != "" {
				step.Outcome, step.Message = fleetv1alpha1.OutcomeFailed, item.AppliedMessage
			}
		} else if item.Health == workv1alpha2.ResourceUnhealthy {
			step.Outcome, step.Message = fleetv1alpha1.OutcomeWaiting, "applied, and not healthy"
		} else if item.Health != workv1alpha2.ResourceHealthy {
			step.Outcome, step.Message = fleetv1alpha1.OutcomeWaiting, "applied, and its health is not known"
		}
		steps = append(steps, step)
	}
	if c := meta.FindStatusCondition(b.BindingStatus().Conditions, workv1alpha2.FullyApplied); c != nil {
		step := done(fleetv1alpha1.StageStatus, c.Message, rightOf(b))
		step.Actor, step.Reason, step.Time = actorAggregate, c.Reason, &c.LastTransitionTime
		if c.Status != metav1.ConditionTrue {
			step.Outcome = fleetv1alpha1.OutcomeWaiting
		}
		steps = append(steps, step)
	}
	return steps
}
