package override

import (
	"cmp"
	"fmt"

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
	reasonApplied            = "applied"
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
func Apply(object *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster, policies []policyv1alpha1.Override) (Result, error) {
	result := Result{Object: object}
	if err := result.run(object, cluster, policies); err != nil {
		return Result{}, err
	}
	return result, nil
}

// Explain is Apply with the fields that each rule changed. The result has the verdicts up to a rule that failed, too.
func Explain(object *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster, policies []policyv1alpha1.Override) (Result, error) {
	result := Result{Object: object, explains: true}
	err := result.run(object, cluster, policies)
	return result, err
}

func (r *Result) run(object *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster, policies []policyv1alpha1.Override) error {
	ordered, dropped := inOrder(TargetOf(object), policies)
	r.Verdicts = dropped
	id := identityOf(object)
	for _, policy := range ordered {
		for i, rule := range Rules(policy) {
			if err := r.apply(policy, i, rule, cluster, object, id); err != nil {
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

// apply runs one rule on the object so far; original is what Apply was given and must stay as it is.
func (r *Result) apply(policy policyv1alpha1.Override, index int, rule policyv1alpha1.RuleWithCluster,
	cluster *clusterv1alpha1.Cluster, original *unstructured.Unstructured, id identity) error {
	name := PolicyName(policy)
	selected, err := SelectsCluster(rule.TargetCluster, cluster)
	if err != nil {
		return &Error{Policy: name, Rule: index, Cluster: cluster.Name, Err: err}
	}
	if !selected {
		r.Verdicts = append(r.Verdicts, Verdict{Policy: name, Rule: index, Reason: reasonClusterUnselected})
		return nil
	}
	if r.Object == original {
		r.Object = original.DeepCopy()
		id.setAside(r.Object)
	}
	var before map[string]any
	if r.explains {
		before = runtime.DeepCopyJSON(r.Object.Object)
	}
	check := func(object map[string]any) error { return id.check(object, policy.GetNamespace() != "") }
	secret := original.GetKind() == "Secret" && original.GetAPIVersion() == "v1"
	if failed := edit(r.Object.Object, &rule.Overriders, check); failed != nil {
		failed.Policy, failed.Rule, failed.Cluster = name, index, cluster.Name
		if secret {
			failed.hideValue()
		}
		return failed
	}
	verdict := Verdict{Policy: name, Rule: index, Applied: true, Reason: reasonApplied}
	if r.explains {
		verdict.Edits = Difference("", before, r.Object.Object)
		if secret {
			hideValues(verdict.Edits)
		}
	}
	r.Verdicts = append(r.Verdicts, verdict)
	applied := Applied{PolicyName: policy.GetName(), Overriders: rule.Overriders}
	if policy.GetNamespace() == "" {
		r.Cluster = append(r.Cluster, applied)
	} else {
		r.Namespace = append(r.Namespace, applied)
	}
	return nil
}

// edit runs the overriders of one rule in their fixed order: the later may rely on what the earlier did. Check is called after
// every edit that can reach any field. The error lacks policy, rule and cluster.
func edit(object map[string]any, o *policyv1alpha1.Overriders, check func(map[string]any) error) *Error {
	failed := func(overrider string, index int, path string, err error) *Error {
		return &Error{Edit: fmt.Sprintf("%s[%d]", overrider, index), Path: path, Err: err}
	}
	for i, image := range o.ImageOverrider {
		path, err := overrideImage(object, image)
		if err := cmp.Or(err, check(object)); err != nil {
			return failed("imageOverrider", i, path, err)
		}
	}
	for i, command := range o.CommandOverrider {
		if err := overrideWords(object, "command", command); err != nil {
			return failed("commandOverrider", i, "", err)
		}
	}
	for i, args := range o.ArgsOverrider {
		if err := overrideWords(object, "args", args); err != nil {
			return failed("argsOverrider", i, "", err)
		}
	}
	for i, labels := range o.LabelsOverrider {
		if err := cmp.Or(overrideMetadata(object, "labels", labels), check(object)); err != nil {
			return failed("labelsOverrider", i, "/metadata/labels", err)
		}
	}
	for i, annotations := range o.AnnotationsOverrider {
		if err := cmp.Or(overrideMetadata(object, "annotations", annotations), check(object)); err != nil {
			return failed("annotationsOverrider", i, "/metadata/annotations", err)
		}
	}
	for i, field := range o.FieldOverrider {
		path, err := overrideField(object, field)
		if err := cmp.Or(err, check(object)); err != nil {
			return failed("fieldOverrider", i, path, err)
		}
	}
	for i, plain := range o.Plaintext {
		if err := cmp.Or(overridePlaintext(object, plain), check(object)); err != nil {
			return failed("plaintext", i, plain.Path, err)
		}
	}
	return nil
}
