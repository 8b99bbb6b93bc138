package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

const (
	// maxFields is how many fields a short text names.
	maxFields = 3
	// maxValue is how many characters of a value a short text has.
	maxValue = 40
)

// Difference is what one part of two states differs in.
type Difference struct {
	Part fleetv1alpha1.RevisionPart
	// Objects are what has to be readable to see the difference: the policies before and after. Template and clusters have none.
	Objects []map[string]any
	Text    string
}

// Differences lists what differs between two states, in short.
func Differences(before, after State) []Difference {
	var all []Difference
	add := func(part fleetv1alpha1.RevisionPart, text string, objects ...map[string]any) {
		if text != "" {
			all = append(all, Difference{Part: part, Text: text, Objects: slices.DeleteFunc(objects, func(o map[string]any) bool { return o == nil })})
		}
	}
	add(fleetv1alpha1.RevisionTemplate, Short(Edits(before.Template, after.Template)))
	add(fleetv1alpha1.RevisionPolicy, policyText(before.Policy, after.Policy), before.Policy, after.Policy)
	was, is := byIdentity(before.Overrides), byIdentity(after.Overrides)
	for _, id := range slices.Sorted(maps.Keys(merge(was, is))) {
		add(fleetv1alpha1.RevisionOverride, objectText("override", was[id], is[id]), was[id], is[id])
	}
	add(fleetv1alpha1.RevisionClusters, clustersText(before.Clusters, after.Clusters))
	return all
}

func byIdentity(objects []map[string]any) map[string]map[string]any {
	all := make(map[string]map[string]any, len(objects))
	for _, o := range objects {
		all[identity(o)] = o
	}
	return all
}

func merge[V any](a, b map[string]V) map[string]V {
	all := make(map[string]V, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

func nameOf(object map[string]any) string {
	return (&unstructured.Unstructured{Object: object}).GetName()
}

func policyText(before, after map[string]any) string {
	if before != nil && after != nil && identity(before) != identity(after) {
		return fmt.Sprintf("policy %s → %s", nameOf(before), nameOf(after))
	}
	return objectText("policy", before, after)
}

func objectText(noun string, before, after map[string]any) string {
	switch {
	case before == nil && after == nil:
		return ""
	case before == nil:
		return fmt.Sprintf("%s +%s", noun, nameOf(after))
	case after == nil:
		return fmt.Sprintf("%s -%s", noun, nameOf(before))
	}
	if text := Short(Edits(before, after)); text != "" {
		return fmt.Sprintf("%s %s: %s", noun, nameOf(after), text)
	}
	return ""
}

func clustersText(before, after []fleetv1alpha1.RevisionCluster) string {
	was, is := map[string]int32{}, map[string]int32{}
	for _, c := range before {
		was[c.Name] = c.Replicas
	}
	for _, c := range after {
		is[c.Name] = c.Replicas
	}
	var moves, scaled []string
	for _, name := range slices.Sorted(maps.Keys(merge(was, is))) {
		from, had := was[name]
		to, has := is[name]
		switch {
		case !had:
			moves = append(moves, "+"+name)
		case !has:
			moves = append(moves, "-"+name)
		case from != to:
			scaled = append(scaled, fmt.Sprintf("%s %d → %d", name, from, to))
		}
	}
	var parts []string
	if len(moves) > 0 {
		parts = append(parts, "clusters "+abbreviated(moves, " ", "clusters"))
	}
	if len(scaled) > 0 {
		parts = append(parts, "replicas "+abbreviated(scaled, ", ", "clusters"))
	}
	return strings.Join(parts, "; ")
}

// abbreviated joins the first entries of a list.
func abbreviated(all []string, separator, noun string) string {
	if rest := len(all) - maxFields; rest > 0 {
		return strings.Join(all[:maxFields], separator) + fmt.Sprintf(" and %d more %s", rest, noun)
	}
	return strings.Join(all, separator)
}

// Short is a text about edits, empty if there are none.
func Short(edits []fleetv1alpha1.FieldEdit) string {
	texts := make([]string, 0, len(edits))
	for _, edit := range edits {
		texts = append(texts, last(edit.Path)+" "+values(edit))
	}
	return abbreviated(texts, ", ", "fields")
}

// last is the last part of a path. A part in brackets may have dots.
func last(path string) string {
	if at := strings.LastIndex(path, "["); at >= 0 && strings.HasSuffix(path, "]") {
		return path[at+1 : len(path)-1]
	}
	return path[strings.LastIndex(path, ".")+1:]
}

func values(edit fleetv1alpha1.FieldEdit) string {
	switch {
	case edit.From == redacted:
		return "changed"
	case edit.From == "":
		return "+" + shortened(edit.To)
	case edit.To == "":
		return "-" + shortened(edit.From)
	}
	return shortened(edit.From) + " → " + shortened(edit.To)
}

func shortened(value string) string {
	value = strings.Trim(value, `"`)
	if runes := []rune(value); len(runes) > maxValue {
		return string(runes[:maxValue-1]) + "…"
	}
	return value
}

// redacted stands for values of Secrets.
const redacted = "(hidden)"

// Edits lists the fields that differ between two objects, sorted by path. An entry of a list is found by its name where it has one.
// Values of Secrets are not shown.
func Edits(before, after map[string]any) []fleetv1alpha1.FieldEdit {
	var edits []fleetv1alpha1.FieldEdit
	walk("", before, after, &edits)
	of := after
	if of == nil {
		of = before
	}
	if o := (&unstructured.Unstructured{Object: of}); o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" {
		for i := range edits {
			if strings.HasPrefix(edits[i].Path, "data") || strings.HasPrefix(edits[i].Path, "stringData") {
				edits[i].From, edits[i].To = redacted, redacted
			}
		}
	}
	slices.SortFunc(edits, func(a, b fleetv1alpha1.FieldEdit) int { return compare(a.Path, b.Path) })
	return edits
}

func walk(path string, before, after any, edits *[]fleetv1alpha1.FieldEdit) {
	if reflect.DeepEqual(before, after) {
		return
	}
	if from, to, ok := both[map[string]any](before, after); ok {
		for key := range merge(from, to) {
			walk(join(path, key), from[key], to[key], edits)
		}
		return
	}
	if from, to, ok := both[[]any](before, after); ok {
		was, named := entries(from)
		is, alsoNamed := entries(to)
		if named && alsoNamed {
			for key := range merge(was, is) {
				walk(path+"["+key+"]", was[key], is[key], edits)
			}
			return
		}
	}
	*edits = append(*edits, fleetv1alpha1.FieldEdit{Path: path, From: text(before), To: text(after)})
}

// both returns two values, if they are of one type.
func both[T any](before, after any) (from, to T, ok bool) {
	from, isFrom := before.(T)
	to, isTo := after.(T)
	return from, to, isFrom && isTo
}

func join(path, key string) string {
	if strings.Contains(key, ".") {
		return path + "[" + key + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// entries are those of a list by their names, if all have one and each another.
func entries(list []any) (map[string]any, bool) {
	all := make(map[string]any, len(list))
	for _, item := range list {
		entry, ok := item.(map[string]any)
		if !ok {
			return nil, false
		}
		name, ok := entry["name"].(string)
		if _, double := all[name]; !ok || double {
			return nil, false
		}
		all[name] = entry
	}
	return all, true
}

func text(value any) string {
	if value == nil {
		return ""
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(raw)
}
