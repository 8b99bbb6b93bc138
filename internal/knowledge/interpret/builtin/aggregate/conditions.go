package aggregate

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// verdict is a condition to set on a template, or to remove from it if the status is empty.
type verdict struct {
	kind, status, reason, message string
	// stamp names the fields besides lastTransitionTime that have the time of the condition's last change.
	stamp []string
}

// setConditions writes the verdicts into status.conditions, keeping conditions of other types and the times of conditions that
// did not change.
func (a Aggregation) setConditions(template *unstructured.Unstructured, status map[string]any, verdicts ...verdict) {
	value, _, _ := unstructured.NestedFieldNoCopy(template.Object, "status", "conditions")
	present, _ := value.([]any)
	list := make([]any, 0, len(present)+len(verdicts))
	done := map[string]bool{}
	for _, entry := range present {
		old, _ := entry.(map[string]any)
		name := text(old["type"])
		switch wanted := find(verdicts, name); {
		case wanted == nil:
			list = append(list, entry)
		case wanted.status != "":
			list = append(list, a.condition(old, wanted))
			done[name] = true
		}
	}
	for i := range verdicts {
		if v := &verdicts[i]; v.status != "" && !done[v.kind] {
			list = append(list, a.condition(nil, v))
		}
	}
	if len(list) == 0 {
		delete(status, "conditions")
		return
	}
	status["conditions"] = list
}

func find(verdicts []verdict, kind string) *verdict {
	if i := slices.IndexFunc(verdicts, func(v verdict) bool { return v.kind == kind }); i >= 0 {
		return &verdicts[i]
	}
	return nil
}

// condition is the verdict as a field value, made from the old one of its type.
func (a Aggregation) condition(old map[string]any, v *verdict) map[string]any {
	if old["status"] == v.status && text(old["reason"]) == v.reason && text(old["message"]) == v.message {
		return old
	}
	now := a.Clock.Now().UTC().Format(time.RFC3339)
	updated := maps.Clone(old)
	if updated == nil {
		updated = map[string]any{}
	}
	if old["status"] != v.status {
		updated["lastTransitionTime"] = now
	}
	updated["type"], updated["status"] = v.kind, v.status
	updated["reason"], updated["message"] = v.reason, v.message
	for _, name := range v.stamp {
		updated[name] = now
	}
	return updated
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

// currency is the condition StatusCurrent: false if the status of some copy is not current or cannot be read, and else removed.
func currency[S any](list []report[S]) verdict {
	var messages []string
	if stale := clustersOf(list, outdated); len(stale) > 0 {
		messages = append(messages, "The present status is unknown, and the last one seen is counted, in clusters: "+strings.Join(stale, ", "))
	}
	if unreadable := clustersOf(list, func(r *report[S]) bool { return r.unreadable }); len(unreadable) > 0 {
		messages = append(messages, "What these clusters report is no status of the kind, and is not counted: "+strings.Join(unreadable, ", "))
	}
	if len(messages) == 0 {
		return verdict{kind: workv1alpha2.StatusCurrent}
	}
	return verdict{
		kind: workv1alpha2.StatusCurrent, status: "False", reason: workv1alpha2.ClusterStatusUnknownReason, message: strings.Join(messages, ". "),
	}
}

const (
	// maxCauses is how many clusters a condition has the reason of.
	maxCauses = 5
	// maxCauseBytes is how much of a message of a member is kept.
	maxCauseBytes = 256
)

// cause is what one cluster reports as the reason of a condition.
func cause(cluster, reason, message string) string {
	text := strings.TrimSuffix(strings.TrimPrefix(reason+": "+message, ": "), ": ")
	return strings.TrimSuffix(cluster+": "+bounds.Cut(text, maxCauseBytes), ": ")
}

// joined ends a message with the causes.
func joined(causes []string) string {
	if len(causes) == 0 {
		return ""
	}
	return " (" + strings.Join(causes, "; ") + ")"
}
