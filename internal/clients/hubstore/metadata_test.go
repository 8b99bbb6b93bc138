package hubstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDifferenceIsAboutTheOwnedKeys(t *testing.T) {
	have := map[string]string{"kept": "1", "changed": "1", "dropped": "1", "foreign": "1"}
	want := map[string]string{"kept": "1", "changed": "2", "added": "", "unowned": "1"}
	changed, added := "2", ""
	got := Difference(have, want, []string{"kept", "changed", "dropped"}, []string{"added", "absent"})
	if diff := cmp.Diff(map[string]*string{"changed": &changed, "added": &added, "dropped": nil}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := Difference(want, want, []string{"kept", "changed", "added"}); len(got) != 0 {
		t.Errorf("what is the same differs in %v", got)
	}
}
