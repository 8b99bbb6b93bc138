package visible

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// View is which parts of the states of a template the author of a question may see. The template is what the question is about.
type View struct {
	// May returns whether the author may get an object.
	May func(explain.Right) bool
	// Clusters is whether the author may get the binding, which has the targets.
	Clusters bool
}

// policyResources are the resources of the policies in states.
var policyResources = map[string]string{
	policyv1alpha1.KindPropagationPolicy:        policyv1alpha1.ResourcePluralPropagationPolicy,
	policyv1alpha1.KindClusterPropagationPolicy: policyv1alpha1.ResourcePluralClusterPropagationPolicy,
	policyv1alpha1.KindOverridePolicy:           policyv1alpha1.ResourcePluralOverridePolicy,
	policyv1alpha1.KindClusterOverridePolicy:    policyv1alpha1.ResourcePluralClusterOverridePolicy,
}

// Policy returns whether a policy may be read.
func (v View) Policy(object map[string]any) bool {
	of := &unstructured.Unstructured{Object: object}
	return v.May(explain.Right{Group: policyv1alpha1.GroupName, Resource: policyResources[of.GetKind()], Namespace: of.GetNamespace(), Name: of.GetName()})
}

func (v View) policies(objects []map[string]any) bool {
	return !slices.ContainsFunc(objects, func(o map[string]any) bool { return !v.Policy(o) })
}

// Part returns whether a part of a state may be seen.
func (v View) Part(part fleetv1alpha1.RevisionPart, state history.State) bool {
	switch part {
	case fleetv1alpha1.RevisionPolicy:
		return state.Policy == nil || v.Policy(state.Policy)
	case fleetv1alpha1.RevisionOverride:
		return v.policies(state.Overrides)
	case fleetv1alpha1.RevisionClusters:
		return v.Clusters
	}
	return true
}

// Changes are the differences between two revisions, with the text of those that may be seen. They are not known of a revision without
// content; before is nil if it cannot be read.
func (v View) Changes(before *history.Record, after history.Record) (all []fleetv1alpha1.RevisionChange, hidden bool) {
	if before == nil || before.TooLarge > 0 || after.TooLarge > 0 {
		text := "what changed is not known, since the revision before has no content"
		if after.TooLarge > 0 {
			text = fmt.Sprintf("too large to be kept: %s", resource.NewQuantity(after.TooLarge>>10<<10, resource.BinarySI))
		}
		return []fleetv1alpha1.RevisionChange{{Part: fleetv1alpha1.RevisionTemplate, Text: text}}, false
	}
	for _, d := range history.Differences(before.State, after.State) {
		change := fleetv1alpha1.RevisionChange{Part: d.Part, Text: d.Text}
		if !v.policies(d.Objects) || d.Part == fleetv1alpha1.RevisionClusters && !v.Clusters {
			change.Text, change.Hidden, hidden = "", true, true
		}
		if last := len(all) - 1; change.Hidden && last >= 0 && all[last] == change {
			continue // not how many there are
		}
		all = append(all, change)
	}
	return all, hidden
}

// Content is a revision without what may not be seen.
func (v View) Content(r history.Record) (fleetv1alpha1.RevisionContent, error) {
	content := fleetv1alpha1.RevisionContent{Revision: r.Revision}
	var err error
	encode := func(object map[string]any) *runtime.RawExtension {
		raw, failed := json.Marshal(object)
		err = cmp.Or(err, failed)
		return &runtime.RawExtension{Raw: raw}
	}
	content.Template = encode(r.State.Template)
	if r.State.Policy != nil {
		if v.Policy(r.State.Policy) {
			content.Policy = encode(r.State.Policy)
		} else {
			content.Hidden = append(content.Hidden, fleetv1alpha1.RevisionPolicy)
		}
	}
	for _, o := range r.State.Overrides {
		if v.Policy(o) {
			content.Overrides = append(content.Overrides, fleetv1alpha1.RevisionObject{Object: encode(o)})
		}
	}
	if !v.policies(r.State.Overrides) {
		content.Hidden = append(content.Hidden, fleetv1alpha1.RevisionOverride)
	}
	if v.Clusters {
		content.Clusters = r.State.Clusters
	} else {
		content.Hidden = append(content.Hidden, fleetv1alpha1.RevisionClusters)
	}
	if err != nil {
		return content, fmt.Errorf("encoding revision %d: %w", r.Revision, err)
	}
	return content, nil
}

// Message joins the texts of changes.
func Message(changes []fleetv1alpha1.RevisionChange) string {
	texts := make([]string, 0, len(changes))
	for _, change := range changes {
		if change.Hidden {
			texts = append(texts, strings.ToLower(string(change.Part))+" (hidden)")
			continue
		}
		texts = append(texts, change.Text)
	}
	return strings.Join(texts, "; ")
}

// Size is how many bytes a content has.
func Size(content fleetv1alpha1.RevisionContent) int {
	all := 0
	for _, o := range append(content.Overrides, fleetv1alpha1.RevisionObject{Object: content.Template}, fleetv1alpha1.RevisionObject{Object: content.Policy}) {
		if o.Object != nil {
			all += len(o.Object.Raw)
		}
	}
	return all
}
