package apiserver_test

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	uidPattern  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timePattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
)

// masks replace in an answer what differs from run to run.
type masks struct {
	captured  map[string]string
	namespace string
	// columns of the last table that had some: in a watch only the first one does.
	columns []any
}

func (m *masks) text(text string) string {
	text = strings.ReplaceAll(text, m.namespace, "{{ns}}")
	for _, name := range slices.Sorted(maps.Keys(m.captured)) {
		value := m.captured[name]
		if _, err := strconv.Atoi(value); err != nil && len(value) >= 6 {
			text = strings.ReplaceAll(text, value, "{{"+name+"}}")
		}
	}
	text = uidPattern.ReplaceAllString(text, "<uid>")
	text = timePattern.ReplaceAllString(text, "<time>")
	if length := utf8.RuneCountInString(text); length > 600 && !strings.HasPrefix(text, "{") {
		return fmt.Sprintf("<text length=%d sha256=%.16s>", length, fmt.Sprintf("%x", sha256.Sum256([]byte(text))))
	}
	return text
}

func (m *masks) texts(texts []string) []any {
	var masked []any
	for _, text := range slices.Sorted(slices.Values(texts)) {
		masked = append(masked, m.text(text))
	}
	return masked
}

func (m *masks) value(key string, value any) any {
	switch value := value.(type) {
	case string:
		return m.text(value)
	case []any:
		masked := []any{}
		for _, element := range value {
			masked = append(masked, m.value("", element))
		}
		if key == "managedFields" {
			maskManagers(masked)
		}
		return masked
	case map[string]any:
		return m.object(value)
	}
	return value
}

func (m *masks) object(object map[string]any) map[string]any {
	kind, _ := object["kind"].(string)
	isList := strings.HasSuffix(kind, "List") || kind == "Table"
	masked := map[string]any{}
	for key, value := range object {
		if metadata, ok := value.(map[string]any); ok && key == "metadata" {
			value = m.metadata(metadata, isList)
		}
		if key != "storageVersionHash" {
			masked[m.text(key)] = m.value(key, value)
		}
	}
	if rows, ok := masked["rows"].([]any); ok && kind == "Table" {
		if columns, ok := object["columnDefinitions"].([]any); ok && len(columns) > 0 {
			m.columns = columns
		}
		for i, column := range m.columns {
			if column.(map[string]any)["name"] == "Age" {
				for _, row := range rows {
					row.(map[string]any)["cells"].([]any)[i] = "<age>"
				}
			}
		}
	}
	return masked
}

func (m *masks) metadata(metadata map[string]any, ofList bool) map[string]any {
	masked := maps.Clone(metadata)
	if version, _ := masked["resourceVersion"].(string); version != "" {
		masked["resourceVersion"] = "<rv>"
		for _, name := range slices.Sorted(maps.Keys(m.captured)) {
			if !ofList && m.captured[name] == version {
				masked["resourceVersion"] = "<rv={{" + name + "}}>"
				break
			}
		}
	}
	if uid, _ := masked["uid"].(string); uidPattern.MatchString(uid) {
		masked["uid"] = "<uid>"
	}
	for _, key := range []string{"creationTimestamp", "deletionTimestamp"} {
		if masked[key] != nil && masked[key] != "" {
			masked[key] = "<time>"
		}
	}
	if token, _ := masked["continue"].(string); token != "" {
		masked["continue"] = "<continue>"
	}
	return masked
}

func maskManagers(managers []any) {
	for _, manager := range managers {
		if entry := manager.(map[string]any); entry["time"] != nil {
			entry["time"] = "<time>"
		}
	}
	key := func(manager any) string {
		entry := manager.(map[string]any)
		return fmt.Sprint(entry["operation"], "\x00", orEmpty(entry["subresource"]), "\x00", orEmpty(entry["manager"]))
	}
	slices.SortFunc(managers, func(a, b any) int { return cmp.Compare(key(a), key(b)) })
}

func orEmpty(value any) any {
	if value == nil {
		return ""
	}
	return value
}

// contractOf reduces a recorded answer to what callers may rely on: everything but wording.
func contractOf(record map[string]any) map[string]any {
	reduced := maps.Clone(record)
	warnings := []any{}
	if all, ok := record["warnings"].([]any); ok {
		for _, warning := range all {
			if !strings.Contains(warning.(string), "deprecated") {
				warnings = append(warnings, warning)
			}
		}
	}
	reduced["warnings"] = warnings
	if _, plain := record["body"].(string); plain && record["contentType"] != "application/yaml" {
		reduced["body"], reduced["contentType"] = "<text>", "<text>"
	}
	reduced["body"] = withoutWording(reduced["body"])
	return reduced
}

func withoutWording(value any) any {
	switch value := value.(type) {
	case []any:
		reduced := []any{}
		for _, element := range value {
			reduced = append(reduced, withoutWording(element))
		}
		return reduced
	case map[string]any:
		if value["kind"] == "Status" && value["status"] == "Failure" {
			return failure(value)
		}
		reduced := map[string]any{}
		for key, element := range value {
			reduced[key] = withoutWording(element)
		}
		if columns, ok := reduced["columnDefinitions"].([]any); ok && value["kind"] == "Table" {
			for _, column := range columns {
				delete(column.(map[string]any), "description")
			}
		}
		return reduced
	}
	return value
}

// failure keeps of an error what programs look at. Releases report one limit under different reasons.
func failure(status map[string]any) map[string]any {
	details, _ := status["details"].(map[string]any)
	causes := []string{}
	all, _ := details["causes"].([]any)
	for _, each := range all {
		cause := each.(map[string]any)
		reason := fmt.Sprint(orEmpty(cause["reason"]))
		switch reason {
		case "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid":
			reason = "FieldValueInvalid"
		}
		causes = append(causes, reason+" "+fmt.Sprint(orEmpty(cause["field"])))
	}
	slices.Sort(causes)
	return map[string]any{
		"code": status["code"], "reason": orEmpty(status["reason"]), "causes": slices.Compact(causes),
		"name": orEmpty(details["name"]), "kind": orEmpty(details["kind"]), "group": orEmpty(details["group"]),
	}
}

// dig follows keys and indexes into a document; nil is what is not there.
func dig(document any, path []string) any {
	for _, step := range path {
		switch at := document.(type) {
		case map[string]any:
			document = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(at) {
				return nil
			}
			document = at[i]
		default:
			return nil
		}
	}
	return document
}

// cut leaves of a document the parts that the case compares.
func cut(document any, request exchange) any {
	if request.Pick != nil {
		picked := map[string]any{}
		for _, pointer := range request.Pick {
			var steps []string
			for _, step := range strings.Split(pointer, "/")[1:] {
				steps = append(steps, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
			}
			picked[pointer] = dig(document, steps)
			if picked[pointer] == nil {
				picked[pointer] = "<absent>"
			}
		}
		document = picked
	}
	if object, ok := document.(map[string]any); ok {
		for key, names := range request.Keep {
			if list, ok := object[key].([]any); ok {
				object[key] = slices.DeleteFunc(list, func(element any) bool {
					name, _ := element.(map[string]any)["name"].(string)
					return !slices.Contains(names, name)
				})
			}
		}
	}
	if request.DropKeys != nil {
		document = without(document, request.DropKeys)
	}
	return document
}

func without(value any, keys []string) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = without(value[i], keys)
		}
	case map[string]any:
		for key := range value {
			value[key] = without(value[key], keys)
		}
		maps.DeleteFunc(value, func(key string, _ any) bool { return slices.Contains(keys, key) })
	}
	return value
}
