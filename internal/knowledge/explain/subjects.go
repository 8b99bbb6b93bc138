package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// maxWorks is how many Works that wait or failed are in an answer about a cluster.
const maxWorks = 20

// Selected is a template that a policy selects or has, of those that the user may get: whoever writes a policy could find out by it which
// objects exist.
type Selected struct {
	Template fleetv1alpha1.ObjectIdentity
	// Owner is the policy that the template belongs to, zero if there is none.
	Owner policy.Key
	// Binding is nil if there is none.
	Binding workv1alpha2.Binding
}

// Propagation returns the templates of a propagation policy, and those that it selects and that belong to another one.
func Propagation(p policyv1alpha1.Propagation, selected []Selected) []Step {
	var steps []Step
	if len(selected) == 0 {
		step := done(fleetv1alpha1.StagePolicy, "selects no object that you may get")
		step.Outcome, step.Reason = fleetv1alpha1.OutcomeWaiting, "NothingSelected"
		steps = append(steps, step)
	}
	for i := range selected {
		s := &selected[i]
		step := done(fleetv1alpha1.StageTemplate, "belongs to this policy")
		step.Object = &s.Template
		switch s.Owner {
		case policy.KeyOf(p):
		case policy.Key{}:
			step.Outcome, step.Message = fleetv1alpha1.OutcomeWaiting, "is selected, and belongs to no policy yet"
		default:
			step.Outcome, step.Message = fleetv1alpha1.OutcomeDropped, fmt.Sprintf("is selected, and belongs to %s", s.Owner)
			step.Needs = append(step.Needs, policyRight(s.Owner))
		}
		steps = append(steps, step)
		if s.Owner != policy.KeyOf(p) || s.Binding == nil {
			continue
		}
		scheduled := scheduledStep(Facts{Binding: s.Binding, Policies: policy.Decision{Winner: p}}, s.Binding.BindingSpec(), s.Binding.BindingStatus())
		scheduled.Object = bindingIdentity(s.Binding.GetNamespace(), s.Binding.GetName())
		steps = append(steps, *scheduled)
	}
	return steps
}

// Override returns what an override policy does in the given targets to a template that the user may get.
func Override(name, template string, b workv1alpha2.Binding, targets []Target) []Step {
	var steps []Step
	for i := range targets {
		for _, step := range overrideSteps(b, &targets[i]) {
			if step.Object == nil || *step.Object != *overrideIdentity(override.Verdict{Policy: name}) {
				continue // another policy; an error, which may be about another
			}
			step.Message = template + ", " + step.Message
			steps = append(steps, step)
		}
	}
	return steps
}

// Cluster returns the state of a cluster, and the Works for it that are not applied or not healthy.
func Cluster(c *clusterv1alpha1.Cluster, works []*workv1alpha1.Work) []Step {
	created := c.CreationTimestamp
	first := done(fleetv1alpha1.StageCluster, "joined")
	first.Time = &created
	if c.DeletionTimestamp != nil {
		first.Outcome, first.Time = fleetv1alpha1.OutcomeWaiting, c.DeletionTimestamp
		first.Message = "is being removed, and awaits the finalizers " + strings.Join(c.Finalizers, ", ")
	}
	steps := []Step{first}
	for _, condition := range c.Status.Conditions {
		step := done(fleetv1alpha1.StageCluster, fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Message))
		step.Reason, step.Time = condition.Reason, &condition.LastTransitionTime
		if condition.Type == clusterv1alpha1.ClusterConditionReady && condition.Status != metav1.ConditionTrue {
			step.Outcome = fleetv1alpha1.OutcomeWaiting
		}
		steps = append(steps, step)
	}
	for i := range c.Spec.Taints {
		taint := &c.Spec.Taints[i]
		step := done(fleetv1alpha1.StageCluster, "has the taint "+taint.ToString())
		step.Time = taint.TimeAdded
		steps = append(steps, step)
	}
	for i := range steps {
		steps[i].Cluster = c.Name
	}
	return append(steps, unfinished(c.Name, works)...)
}

// unfinished has the first step that waits or failed of each Work of a cluster: what failed before what waits, what is being deleted last,
// and the newest first.
func unfinished(cluster string, works []*workv1alpha1.Work) []Step {
	works = slices.SortedFunc(slices.Values(works), func(a, b *workv1alpha1.Work) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var failed, waiting, deleted []Step
	for _, w := range works {
		t := Target{Name: cluster, Work: w, WorkName: w.Name}
		steps := workStepsFor(&t, []Right{workRight(w.Namespace, w.Name)})
		first := slices.IndexFunc(steps, func(s Step) bool { return s.Outcome != fleetv1alpha1.OutcomeDone })
		if first < 0 {
			continue
		}
		step := steps[first]
		step.Message = "Work " + w.Name + ": " + step.Message
		switch {
		case w.DeletionTimestamp != nil:
			deleted = append(deleted, step)
		case step.Outcome == fleetv1alpha1.OutcomeFailed:
			failed = append(failed, step)
		default:
			waiting = append(waiting, step)
		}
	}
	all := slices.Concat(failed, waiting, deleted)
	if len(all) <= maxWorks {
		return all
	}
	more := done(fleetv1alpha1.StageWork, fmt.Sprintf("%d more Works wait or failed", len(all)-maxWorks), workRight(workv1alpha1.ExecutionNamespace(cluster), ""))
	more.Cluster, more.Outcome = cluster, fleetv1alpha1.OutcomeWaiting
	return append(all[:maxWorks], more)
}

// workRight is the right to a Work, or to every Work of a namespace.
func workRight(namespace, name string) Right {
	return Right{workv1alpha1.GroupName, workv1alpha1.ResourcePluralWork, namespace, name}
}

// Work returns what became of a Work.
func Work(w *workv1alpha1.Work, cluster string) []Step {
	var steps []Step
	if namespace, name, bound := strings.Cut(workv1alpha2.BoundTo(w), "/"); bound {
		step := done(fleetv1alpha1.StageBinding, "the Work is written from this binding")
		step.Object, step.Actor = bindingIdentity(namespace, name), actorRender
		steps = append(steps, step)
	}
	return append(steps, workStepsFor(&Target{Name: cluster, Work: w, WorkName: w.Name}, nil)...)
}
