package results

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

func TestUnchanged(t *testing.T) {
	tests := map[string]struct {
		reason     string
		difference ssa.Difference
		before     *Entry
		want       bool
	}{
		"Nothing":      {"no difference", ssa.Difference{}, nil, true},
		"Stale":        {"something else is wanted", ssa.Difference{Stale: true}, &Entry{}, false},
		"DriftNew":     {"drift that is not recorded", ssa.Difference{Drifted: []string{"/a"}}, nil, false},
		"DriftUnowned": {"a field that the server did not let us own last time either", ssa.Difference{Drifted: []string{"/a"}}, &Entry{Unowned: map[string]bool{"/a": true}}, true},
		"AlteredNew":   {"a value that is not ours", ssa.Difference{Altered: map[string]uint64{"/a": 1}, Unexplained: 1}, nil, false},
		"Defaulted":    {"a default of the member, after a start", ssa.Difference{Altered: map[string]uint64{"/a": 1}}, nil, true},
		"AlteredAgain": {"another value than the one that came of the last apply", ssa.Difference{Altered: map[string]uint64{"/a": 1}}, &Entry{Altered: map[string]uint64{"/a": 2}}, false},
		"Normalized":   {"what the member makes of it", ssa.Difference{Altered: map[string]uint64{"/a": 1}}, &Entry{Altered: map[string]uint64{"/a": 1}}, true},
		"Conflict":     {"a conflict may have gone", ssa.Difference{Open: []string{"/a"}}, &Entry{Unowned: map[string]bool{"/a": true}, Conflicts: []ssa.Conflict{{Field: ".a", Manager: "x"}}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var before Entry
			if tc.before != nil {
				before = *tc.before
			}
			if got := Unchanged(tc.difference, before, tc.before != nil); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// TestLose: an object that is gone was deleted by others if it was applied and its deletion was not requested.
func TestLose(t *testing.T) {
	at, other := Place{Cluster: "m1", Object: types.NamespacedName{Name: "a"}}, Place{Cluster: "m1", Object: types.NamespacedName{Name: "b"}}
	var results Set
	results.Put(at, Entry{UID: "1"})
	results.Put(other, Entry{UID: "2"})
	results.Deletes(other, "2", time.Time{})
	for _, p := range []Place{at, other, {Cluster: "m2"}} {
		results.Lose(p)
	}
	if e, known := results.Get(at); !known || !e.Lost || results.Made(at) {
		t.Errorf("what others deleted is %+v", e)
	}
	if e, known := results.Get(other); known || results.Deletion(other, "2").Times != 0 {
		t.Errorf("what was deleted here is %+v", e)
	}
	if results.Put(at, Entry{UID: "3"}); !results.Made(at) {
		t.Error("what was created again is not known")
	}
	results.Lose(at)
	results.Forget(at)
	if len(results.entries)+len(results.deletions) != 0 {
		t.Errorf("left are %+v and %+v", results.entries, results.deletions)
	}
}

func TestChangedByOthers(t *testing.T) {
	before := Entry{Altered: map[string]uint64{"/normalized": 1, "/changed": 1}, Unowned: map[string]bool{"/theirs": true}}
	difference := ssa.Difference{
		Drifted: []string{"/taken", "/theirs"}, Open: []string{"/open"},
		Altered: map[string]uint64{"/normalized": 1, "/changed": 2, "/added": 1},
	}
	for name, tc := range map[string]struct {
		before   Entry
		recorded bool
		want     []string
	}{
		"Recorded":   {before, true, []string{"/added", "/changed", "/taken"}},
		"AfterStart": {Entry{}, false, []string{"/taken", "/theirs"}},
	} {
		if got := ChangedByOthers(difference, tc.before, tc.recorded); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
