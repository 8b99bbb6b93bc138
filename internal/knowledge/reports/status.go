package reports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// TooLarge is the field of a status from which something was left out. It is no valid name of a field of Kubernetes, so that no kind
// has it.
const TooLarge = "flagship.io/TooLarge"

// Cut returns a status with at most so many bytes: the status itself if it has no more, and else those of its fields that fit, the
// smallest first, with TooLarge. These are its numbers and short texts; lists lose their ends. The result is nil if not even
// TooLarge fits.
func Cut(status *runtime.RawExtension, most int) *runtime.RawExtension {
	if status == nil || len(status.Raw) <= most {
		return status
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(status.Raw, &fields) != nil {
		fields = nil // no object: nothing of it is kept
	}
	note, err := json.Marshal(fmt.Sprintf("of %d bytes", len(status.Raw)))
	if err != nil {
		return nil
	}
	kept := map[string]json.RawMessage{TooLarge: note}
	left := most - len(`{}`) - entryBytes(TooLarge, note)
	if left < 0 {
		return nil
	}
	delete(fields, TooLarge)
	for _, name := range bySize(fields) {
		value := fields[name]
		if space := left - entryBytes(name, nil); len(value) > space {
			value = head(value, space)
		}
		if value != nil {
			kept[name] = value
			left -= entryBytes(name, value)
		}
	}
	raw, err := encode(kept)
	if err != nil || len(raw) > most { // escapes in names make it longer
		raw = fmt.Appendf(nil, `{%q:%s}`, TooLarge, note)
	}
	return &runtime.RawExtension{Raw: raw}
}

// encode returns JSON without more escapes than the values have.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// entryBytes is what a field takes in JSON.
func entryBytes(name string, value []byte) int { return len(`"":,`) + len(name) + len(value) }

// bySize lists fields, the smallest first.
func bySize(fields map[string]json.RawMessage) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := len(fields[a]) - len(fields[b]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return names
}

// head returns the first entries of a list, as many as fit; nil for none, and for another value.
func head(value json.RawMessage, space int) json.RawMessage {
	var entries []json.RawMessage
	if space < len(`[]`) || json.Unmarshal(value, &entries) != nil {
		return nil
	}
	left, n := space-len(`[]`), 0
	for n < len(entries) && len(entries[n])+1 <= left {
		left -= len(entries[n]) + 1
		n++
	}
	if n == 0 {
		return nil
	}
	list, err := encode(entries[:n])
	if err != nil || len(list) > space {
		return nil
	}
	return list
}

// TemplateStatus returns as much of the status of a template as may be stored of it; nil if all of it may. Fields that the kind does not
// have would be lost, so TooLarge is not among them.
func TemplateStatus(status map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encoding the aggregated status: %w", err)
	}
	if len(raw) <= bounds.MaxTemplateStatusBytes {
		return nil, nil
	}
	bounded := map[string]any{}
	if err := utiljson.Unmarshal(Cut(&runtime.RawExtension{Raw: raw}, bounds.MaxTemplateStatusBytes).Raw, &bounded); err != nil {
		return nil, fmt.Errorf("decoding the aggregated status: %w", err)
	}
	delete(bounded, TooLarge)
	return bounded, nil
}

// WasCut returns whether something was left out of a status.
func WasCut(status *runtime.RawExtension) bool {
	return status != nil && strings.Contains(string(status.Raw), `"`+TooLarge+`"`)
}

// Items bounds, in place, what the clusters report of the copies of one binding, each alone and all together: then the largest are cut,
// and those that are smaller than their share stay as they are.
func Items(items []workv1alpha2.AggregatedStatusItem) {
	statuses, messages := make([]int, len(items)), make([]int, len(items))
	for i := range items {
		item := &items[i]
		item.AppliedMessage = bounds.Cut(item.AppliedMessage, bounds.MessageBytes)
		item.Status = Cut(item.Status, bounds.MaxStatusBytes)
		if item.Status != nil {
			statuses[i] = len(item.Status.Raw)
		}
		messages[i] = len(item.AppliedMessage)
		switch item.Health {
		case workv1alpha2.ResourceHealthy, workv1alpha2.ResourceUnhealthy:
		default:
			item.Health = workv1alpha2.ResourceUnknown
		}
	}
	status, message := level(statuses, bounds.MaxItemsBytes), level(messages, bounds.MaxItemMessagesBytes)
	for i := range items {
		items[i].Status = Cut(items[i].Status, status)
		items[i].AppliedMessage = bounds.Cut(items[i].AppliedMessage, message)
	}
}

