package override

import (
	"cmp"
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

// operation is one step of a JSON patch (RFC 6902: add, remove and replace) on a decoded document. evanphx/json-patch does not do
// the job: it replaces fields that do not exist, removes the last item for the index -1, accepts indexes such as 01, does not
// name the part of a path that is missing, and works on bytes: one step on a Deployment takes it 80 times as long.
type operation struct {
	path     string
	operator policyv1alpha1.OverriderOperator
	value    any
}

// newOperation decodes the value; a value that is left out is null.
func (b *budget) newOperation(path string, operator policyv1alpha1.OverriderOperator, value apiextensionsv1.JSON) (operation, error) {
	op := operation{path: path, operator: operator}
	if err := b.step(1 + len(path)); err != nil {
		return op, err
	}
	if operator == policyv1alpha1.OverriderOpRemove || len(value.Raw) == 0 {
		return op, nil
	}
	if err := b.write(len(value.Raw)); err != nil {
		return op, err
	}
	if err := json.Unmarshal(value.Raw, &op.value); err != nil {
		return op, fmt.Errorf("decoding the value: %w", err)
	}
	return op, nil
}

// listStep is how many items of a list one step moves.
const listStep = 16

// run edits document in place as far as possible and returns the edited document.
func (op operation) run(b *budget, document any) (any, error) {
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
	last := len(tokens) - 1
	container, replace, err := find(&document, tokens[:last])
	if err != nil {
		return nil, err
	}
	switch container := container.(type) {
	case map[string]any:
		if _, found := container[tokens[last]]; !found && op.operator != policyv1alpha1.OverriderOpAdd {
			return nil, missing(tokens)
		}
		if op.operator == policyv1alpha1.OverriderOpRemove {
			delete(container, tokens[last])
		} else {
			container[tokens[last]] = op.value
		}
	case []any:
		if err := b.step(len(container) / listStep); err != nil {
			return nil, err
		}
		list, err := op.runList(container, tokens)
		if err != nil {
			return nil, err
		}
		replace(list)
	default:
		return nil, scalar(tokens[:last])
	}
	return document, nil
}

func (op operation) runList(list []any, tokens []string) ([]any, error) {
	last, highest := tokens[len(tokens)-1], len(list)-1
	if op.operator == policyv1alpha1.OverriderOpAdd {
		if last == "-" {
			return append(list, op.value), nil
		}
		highest++
	}
	i, err := index(tokens, highest)
	if err != nil {
		return nil, err
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

// find returns the value that tokens lead to, and a function that replaces it.
func find(document *any, tokens []string) (value any, replace func(any), err error) {
	value, replace = *document, func(v any) { *document = v }
	for depth, token := range tokens {
		switch container := value.(type) {
		case map[string]any:
			child, found := container[token]
			if !found {
				return nil, nil, missing(tokens[:depth+1])
			}
			value, replace = child, func(v any) { container[token] = v }
		case []any:
			i, err := index(tokens[:depth+1], len(container)-1)
			if err != nil {
				return nil, nil, err
			}
			value, replace = container[i], func(v any) { container[i] = v }
		default:
			return nil, nil, scalar(tokens[:depth])
		}
	}
	return value, replace, nil
}

// lookup returns the value at path in object.
func lookup(object map[string]any, path string) (any, error) {
	tokens, err := parsePointer(path)
	if err != nil {
		return nil, err
	}
	document := any(object)
	value, _, err := find(&document, tokens)
	return value, err
}

// lookupText returns the text at path in object, which is to be of the given notation.
func lookupText(object map[string]any, path, notation string) (string, error) {
	value, err := lookup(object, path)
	if err != nil {
		return "", err
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("the value is no string, so no %s", notation)
	}
	return text, nil
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
		if strings.Count(token, "~") != strings.Count(token, "~0")+strings.Count(token, "~1") {
			return nil, fmt.Errorf("path %q has a ~ that is neither ~0 nor ~1", path)
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

func missing(tokens []string) error {
	return fmt.Errorf("there is nothing at %s", formatPointer(tokens))
}

func scalar(tokens []string) error {
	return fmt.Errorf("%s holds neither fields nor items", cmp.Or(formatPointer(tokens), "the document"))
}

// index reads the last of tokens as a list index; RFC 6901 allows no leading zeros and no signs.
func index(tokens []string, highest int) (int, error) {
	token := tokens[len(tokens)-1]
	i, err := strconv.Atoi(token)
	if err != nil || strconv.Itoa(i) != token || i < 0 {
		return 0, fmt.Errorf("%s: %q is no list index", formatPointer(tokens), token)
	}
	if i > highest {
		return 0, fmt.Errorf("%s: the list has no item %d", formatPointer(tokens), i)
	}
	return i, nil
}
