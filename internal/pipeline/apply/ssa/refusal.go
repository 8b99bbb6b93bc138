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

	"github.com/flagship-k8s/flagship/internal/pipeline/apply/replicas"
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

// TakenPort is a node port that a Service cannot have in a member: another Service has it there, or the range of the member's
// node ports does not include it.
type TakenPort struct {
	Number string
	Reason string // as the API server writes it
}

// String is the port as a condition shows it.
func (p TakenPort) String() string { return fmt.Sprintf("%s (%s)", p.Number, p.Reason) }

var (
	nodePortField = regexp.MustCompile(`^spec\.ports\[\d+\]\.nodePort$`)
	takenMessage  = regexp.MustCompile(`^Invalid value: (\d+): (provided port is .*)$`)
)

// DropTaken removes from a Service the node ports that an answer to an apply refuses, and returns those of its ports. The API
// server names the position in the merged list, so a port is found by its number. That of the health check is not returned: it
// cannot be changed later, so there is nothing to try again.
func DropTaken(service *unstructured.Unstructured, err error) (taken []TakenPort, dropped bool) {
	var status apierrors.APIStatus
	if service.GetKind() != "Service" || service.GetAPIVersion() != "v1" || !errors.As(err, &status) {
		return nil, false
	}
	if strings.Contains(status.Status().Message, "failed to allocate requested HealthCheck NodePort") {
		_, has, _ := unstructured.NestedFieldNoCopy(service.Object, "spec", "healthCheckNodePort")
		unstructured.RemoveNestedField(service.Object, "spec", "healthCheckNodePort")
		return nil, has
	}
	if status.Status().Details == nil {
		return nil, false
	}
	spec, _ := service.Object["spec"].(map[string]any)
	ports, _ := spec["ports"].([]any)
	for _, cause := range status.Status().Details.Causes {
		match := takenMessage.FindStringSubmatch(cause.Message)
		if match == nil || !nodePortField.MatchString(cause.Field) {
			continue
		}
		number := match[1]
		had := false
		for _, entry := range ports {
			if port, ok := entry.(map[string]any); ok && fmt.Sprint(port["nodePort"]) == number {
				delete(port, "nodePort")
				had = true
			}
		}
		if had {
			taken = append(taken, TakenPort{Number: number, Reason: match[2]})
		}
	}
	return taken, len(taken) > 0
}

const (
	typedPrefix   = "failed to create typed patch object"
	unknownField  = ": field not declared in schema"
	duplicateItem = ": duplicate entries for key "
)

// unknownFields are the parts of an object that a member's schema does not have.
type unknownFields struct {
	Unknown    []string    // paths of fields that the member does not serve
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

// removal is a field that was left out of an apply.
type removal struct {
	Field string // as the API server writes it
	Path  string // in our form
}

// Fit removes unknown fields from obj. No removal means that it could not help.
func (m unknownFields) Fit(obj *unstructured.Unstructured) []removal {
	var removed []removal
	for _, field := range m.Unknown {
		if s, ok := Locate(Spot{Value: obj.Object}, field); ok && s.Drop != nil {
			s.Drop()
			removed = append(removed, removal{field, s.path})
		}
	}
	return removed
}

// triage separates conflicts from drift: a field that we had, or that is one of our marks, was taken from us, and replicas that were left
// to the member are taken back.
func Triage(found []Conflict, body, live *unstructured.Unstructured) (theirs []Conflict, drifted bool) {
	last, ok := LastAppliedOf(live)
	for _, c := range found {
		s, located := Locate(Spot{Value: body.Object}, c.Field)
		switch {
		case !ok, Predecessors[c.Manager], located && (IsMark(s.path) || last.Footprint.has(s.path)),
			c.Field == ".spec.replicas" && replicas.Reclaimed(body, live):
			drifted = true
		default:
			theirs = append(theirs, c)
		}
	}
	return theirs, drifted
}
