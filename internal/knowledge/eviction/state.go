package eviction

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/jsonpath"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Limits of statePreservation: what is read is a status that a tenant may have written, by paths that a tenant has written.
const (
	MaxStateRules = 32
	maxStatePath  = 256
)

// CheckStatePath returns what is wrong with a JSONPath template of statePreservation. Fields, indexes, filters and wildcards take time in
// proportion to the status. Recursive descents, ranges and unions may multiply its parts, so they are refused.
func CheckStatePath(path string) error {
	if len(path) > maxStatePath {
		return fmt.Errorf("the JSONPath template has %d bytes, at most %d are allowed", len(path), maxStatePath)
	}
	parsed, err := jsonpath.Parse("statePreservation", path)
	if err != nil {
		return err
	}
	return checkNodes(parsed.Root)
}

func checkNodes(node jsonpath.Node) error {
	switch n := node.(type) {
	case *jsonpath.ListNode:
		for _, child := range n.Nodes {
			if err := checkNodes(child); err != nil {
				return err
			}
		}
	case *jsonpath.FilterNode:
		return errors.Join(checkNodes(n.Left), checkNodes(n.Right))
	case *jsonpath.RecursiveNode, *jsonpath.IdentifierNode, *jsonpath.UnionNode:
		return fmt.Errorf("the JSONPath template has %v: recursive descents, ranges and unions are not supported", node.Type())
	}
	return nil
}

// PreserveState returns the labels that a policy requires for the copy that takes over, from the status of the copy that is left. Every
// rule has to yield a valid label: an application that continues without its state may do harm.
func PreserveState(state *policyv1alpha1.StatePreservation, status *runtime.RawExtension) (map[string]string, error) {
	if state == nil || len(state.Rules) == 0 {
		return nil, nil
	}
	if len(state.Rules) > MaxStateRules {
		return nil, fmt.Errorf("statePreservation has %d rules, at most %d are allowed", len(state.Rules), MaxStateRules)
	}
	if status == nil {
		return nil, errors.New("statePreservation: the cluster has not reported a status")
	}
	var content any
	if err := json.Unmarshal(status.Raw, &content); err != nil {
		return nil, fmt.Errorf("statePreservation: reading the status: %w", err)
	}
	labels := make(map[string]string, len(state.Rules))
	for i := range state.Rules {
		rule := &state.Rules[i]
		value, err := readState(content, rule)
		if err != nil {
			return nil, fmt.Errorf("statePreservation: rule %d: %w", i, err)
		}
		labels[rule.AliasLabelName] = value
	}
	return labels, nil
}

func readState(content any, rule *policyv1alpha1.StatePreservationRule) (string, error) {
	if faults := validation.IsQualifiedName(rule.AliasLabelName); len(faults) > 0 {
		return "", errors.New(strings.Join(faults, "; "))
	}
	if workv1alpha1.IsOwnershipKey(rule.AliasLabelName) {
		return "", errors.New("the label belongs to the control plane")
	}
	if err := CheckStatePath(rule.JSONPath); err != nil {
		return "", err
	}
	path, value := jsonpath.New("statePreservation"), &labelText{}
	if err := path.Parse(rule.JSONPath); err != nil {
		return "", err
	}
	if err := path.Execute(value, content); err != nil {
		return "", fmt.Errorf("%s: %w", rule.JSONPath, err)
	}
	if faults := validation.IsValidLabelValue(value.String()); len(faults) > 0 {
		return "", fmt.Errorf("%s yields no label value: %s", rule.JSONPath, strings.Join(faults, "; "))
	}
	return value.String(), nil
}

// labelText is the text of a label. A template may yield twenty times the status: it ends with what is too long for a label.
type labelText struct{ strings.Builder }

// Write implements io.Writer.
func (t *labelText) Write(part []byte) (int, error) {
	if t.Len()+len(part) > validation.LabelValueMaxLength {
		return 0, fmt.Errorf("it yields more than %d bytes, which is no label value", validation.LabelValueMaxLength)
	}
	return t.Builder.Write(part)
}
