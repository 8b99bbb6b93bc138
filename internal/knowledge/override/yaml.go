package override

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// yamlDocument is a document's syntax tree, not its value: what is not edited keeps its order, its notation and its comments.
// Other notations may have other values: parsers of YAML read "on" or 0777 in different ways.
type yamlDocument struct {
	node *yaml.Node
	// added is how many values edits have written.
	added int
}

// yamlSteps is how many steps it takes to parse and write a byte of YAML.
const yamlSteps = 4

func (d *yamlDocument) run(b *budget, op operation) error {
	tokens, err := parsePointer(op.path)
	if err != nil {
		return err
	}
	value := &yaml.Node{}
	if op.operator != policyv1alpha1.OverriderOpRemove {
		if d.added += valuesIn(op.value); d.added > bounds.MaxYAMLValues {
			return errValues
		}
		if err := value.Encode(op.value); err != nil {
			return fmt.Errorf("writing the value as YAML: %w", err)
		}
	}
	return op.runNode(b, d.node, value, tokens)
}

func (d *yamlDocument) format() (string, error) {
	var written limited
	encoder := yaml.NewEncoder(&written)
	encoder.SetIndent(2)
	if err := encoder.Encode(d.node); err != nil {
		return "", fmt.Errorf("writing the YAML document: %w", err)
	}
	return written.String(), nil
}

// parseYAML refuses a stream of several documents, of which all but the first would be lost. Aliases are written out, since an
// edit behind one would show in several places.
func parseYAML(b *budget, text string) (document, error) {
	if err := cmp.Or(b.step(yamlSteps*len(text)), checkValues(text)); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	parsed := &yaml.Node{}
	if err := decoder.Decode(parsed); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the YAML document: %w", err)
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("the field holds more than one YAML document")
	}
	if parsed.Kind == 0 {
		parsed = &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!null"}}}
	}
	if !hasAlias(parsed) {
		return &yamlDocument{node: parsed}, nil
	}
	full, err := expansion{}.of(parsed)
	if err != nil {
		return nil, err
	}
	if err := b.step(yamlSteps * full.bytes); err != nil {
		return nil, err
	}
	var value any
	if err := parsed.Decode(&value); err != nil {
		return nil, fmt.Errorf("writing out the aliases of the YAML document: %w", err)
	}
	root := &yaml.Node{}
	if err := root.Encode(value); err != nil {
		return nil, fmt.Errorf("writing out the aliases of the YAML document: %w", err)
	}
	return &yamlDocument{node: &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{root}}}, nil
}

func hasAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || slices.ContainsFunc(node.Content, hasAlias)
}

// extent is how large a node is with its aliases written out.
type extent struct{ values, bytes int }

// expansion has the extent of the nodes that aliases may refer to; that of one that is being measured is zero. The library bounds how many values
// aliases make, not how many bytes: eight thousand aliases of a long text are few values.
type expansion map[*yaml.Node]extent

// of measures a node, and refuses it as soon as it is too large.
func (e expansion) of(node *yaml.Node) (extent, error) {
	if node.Kind == yaml.AliasNode {
		return e.of(node.Alias)
	}
	if node.Anchor != "" {
		known, begun := e[node]
		if begun && known.values == 0 {
			return extent{}, errCycle
		}
		if begun {
			return known, nil
		}
		e[node] = extent{}
	}
	total := extent{1, 1 + len(node.Value)}
	for _, child := range node.Content {
		size, err := e.of(child)
		if err != nil {
			return extent{}, err
		}
		total.values += size.values
		total.bytes += size.bytes
		switch {
		case total.bytes > workv1alpha1.MaxManifestBytes:
			return extent{}, errLarge
		case total.values > bounds.MaxYAMLValues:
			return extent{}, errValues
		}
	}
	if node.Anchor != "" {
		e[node] = total
	}
	return total, nil
}

// runNode is [operation.run] on a syntax tree.
func (op operation) runNode(b *budget, document, value *yaml.Node, tokens []string) error {
	if len(tokens) == 0 {
		if op.operator == policyv1alpha1.OverriderOpRemove {
			return errRoot
		}
		document.Content[0] = value
		return nil
	}
	parent := document.Content[0]
	for depth := range len(tokens) - 1 {
		at, err := b.position(parent, tokens[:depth+1], false)
		if err != nil {
			return err
		}
		parent = parent.Content[at]
	}
	add, remove := op.operator == policyv1alpha1.OverriderOpAdd, op.operator == policyv1alpha1.OverriderOpRemove
	mapping := parent.Kind == yaml.MappingNode
	at, err := b.position(parent, tokens, add)
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
func (b *budget) position(node *yaml.Node, tokens []string, beyond bool) (int, error) {
	token := tokens[len(tokens)-1]
	if err := b.step(len(node.Content) / listStep); err != nil {
		return 0, err
	}
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
