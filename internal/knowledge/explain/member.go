package explain

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
)

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
	steps := []Step{step, applyStep(t, needs)}
	for _, m := range t.Work.Status.ManifestStatuses {
		steps = append(steps, memberStep(t, m, needs))
	}
	return steps
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
	for _, kind := range []string{workv1alpha1.WorkDegraded, workv1alpha1.WorkAvailable, workv1alpha1.WorkProgressing} {
		c := meta.FindStatusCondition(t.Work.Status.Conditions, kind)
		if c == nil || (c.Status == metav1.ConditionTrue) == (kind == workv1alpha1.WorkAvailable) {
			continue
		}
		step.Time = &c.LastTransitionTime
		if kind == workv1alpha1.WorkDegraded {
			step.Outcome = fleetv1alpha1.OutcomeFailed
		}
		step.Message = strings.TrimPrefix(step.Message+": "+c.Message, ": ")
		break
	}
	var reported struct {
		Replicas      *int32 `json:"replicas"`
		ReadyReplicas int32  `json:"readyReplicas"`
	}
	if m.Status != nil && json.Unmarshal(m.Status.Raw, &reported) == nil && reported.Replicas != nil {
		step.Replicas = reported.Replicas
		step.Message = strings.TrimPrefix(fmt.Sprintf("%s, %d of %d replicas are ready", step.Message, reported.ReadyReplicas, *reported.Replicas), ", ")
	}
	return step
}

// statusSteps returns what was aggregated.
func statusSteps(b workv1alpha2.Binding) []Step {
	var steps []Step
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