// level is the size to which the largest have to be cut so that the sum of all is at most the budget.
func level(sizes []int, budget int) int {
	sorted := slices.Sorted(slices.Values(sizes))
	for i, size := range sorted {
		if share := budget / (len(sorted) - i); size > share {
			return share
		}
		budget -= size
	}
	return math.MaxInt
}

// Work bounds, in place, the status that is reported of a Work: the number and the texts of conditions, the number of objects, and their
// statuses. Times of conditions are not after now, unless that is zero, and generations not after that of the Work.
func Work(work *workv1alpha1.Work, status *workv1alpha1.WorkStatus, now time.Time) {
	status.Conditions = conditions(status.Conditions, bounds.MaxWorkConditions, now)
	for i := range status.Conditions {
		if c := &status.Conditions[i]; work.Generation > 0 {
			c.ObservedGeneration = min(c.ObservedGeneration, work.Generation)
		}
	}
	space := bounds.MaxWorkBytes
	for i := range work.Spec.Workload.Manifests {
		space -= len(work.Spec.Workload.Manifests[i].Raw)
	}
	space = min(max(space, bounds.MinWorkStatusBytes), bounds.MaxWorkStatusBytes)
	sizes := make([]int, 0, len(status.ManifestStatuses))
	for i := range status.ManifestStatuses {
		s := &status.ManifestStatuses[i]
		bound(&s.Identifier)
		if space -= identifierBytes(&s.Identifier); space < 0 {
			status.ManifestStatuses = status.ManifestStatuses[:i]
			break
		}
		s.Status = Cut(s.Status, bounds.MaxStatusBytes)
		size := 0
		if s.Status != nil {
			size = len(s.Status.Raw)
		}
		sizes = append(sizes, size)
	}
	most := level(sizes, max(space, 0))
	for i := range status.ManifestStatuses {
		s := &status.ManifestStatuses[i]
		s.Status = Cut(s.Status, most)
	}
}

// bound cuts the names of an object, so that a name which no object can have names none.
func bound(id *workv1alpha1.ResourceIdentifier) {
	for _, name := range []*string{&id.Group, &id.Version, &id.Kind, &id.Resource, &id.Namespace, &id.Name} {
		*name = bounds.Cut(*name, bounds.NameBytes)
	}
}

// identifierBytes is about what an entry takes in JSON without the status of the object.
func identifierBytes(id *workv1alpha1.ResourceIdentifier) int {
	const fields = 160 // names of fields, ordinal, health
	return fields + len(id.Group) + len(id.Version) + len(id.Kind) + len(id.Resource) + len(id.Namespace) + len(id.Name)
}

// conditions bounds a list of conditions, one for each type. Those of the first types stay.
func conditions(list []metav1.Condition, most int, now time.Time) []metav1.Condition {
	if len(list) > most {
		list = list[:most]
	}
	for i := range list {
		c := &list[i]
		c.Message, c.Reason, c.Type = bounds.Cut(c.Message, bounds.MessageBytes), bounds.Cut(c.Reason, bounds.MaxReasonBytes), bounds.Cut(c.Type, bounds.MaxReasonBytes)
		if !now.IsZero() && c.LastTransitionTime.After(now) {
			c.LastTransitionTime = metav1.NewTime(now)
		}
	}
	return list
}

// Counter is a counter of one report as it may be added up: neither negative nor more than an API server takes.
func Counter(value int64) int64 { return min(max(value, 0), bounds.MaxReplicas) }

// Sum adds a counter of a report to a sum, which stays one that an API server takes.
func Sum(sum, value int64) int64 { return min(sum+Counter(value), bounds.MaxReplicas) }

// Past returns a time of something that has been; nil if it is after now.
func Past(reported *metav1.Time, now time.Time) *metav1.Time {
	if reported == nil || reported.After(now.Add(bounds.MaxAhead)) {
		return nil
	}
	return reported
}
