package visible_test

import (
	"slices"
	"testing"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/history/visible"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

func record(image, policy string) history.Record {
	return history.Record{Part: fleetv1alpha1.RevisionPolicy, Author: history.Author{User: "alice"}, State: history.State{
		Template: map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"image": image}},
		Policy:   map[string]any{"kind": "PropagationPolicy", "metadata": map[string]any{"namespace": "shop", "name": "web"}, "spec": map[string]any{"to": policy}},
	}}
}

// TestChanges: what may not be seen has no text, and of what is too large nothing is known but the size.
func TestChanges(t *testing.T) {
	before, after := record("web:1", "member1"), record("web:2", "member2")
	large := after.Cut(3 << 20)
	if large.Author.User != "" || large.State.Policy != nil || large.State.Template["spec"] != nil {
		t.Errorf("without its content it is %+v", large)
	}
	for name, tc := range map[string]struct {
		may    bool
		before *history.Record
		after  history.Record
		want   []string
		hidden bool
	}{
		"All":      {true, &before, after, []string{"image web:1 → web:2", "policy web: to member1 → member2"}, false},
		"Hidden":   {false, &before, after, []string{"image web:1 → web:2", ""}, true},
		"TooLarge": {false, &before, large, []string{"too large to be kept: 3Mi"}, false},
		"Next":     {false, &large, after, []string{"what changed is not known, since the revision before has no content"}, false},
		"Lost":     {false, nil, after, []string{"what changed is not known, since the revision before has no content"}, false},
	} {
		v := visible.View{May: func(explain.Right) bool { return tc.may }}
		changes, hidden := v.Changes(tc.before, tc.after)
		var texts []string
		for _, c := range changes {
			texts = append(texts, c.Text)
		}
		if !slices.Equal(texts, tc.want) || hidden != tc.hidden {
			t.Errorf("%s: the changes are %q, hidden %v; want %q, %v", name, texts, hidden, tc.want, tc.hidden)
		}
	}
}
