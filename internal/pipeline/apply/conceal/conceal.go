package conceal

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hidden replaces a value that is removed from a message.
const hidden = "(hidden)"

// shortestHidden is the length, in bytes, of the shortest value that is looked for in messages. Shorter ones are part of
// ordinary words.
const shortestHidden = 4

// concealed is a failure whose text names fields and rules, but no values.
type concealed struct {
	text  string
	cause error
}

// Error is the text without values.
func (e *concealed) Error() string { return e.text }

// Unwrap returns the failure itself, for those who decide by its kind.
func (e *concealed) Unwrap() error { return e.cause }

// Values removes values from a member's answer about an object: users who may read Works, conditions and events need not be
// one who may read Secrets. Of a validation error the field and the rule stay. Of any other answer the text stays, without
// the values of a Secret or of environment variables that the object has.
func Values(err error, obj *unstructured.Unstructured) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		text = strings.ReplaceAll(text, status.Error(), answerText(status, isSecret(obj)))
	}
	for _, value := range secretValues(obj) {
		text = strings.ReplaceAll(text, value, hidden)
	}
	if text == err.Error() {
		return err
	}
	return &concealed{text, err}
}

func isSecret(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "Secret" && obj.GetAPIVersion() == "v1"
}

// answerText is the message of an API server about an object, without the values of fields.
func answerText(status *apierrors.StatusError, secret bool) string {
	details := status.ErrStatus.Details
	if status.ErrStatus.Reason != metav1.StatusReasonInvalid || details == nil || len(details.Causes) == 0 {
		return status.Error()
	}
	var causes []string
	for _, cause := range details.Causes {
		kind, rule := ruleOf(cause.Message)
		if kind == "" && cause.Field == "" {
			causes = append(causes, cause.Message) // of an admission policy, in its own words
			continue
		}
		if rule != "" && !secret {
			kind += ": " + rule
		}
		kind = cmp.Or(kind, "refused")
		if cause.Field != "" {
			kind = cause.Field + ": " + kind
		}
		causes = append(causes, kind)
	}
	kind := details.Kind
	if details.Group != "" {
		kind += "." + details.Group
	}
	return fmt.Sprintf("%s %q is invalid: %s", kind, details.Name, strings.Join(causes, ", "))
}

// errorKind is how the text of a validation error starts; it may name the value after that. See field.Error.
var errorKind = regexp.MustCompile(`^(Invalid value|Unsupported value|Not found|Duplicate value|Too many|Too few|Required value|Forbidden|Too long|Too short|Internal error)(?:: |$)`)

// ruleOf takes a validation error apart: "Invalid value: VALUE: RULE" or "Required value: RULE". A text of another form has
// neither a kind nor a rule that could be distinguished from a value.
func ruleOf(message string) (kind, rule string) {
	match := errorKind.FindStringSubmatch(message)
	if match == nil {
		return "", ""
	}
	kind, rule = match[1], message[len(match[0]):]
	switch kind {
	case "Required value", "Forbidden", "Too long", "Too short", "Internal error":
	default:
		rule = afterValue(rule)
	}
	// The lines after the first hold whole objects.
	rule, _, _ = strings.Cut(rule, "\n")
	return kind, strings.TrimSpace(rule)
}

// afterValue is what follows a value in a text: a quoted text, JSON, or a word, and a colon. It is empty if the value cannot
// be distinguished from what follows.
func afterValue(text string) string {
	rest := ""
	switch {
	case text == "":
	case text[0] == '"' || text[0] == '`':
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return ""
		}
		rest = text[len(quoted):]
	case text[0] == '{' || text[0] == '[':
		decoder := json.NewDecoder(strings.NewReader(text))
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return ""
		}
		rest = text[decoder.InputOffset():]
	default:
		word, after, found := strings.Cut(text, ": ")
		if !found || strings.ContainsAny(word, " \t\n\"{[") {
			return ""
		}
		return after
	}
	rule, found := strings.CutPrefix(rest, ": ")
	if !found {
		return ""
	}
	return rule
}

// secretValues are the values of an object that are no one else's business, the longest first: those of a Secret, and those
// of environment variables.
func secretValues(obj *unstructured.Unstructured) []string {
	var values []string
	add := func(value string) {
		if len(value) >= shortestHidden {
			values = append(values, value)
			if quoted := strconv.Quote(value); quoted[1:len(quoted)-1] != value {
				values = append(values, quoted[1:len(quoted)-1])
			}
		}
	}
	if isSecret(obj) {
		for _, field := range []string{"data", "stringData"} {
			entries, _, _ := unstructured.NestedMap(obj.Object, field)
			for _, entry := range entries {
				value, ok := entry.(string)
				if !ok {
					continue
				}
				add(value)
				if decoded, err := base64.StdEncoding.DecodeString(value); err == nil && field == "data" {
					add(string(decoded))
				}
			}
		}
	}
	eachEnvironment(obj.Object, add)
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(values)
}

// eachEnvironment calls add with the value of each environment variable below a value: items of a list named env.
func eachEnvironment(value any, add func(string)) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if list, ok := field.([]any); ok && name == "env" {
				for _, item := range list {
					if variable, ok := item.(map[string]any); ok {
						if text, ok := variable["value"].(string); ok {
							add(text)
						}
					}
				}
			}
			eachEnvironment(field, add)
		}
	case []any:
		for _, item := range value {
			eachEnvironment(item, add)
		}
	}
}
