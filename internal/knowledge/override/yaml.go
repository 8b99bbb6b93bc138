package override

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// editYAML edits the document's syntax tree, not its value: what is not edited keeps its order, its notation and its comments.
// Other notations may have other values: parsers of YAML read "on" or 0777 in different ways.
func editYAML(text string, op operation) (string, error) {
	document, err := parseYAML(text)
	if err != nil {
		return "", err
	}
	tokens, err := parsePointer(op.path)
	if err != nil {
		return "", err
	}
	value := &yaml.Node{}
	if op.operator != policyv1alpha1.OverriderOpRemove {
		if err := value.Encode(op.value); err != nil {
			return "", fmt.Errorf("writing the value as YAML: %w", err)
		}
	}
	if err := op.runNode(document, value, tokens); err != nil {
		return "", err
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(document); err != nil {
		return "", fmt.Errorf("writing the YAML document: %w", err)
	}
	return b.String(), nil
}

// parseYAML refuses a stream of several documents, of which all but the first would be lost. Aliases are written out, since an
// edit behind one would show in several places.
func parseYAML(text string) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	document := &yaml.Node{}
	if err := decoder.Decode(document); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the YAML document: %w", err)
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("the field holds more than one YAML document")
	}
	if document.Kind == 0 {
		document = &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!null"}}}
	}
	if !hasAlias(document) {
		return document, nil
	}
	var value any
	if err := document.Decode(&value); err != nil {
		return nil, fmt.Errorf("writing out the aliases of the YAML document: %w", err)
	}
	root := &yaml.Node{}
	if err := root.Encode(value); err != nil {
		return nil, fmt.Errorf("writing out the aliases of the YAML document: %w", err)
	}
	return &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{root}}, nil
}

func hasAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || slices.ContainsFunc(node.Content, hasAlias)
}

// runNode is [operation.run] on a syntax tree.
func (op operation) runNode(document, value *yaml.Node, tokens []string) error {
	if len(tokens) == 0 {
		if op.operator == policyv1alpha1.OverriderOpRemove {
			return errRoot
		}
		document.Content[0] = value
		return nil
	}
	parent := document.Content[0]
	for depth := range len(tokens) - 1 {
		at, err := position(parent, tokens[:depth+1], false)
		if err != nil {
			return err
		}
		parent = parent.Content[at]
	}
	add, remove := op.operator == policyv1alpha1.OverriderOpAdd, op.operator == policyv1alpha1.OverriderOpRemove
	mapping := parent.Kind == yaml.MappingNode
	at, err := position(parent, tokens, add)
	switch {
	case err != nil && add && mapping:
		key := &yaml.Node{}
		key.SetString(tokens[len(tokens)-1])
		parent.Content = append(parent.Content, key, value)
	case err != nil:
		return err
	case remove && mapping:
		parent.Content = slices.Delete(parent.Content, at-1, at+1)
	case remove:
		parent.Content = slices.Delete(parent.Content, at, at+1)
	case add && !mapping:
		parent.Content = slices.Insert(parent.Content, at, value)
	default:
		parent.Content[at] = value
	}
	return nil
}

// position finds the content of node that the last of tokens names. Beyond allows the place after the last item.
func position(node *yaml.Node, tokens []string, beyond bool) (int, error) {
	token := tokens[len(tokens)-1]
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == token {
				return i + 1, nil
			}
		}
		return 0, missing(tokens)
	case yaml.SequenceNode:
		highest := len(node.Content) - 1
		if beyond {
			if highest++; token == "-" {
				return highest, nil
			}
		}
		return index(tokens, highest)
	default:
		return 0, scalar(tokens[:len(tokens)-1])
	}
}
