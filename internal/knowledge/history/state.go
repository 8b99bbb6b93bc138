package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/flagship-k8s/flagship/api"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// State is what a template means for the clusters at one time. All objects in it are cleaned.
type State struct {
	// Template is the template.
	Template map[string]any `json:"template"`
	// Policy is the propagation policy that the template belongs to; nil if it belongs to none.
	Policy map[string]any `json:"policy,omitempty"`
	// Overrides are the override policies that select the template, sorted by kind, namespace and name.
	Overrides []map[string]any `json:"overrides,omitempty"`
	// Clusters are the targets, sorted by name.
	Clusters []fleetv1alpha1.RevisionCluster `json:"clusters,omitempty"`
}

// Author is who made a change: a user, or the field manager where no user is known. The zero Author is not known.
type Author struct {
	User    string `json:"user,omitempty"`
	Manager string `json:"manager,omitempty"`
}

// Record is a revision as it is stored.
type Record struct {
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time"`
	Author   Author    `json:"author"`
	// Part is what the author changed.
	Part  fleetv1alpha1.RevisionPart `json:"part"`
	State State                      `json:"state"`
	// TooLarge is how many bytes the record has if these are more than can be stored. State only names the template then.
	TooLarge int64 `json:"tooLarge,omitempty"`
}

// Cut returns a record without its content, which has a number of bytes. The author of a change of a policy is left out, too: without the
// policy it is not known who may see that.
func (r Record) Cut(size int) Record {
	of := &unstructured.Unstructured{Object: r.State.Template}
	name := &unstructured.Unstructured{Object: map[string]any{}}
	name.SetAPIVersion(of.GetAPIVersion())
	name.SetKind(of.GetKind())
	name.SetName(of.GetName())
	name.SetNamespace(of.GetNamespace())
	if r.Part != fleetv1alpha1.RevisionTemplate {
		r.Author = Author{}
	}
	r.State, r.TooLarge = State{Template: name.Object}, int64(size)
	return r
}

// lastApplied is what kubectl apply compares with. It belongs to the last apply of the user, not to a revision.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// notContent are the annotations that others than users write.
var notContent = append([]string{
	lastApplied, "deployment.kubernetes.io/revision", policyv1alpha1.AutoscaledAnnotation, "resourcetemplate.karmada.io/lazy-baseline",
}, policy.ClaimAnnotations...)

// Clean returns what users wrote of an object: no status, nothing that the API server sets in metadata, no claim of a policy. Finalizers and
// owners are left out, too: those who would have removed them may be gone when the object comes back. The object itself is not changed.
func Clean(object map[string]any) map[string]any {
	of := &unstructured.Unstructured{Object: object}
	meta := map[string]any{"name": of.GetName()}
	if of.GetNamespace() != "" {
		meta["namespace"] = of.GetNamespace()
	}
	labels, annotations := maps.Clone(of.GetLabels()), maps.Clone(of.GetAnnotations())
	for _, key := range policy.ClaimLabels {
		delete(labels, key)
	}
	if key, ok := api.PermanentIDLabel(of.GroupVersionKind().GroupKind()); ok {
		delete(labels, key)
	}
	for _, key := range notContent {
		delete(annotations, key)
	}
	clean := maps.Clone(object)
	delete(clean, "status")
	clean["metadata"] = meta
	result := &unstructured.Unstructured{Object: clean}
	if len(labels) > 0 {
		result.SetLabels(labels)
	}
	if len(annotations) > 0 {
		result.SetAnnotations(annotations)
	}
	return clean
}

// StateOf is the state of an uncleaned template with its policies and targets. An autoscaler sets the replicas of some templates: those are
// no part of their state.
func StateOf(template map[string]any, propagation map[string]any, overrides []map[string]any, clusters []fleetv1alpha1.RevisionCluster) State {
	of := &unstructured.Unstructured{Object: template}
	autoscaled := of.GetAnnotations()[policyv1alpha1.AutoscaledAnnotation] != ""
	state := State{Template: Clean(template), Clusters: slices.Clone(clusters)}
	if autoscaled {
		if spec, ok := state.Template["spec"].(map[string]any); ok {
			spec = maps.Clone(spec)
			delete(spec, "replicas")
			state.Template["spec"] = spec
		}
		for i := range state.Clusters {
			state.Clusters[i].Replicas = 0
		}
	}
	if propagation != nil {
		state.Policy = Clean(propagation)
	}
	for _, o := range overrides {
		state.Overrides = append(state.Overrides, Clean(o))
	}
	slices.SortFunc(state.Overrides, func(a, b map[string]any) int { return compare(identity(a), identity(b)) })
	slices.SortFunc(state.Clusters, func(a, b fleetv1alpha1.RevisionCluster) int { return compare(a.Name, b.Name) })
	return state
}

// Encode is the state as JSON, equal for equal states.
func (s State) Encode() ([]byte, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding a state: %w", err)
	}
	return raw, nil
}

// UnmarshalJSON decodes whole numbers as integers, as API objects have them.
func (s *State) UnmarshalJSON(raw []byte) error {
	type plain State
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode((*plain)(s)); err != nil {
		return fmt.Errorf("decoding a state: %w", err)
	}
	for _, object := range append([]map[string]any{s.Template, s.Policy}, s.Overrides...) {
		if err := utiljson.ConvertMapNumbers(object, 0); err != nil {
			return fmt.Errorf("decoding a state: %w", err)
		}
	}
	return nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// identity is the kind, namespace and name of an object.
func identity(object map[string]any) string {
	of := &unstructured.Unstructured{Object: object}
	return of.GetKind() + "/" + of.GetNamespace() + "/" + of.GetName()
}

// ManagerOf is the field manager that wrote an object last, not counting status and the control plane itself, and when.
func ManagerOf(object *unstructured.Unstructured, ourselves ...string) (manager string, at time.Time) {
	at = object.GetCreationTimestamp().Time
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "status" || slices.Contains(ourselves, entry.Manager) || entry.Time == nil || manager != "" && !entry.Time.After(at) {
			continue
		}
		manager, at = entry.Manager, entry.Time.Time
	}
	return manager, at
}

// LimitOf is how many revisions of a template are kept: its own revisionHistoryLimit, or the one given.
func LimitOf(template map[string]any, limit int) int {
	own, found, err := unstructured.NestedInt64(template, "spec", "revisionHistoryLimit")
	if err != nil || !found || own < 0 {
		return limit
	}
	return int(min(own, MaxRevisions))
}

// MaxRevisions bounds the revisions of one object, whatever its field has: they are stored at the cost of all.
const MaxRevisions = 50
