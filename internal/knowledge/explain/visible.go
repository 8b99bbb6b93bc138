package explain

import (
	"slices"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Right is the right to get one object.
type Right struct{ Group, Resource, Namespace, Name string }

// AllBindings is the right to get every ResourceBinding. Who has it operates the control plane: tenants have namespaces.
var AllBindings = Right{Group: workv1alpha2.GroupName, Resource: workv1alpha2.ResourcePluralResourceBinding}

// AllClusters is the right to get every Cluster.
var AllClusters = clusterRight("")

// resource is the resource as kubectl shows it.
func (r Right) resource() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

// Step is a step with the objects that it reveals.
type Step struct {
	fleetv1alpha1.ExplanationStep
	// Needs are the rights without which the step is hidden. A step that reveals nothing but the object of the question has none.
	Needs []Right
}

// Visible returns the steps of which a user may get every object. For all others of a stage that lack a right on the same resource there
// is one hidden step. It has neither names nor a number: these say which objects there are.
func Visible(steps []Step, may func(Right) bool) []fleetv1alpha1.ExplanationStep {
	type missing struct {
		stage    fleetv1alpha1.ExplanationStage
		resource string
	}
	hidden := map[missing]bool{}
	var out []fleetv1alpha1.ExplanationStep
	for _, step := range steps {
		lacks := slices.IndexFunc(step.Needs, func(r Right) bool { return !may(r) })
		if lacks < 0 {
			out = append(out, step.ExplanationStep)
			continue
		}
		key := missing{step.Stage, step.Needs[lacks].resource()}
		if hidden[key] {
			continue
		}
		hidden[key] = true
		out = append(out, fleetv1alpha1.ExplanationStep{
			Stage: step.Stage, Outcome: fleetv1alpha1.OutcomeHidden, Message: "needs get on " + key.resource,
		})
	}
	return out
}

// Summary is the answer in one sentence, made of what is visible: the first step that failed or waits, or where the object is.
func Summary(steps []fleetv1alpha1.ExplanationStep) string {
	for _, outcome := range []fleetv1alpha1.ExplanationOutcome{fleetv1alpha1.OutcomeFailed, fleetv1alpha1.OutcomeWaiting} {
		for _, step := range steps {
			if step.Outcome != outcome {
				continue
			}
			text := string(step.Stage)
			if step.Cluster != "" {
				text += " in " + step.Cluster
			}
			if outcome == fleetv1alpha1.OutcomeWaiting {
				return text + " waits: " + step.Message
			}
			return text + " failed: " + step.Message
		}
	}
	if slices.ContainsFunc(steps, func(s fleetv1alpha1.ExplanationStep) bool { return s.Outcome == fleetv1alpha1.OutcomeHidden }) {
		return "Nothing that you may see failed or waits."
	}
	return "Nothing failed and nothing waits."
}
