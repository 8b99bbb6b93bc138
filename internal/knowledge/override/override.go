package override

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Result is what override policies made of one object for one cluster.
type Result struct {
	// Object is the edited copy, or the object that was given when no rule applied to it.
	Object *unstructured.Unstructured
	// Cluster lists the rules of ClusterOverridePolicies that were applied, in order.
	Cluster []Applied
	// Namespace lists the rules of OverridePolicies that were applied, after those of Cluster, in order.
	Namespace []Applied
	// Verdicts has, for every rule of every given policy, whether it was applied, and why not. Those of policies that do not select
	// the object are first, then the others in the order in which they take effect.
	Verdicts []Verdict

	explains bool // whether verdicts have edits
}

// Applied is one rule that took effect, in the form that Works carry in an annotation.
type Applied struct {
	PolicyName string                    `json:"policyName"`
	Overriders policyv1alpha1.Overriders `json:"overriders"`
}

// Verdict is the outcome for one rule of one policy.
type Verdict struct {
	// Policy is "namespace/name" of an OverridePolicy or "name" of a ClusterOverridePolicy.
	Policy string
	// Rule is the index in spec.overrideRules; 0 for the deprecated top-level form.
	Rule    int
	Applied bool
	// Reason is a short phrase for people, such as "cluster is not selected".
	Reason string
	// Edits are the fields that the rule changed. Only Explain fills it.
	Edits []Edit
}

// Reasons of verdicts.
const (
	reasonApplied = "applied"
	// ReasonNoEffect begins the reason of a rule that was applied and changed nothing. Only Explain compares.
	ReasonNoEffect           = "changes nothing"
	ReasonResourceUnselected = "resource is not selected"
	reasonClusterUnselected  = "cluster is not selected"
)

// Error is an edit that could not be made. It is terminal: the policy or the object has to change.
type Error struct {
	// Policy is "namespace/name" of an OverridePolicy or "name" of a ClusterOverridePolicy.
	Policy string
	// Rule is the index in spec.overrideRules.
	Rule int
	// Edit names the overrider, such as "plaintext[1]"; empty when the cluster selection itself is at fault.
	Edit string
	// Path is the JSON pointer of the edit, where it has one.
	Path string
	// Cluster is the target the object was being edited for.
	Cluster string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	where := fmt.Sprintf("override policy %q, rule %d", e.Policy, e.Rule)
	if e.Edit != "" {
		where += ", " + e.Edit
	}
	if e.Path != "" {
		where += ", path " + e.Path
	}
	return fmt.Sprintf("%s, cluster %q: %v", where, e.Cluster, e.Err)
}

// Unwrap implements the errors contract.
func (e *Error) Unwrap() error { return e.Err }

// Apply edits a copy of object for cluster. Policies may be given in any order and need not select the object.
//
// ClusterOverridePolicies come first, then the OverridePolicies of the object's own namespace; within each group the less
// specific come first (everything, then by label, then by name), then by policy name, so that the later and more specific one
// wins. The first edit that cannot be made ends it with an *Error; the object is then not to be used.
//
// No edit changes apiVersion, kind, namespace or name of the object, or an ownership key among its labels and annotations (see
// workv1alpha1.IsOwnershipKey), nor does an OverridePolicy change who has which rights by an RBAC object.
//
// Edits that take too much time, or make the object too large, end with an *Error, too. If ctx ends, Apply returns its error before the next edit.
func Apply(ctx context.Context, object *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster, policies []policyv1alpha1.Override) (Result, error) {
	result := Result{Object: object}
	if err := result.run(ctx, object, cluster, policies); err != nil {
		return Result{}, err
	}
	return result, nil
}

// Explain is Apply with the fields that each rule changed. The result has the verdicts up to a rule that failed, too.
func Explain(ctx context.Context, object *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster, policies []policyv1alpha1.Override) (Result, error) {
	result := Result{Object: object, explains: true}
	err := result.run(ctx, object, cluster, policies)
	return result, err
}

func (r *Result) run(ctx context.Context, object *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster, policies []policyv1alpha1.Override) error {
	ordered, dropped := inOrder(TargetOf(object), policies)
	r.Verdicts = dropped
	id, b := identityOf(object), newBudget()
	for _, policy := range ordered {
		for i, rule := range Rules(policy) {
			if err := r.apply(ctx, b, edited{policy, i, &rule, cluster}, object, id); err != nil {
				return err
			}
		}
		if policy.GetNamespace() == "" {
			id.allow(r.Object) // policies of namespaces come after these
		}
	}
	if r.Object != object {
		id.restore(r.Object)
	}
	return nil
}

// edited is what a rule is applied for.
type edited struct {
	policy  policyv1alpha1.Override
	index   int
	rule    *policyv1alpha1.RuleWithCluster
	cluster *clusterv1alpha1.Cluster
}

// failed is an error about the rule.
func (e edited) failed(err error) *Error {
	return &Error{Policy: PolicyName(e.policy), Rule: e.index, Cluster: e.cluster.Name, Err: err}
}

