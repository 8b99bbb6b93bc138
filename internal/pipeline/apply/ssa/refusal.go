package ssa

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// conflict is a field that another manager owns with another value.
type Conflict struct {
	// Field is its path as the API server writes it.
	Field string
	// Manager is who owns it.
	Manager string
}

// String is the conflict as a condition shows it.
func (c Conflict) String() string { return fmt.Sprintf("%s is owned by %q", c.Field, c.Manager) }

var managerName = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)

// conflictsIn reads the conflicts out of the API server's answer to an apply; empty for other errors.
func ConflictsIn(err error) []Conflict {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var found []Conflict
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		c := Conflict{Field: cause.Field, Manager: cause.Message}
		if match := managerName.FindStringSubmatch(cause.Message); match != nil {
			c.Manager = match[1]
		}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b Conflict) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(found)
}

const (
	typedPrefix   = "failed to create typed patch object"
	unknownField  = ": field not declared in schema"
	duplicateItem = ": duplicate entries for key "
)

// unknownFields are the parts of an object that a member's schema does not have.
type unknownFields struct {
	Unknown    []string    // paths of fields it does not know
	duplicates [][2]string // lists, and the item they have more than once
}

// unknownFieldsIn reads them from the API server's answer to an apply; empty for other errors.
func UnknownFieldsIn(err error) unknownFields {
	var found unknownFields
	if err == nil || !strings.Contains(err.Error(), typedPrefix) {
		return found
	}
	// "failed to create typed patch object (ns/name; apps/v1, Kind=Deployment): .spec.x: field not declared in schema",
	// or after the colon "errors:" and one such line each.
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		if _, rest, ok := strings.Cut(line, "): "); ok && strings.Contains(line, typedPrefix) {
			line = rest
		}
		if !strings.HasPrefix(line, ".") {
			continue
		}
		if path, ok := strings.CutSuffix(line, unknownField); ok {
			found.Unknown = append(found.Unknown, path)
		} else if path, item, ok := strings.Cut(line, duplicateItem); ok {
			found.duplicates = append(found.duplicates, [2]string{path, item})
		}
	}
	return found
}

// removal is a field, or a repeated item of a list, that was left out of an apply.
type removal struct {
	Field string // as the API server writes it
	Path  string // in our form
}

// fit removes them from obj: unknown fields altogether, and of items of one key all but the last, which is the
// one that a plain update would give effect. No removal means that it could not help.
func (m unknownFields) Fit(obj *unstructured.Unstructured) []removal {
	var removed []removal
	for _, field := range m.Unknown {
		if s, ok := Locate(Spot{Value: obj.Object}, field); ok && s.Drop != nil {
			s.Drop()
			removed = append(removed, removal{field, s.path})
		}
	}
	for _, d := range m.duplicates {
		if reduce(obj, d[0], d[1]) {
			removed = append(removed, removal{Field: d[0] + d[1]})
		}
	}
	return removed
}

// reduce leaves only the last item of a list that matches an element such as `[name="a"]`.
func reduce(obj *unstructured.Unstructured, path, element string) bool {
	s, ok := Locate(Spot{Value: obj.Object}, path)
	list, isList := s.Value.([]any)
	element, _, isElement := cutElement(element)
	if !ok || !isList || !isElement {
		return false
	}
	last := -1
	for i, item := range list {
		if matchesElement(item, i, element) {
			last = i
		}
	}
	kept := make([]any, 0, len(list))
	for i, item := range list {
		if i == last || !matchesElement(item, i, element) {
			kept = append(kept, item)
		}
	}
	s.set(kept)
	return len(kept) < len(list)
}

// triage separates conflicts from drift: a field that we had, or that is one of our marks, was taken from us.
func Triage(found []Conflict, body, live *unstructured.Unstructured) (theirs []Conflict, drifted bool) {
	recorded, ok := RecordOf(live)
	for _, c := range found {
		s, located := Locate(Spot{Value: body.Object}, c.Field)
		switch {
		case !ok, Predecessors[c.Manager], located && (isMark(s.path) || recorded.Footprint.has(s.path)):
			drifted = true
		default:
			theirs = append(theirs, c)
		}
	}
	return theirs, drifted
}
