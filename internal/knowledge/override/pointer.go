package override

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// errRoot is returned where an edit would have to replace or remove a whole object.
var errRoot = errors.New("the path has to name a field, not the whole object")

// operation is one step of a JSON patch (RFC 6902: add, remove and replace) on a decoded document.
type operation struct {
	path     string
	operator policyv1alpha1.OverriderOperator
	value    any
}

// newOperation decodes the value; a value that is left out is null.
func newOperation(path string, operator policyv1alpha1.OverriderOperator, value apiextensionsv1.JSON) (operation, error) {
	op := operation{path: path, operator: operator}
	if operator == policyv1alpha1.OverriderOpRemove || len(value.Raw) == 0 {
		return op, nil
	}
	if err := json.Unmarshal(value.Raw, &op.value); err != nil {
		return op, fmt.Errorf("decoding the value: %w", err)
	}
	return op, nil
}

// run edits document in place as far as possible and returns what it has become.
func (op operation) run(document any) (any, error) {
	tokens, err := parsePointer(op.path)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		if op.operator == policyv1alpha1.OverriderOpRemove {
			return nil, errRoot
		}
		return op.value, nil
	}
	return op.descend(document, tokens, 0)
}

// descend walks to the parent of the last token. Each step hands back the container, since a slice may have moved.
func (op operation) descend(node any, tokens []string, depth int) (any, error) {
	if depth == len(tokens)-1 {
		return op.finish(node, tokens)
	}
	switch container := node.(type) {
	case map[string]any:
		child, found := container[tokens[depth]]
		if !found {
			return nil, missing(tokens[:depth+1])
		}
		changed, err := op.descend(child, tokens, depth+1)
		if err != nil {
			return nil, err
		}
		container[tokens[depth]] = changed
		return container, nil
	case []any:
		i, err := index(tokens[depth], len(container)-1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", formatPointer(tokens[:depth+1]), err)
		}
		container[i], err = op.descend(container[i], tokens, depth+1)
		return container, err
	default:
		return nil, fmt.Errorf("%s holds neither fields nor items", describe(tokens[:depth]))
	}
}

func (op operation) finish(node any, tokens []string) (any, error) {
	last := tokens[len(tokens)-1]
	switch container := node.(type) {
	case map[string]any:
		if _, found := container[last]; !found && op.operator != policyv1alpha1.OverriderOpAdd {
			return nil, missing(tokens)
		}
		if op.operator == policyv1alpha1.OverriderOpRemove {
			delete(container, last)
		} else {
			container[last] = op.value
		}
		return container, nil
	case []any:
		return op.finishList(container, tokens)
	default:
		return nil, fmt.Errorf("%s holds neither fields nor items", describe(tokens[:len(tokens)-1]))
	}
}

func (op operation) finishList(list []any, tokens []string) (any, error) {
	last, highest := tokens[len(tokens)-1], len(list)-1
	if op.operator == policyv1alpha1.OverriderOpAdd {
		if last == "-" {
			return append(list, op.value), nil
		}
		highest++
	}
	i, err := index(last, highest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", formatPointer(tokens), err)
	}
	switch op.operator {
	case policyv1alpha1.OverriderOpAdd:
		return slices.Insert(list, i, op.value), nil
	case policyv1alpha1.OverriderOpRemove:
		return slices.Delete(list, i, i+1), nil
	default:
		list[i] = op.value
		return list, nil
	}
}

// lookup finds the value at path in document.
func lookup(document any, path string) (any, error) {
	tokens, err := parsePointer(path)
	if err != nil {
		return nil, err
	}
	for depth, token := range tokens {
		switch container := document.(type) {
		case map[string]any:
			child, found := container[token]
			if !found {
				return nil, missing(tokens[:depth+1])
			}
			document = child
		case []any:
			i, err := index(token, len(container)-1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", formatPointer(tokens[:depth+1]), err)
			}
			document = container[i]
		default:
			return nil, fmt.Errorf("%s holds neither fields nor items", describe(tokens[:depth]))
		}
	}
	return document, nil
}

// parsePointer splits a JSON pointer (RFC 6901). The empty pointer names the whole document.
func parsePointer(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("path %q does not start with a slash", path)
	}
	tokens := strings.Split(path[1:], "/")
	for i, token := range tokens {
		for at := 0; at < len(token); at++ {
			if token[at] == '~' && (at+1 == len(token) || token[at+1] != '0' && token[at+1] != '1') {
				return nil, fmt.Errorf("path %q has a ~ that is neither ~0 nor ~1", path)
			}
		}
		tokens[i] = unescape.Replace(token)
	}
	return tokens, nil
}

var (
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
)

func formatPointer(tokens []string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteByte('/')
		b.WriteString(escape.Replace(token))
	}
	return b.String()
}

func describe(tokens []string) string {
	if len(tokens) == 0 {
		return "the document"
	}
	return formatPointer(tokens)
}

func missing(tokens []string) error {
	return fmt.Errorf("there is nothing at %s", formatPointer(tokens))
}

// index reads a list index; leading zeros and signs are not allowed by the RFC.
func index(token string, highest int) (int, error) {
	i, err := strconv.Atoi(token)
	if err != nil || strconv.Itoa(i) != token || i < 0 {
		return 0, fmt.Errorf("%q is no list index", token)
	}
	if i > highest {
		return 0, fmt.Errorf("the list has no item %d", i)
	}
	return i, nil
}