// apply runs one rule on the object so far; original is what Apply was given and must stay as it is.
func (r *Result) apply(ctx context.Context, b *budget, e edited, original *unstructured.Unstructured, id identity) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("applying overrides: %w", err)
	}
	name, namespaced := PolicyName(e.policy), e.policy.GetNamespace() != ""
	selected, err := SelectsCluster(e.rule.TargetCluster, e.cluster)
	if err != nil {
		return e.failed(err)
	}
	if !selected {
		r.Verdicts = append(r.Verdicts, Verdict{Policy: name, Rule: e.index, Reason: reasonClusterUnselected})
		return nil
	}
	if r.Object == original {
		r.Object = original.DeepCopy()
		id.setAside(r.Object)
	}
	var before map[string]any
	if r.explains {
		if err := b.step(2 * comparisonSteps * valuesIn(r.Object.Object)); err != nil {
			return e.failed(err)
		}
		before = runtime.DeepCopyJSON(r.Object.Object)
	}
	b.idle, b.changes = nil, false
	secret := id.secret()
	check := func() error {
		return cmp.Or(b.step(id.steps(r.Object.Object, namespaced)), id.check(r.Object.Object, namespaced))
	}
	if err := b.run(ctx, r.Object.Object, &e.rule.Overriders, check); err != nil {
		var failed *Error
		if errors.As(err, &failed) {
			failed.Policy, failed.Rule, failed.Cluster = name, e.index, e.cluster.Name
			if secret {
				failed.hideValue()
			}
		}
		return err
	}
	verdict := Verdict{Policy: name, Rule: e.index, Applied: true, Reason: reasonApplied}
	if r.explains {
		verdict.Edits = Difference("", before, r.Object.Object)
		if secret {
			hideValues(verdict.Edits)
		}
		verdict.Reason = effect(r.Object.GetKind(), len(verdict.Edits), b.idle)
	}
	r.Verdicts = append(r.Verdicts, verdict)
	applied := Applied{PolicyName: e.policy.GetName(), Overriders: e.rule.Overriders}
	if namespaced {
		r.Namespace = append(r.Namespace, applied)
	} else {
		r.Cluster = append(r.Cluster, applied)
	}
	return nil
}

// effect says what a rule did that has edits, and which of its overriders did nothing.
func effect(kind string, edits int, idle []string) string {
	reason := reasonApplied
	switch {
	case edits == 0:
		reason = ReasonNoEffect
	case len(idle) > 0:
		reason += ", but nothing is changed by " + strings.Join(idle, ", ")
	}
	needsContainers := func(edit string) bool {
		return strings.HasPrefix(edit, "imageOverrider") || strings.HasPrefix(edit, "commandOverrider") || strings.HasPrefix(edit, "argsOverrider")
	}
	if slices.ContainsFunc(idle, needsContainers) && !FindsContainers(kind) {
		reason += fmt.Sprintf(": overriders find no containers of the kind %s, so that an image needs predicate.path and a command plaintext", kind)
	}
	return reason
}

// run runs the overriders of one rule in their fixed order: the later may rely on what the earlier did. Check is called after every edit. An
// *Error lacks policy, rule and cluster.
func (b *budget) run(ctx context.Context, object map[string]any, o *policyv1alpha1.Overriders, check func() error) error {
	words := func(field string) func(policyv1alpha1.CommandArgsOverrider) (string, error) {
		return func(o policyv1alpha1.CommandArgsOverrider) (string, error) {
			return "", b.overrideWords(object, field, o)
		}
	}
	metadata := func(field string) func(policyv1alpha1.LabelAnnotationOverrider) (string, error) {
		return func(o policyv1alpha1.LabelAnnotationOverrider) (string, error) {
			return "/metadata/" + field, b.overrideMetadata(object, field, o)
		}
	}
	image := func(o policyv1alpha1.ImageOverrider) (string, error) { return b.overrideImage(object, o) }
	field := func(o policyv1alpha1.FieldOverrider) (string, error) { return b.overrideField(object, o) }
	plain := func(o policyv1alpha1.PlaintextOverrider) (string, error) {
		return o.Path, b.overridePlaintext(object, o)
	}
	for _, all := range []func() error{
		func() error { return each(ctx, b, "imageOverrider", o.ImageOverrider, check, image) },
		func() error { return each(ctx, b, "commandOverrider", o.CommandOverrider, check, words("command")) },
		func() error { return each(ctx, b, "argsOverrider", o.ArgsOverrider, check, words("args")) },
		func() error { return each(ctx, b, "labelsOverrider", o.LabelsOverrider, check, metadata("labels")) },
		func() error {
			return each(ctx, b, "annotationsOverrider", o.AnnotationsOverrider, check, metadata("annotations"))
		},
		func() error { return each(ctx, b, "fieldOverrider", o.FieldOverrider, check, field) },
		func() error { return each(ctx, b, "plaintext", o.Plaintext, check, plain) },
	} {
		if err := all(); err != nil {
			return err
		}
	}
	return nil
}

// each makes the edits of one kind of overrider, until ctx ends.
func each[O any](ctx context.Context, b *budget, name string, overriders []O, check func() error, edit func(O) (path string, err error)) error {
	for i, overrider := range overriders {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("applying overrides: %w", err)
		}
		path, err := edit(overrider)
		if err == nil {
			err = check()
		}
		if err != nil {
			return &Error{Edit: fmt.Sprintf("%s[%d]", name, i), Path: path, Err: err}
		}
		b.finish(name, i)
	}
	return nil
}
