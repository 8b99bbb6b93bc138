package sharding

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestMembersAreReleasedFirst: a member that a new server is to have is not served any more from the moment that the new server is seen, and
// the view that gives it away is due only after the grace, in which requests on their way end.
func TestMembersAreReleasedFirst(t *testing.T) {
	now := time.Now()
	us := published{identity: "a_1", view: []string{"a_1"}, election: "a"}
	table := table{self: "a_1", peers: map[string]*peer{}}
	table.read([]published{us}, "a", now)
	table.plan(now)
	taken := memberOf(t, []string{"a_1", "b_1"}, "b_1")
	if !table.serves(taken, now) {
		t.Fatal("it serves nothing alone")
	}
	came := published{identity: "b_1", version: "1"}
	table.read([]published{us, came}, "a", now)
	table.plan(now)
	if table.serves(taken, now) || !table.serves(memberOf(t, []string{"a_1", "b_1"}, "a_1"), now) {
		t.Error("it serves what the new server is to have, or not what stays its own")
	}
	if due := table.due(now.Add(grace - 1)); !slices.Equal(due, us.view) {
		t.Errorf("before the grace has passed, %v is due", due)
	}
	if due := table.due(now.Add(grace)); !slices.Equal(due, []string{"a_1", "b_1"}) {
		t.Errorf("after the grace, %v is due", due)
	}
}

// TestAWriteWithoutAnAnswer: what a view gives away that may be stored is not served, also after the server that was to have it is gone.
func TestAWriteWithoutAnAnswer(t *testing.T) {
	now := time.Now()
	us, view := published{identity: "a_1", view: []string{"a_1"}, election: "a"}, []string{"a_1", "b_1"}
	table := table{self: "a_1", peers: map[string]*peer{}}
	table.read([]published{us}, "a", now)
	table.tried = view
	table.read([]published{us}, "a", now)
	table.plan(now)
	taken := memberOf(t, view, "b_1")
	if table.serves(taken, now) {
		t.Error("it serves what it may have given away")
	}
	table.wrote(us.view)
	if !table.serves(taken, now) {
		t.Error("it does not serve what it has after all")
	}
}

// memberOf is a member that a view assigns to a server.
func memberOf(t *testing.T, view []string, identity string) string {
	t.Helper()
	for i := range 1000 {
		if name := fmt.Sprintf("member-%d", i); owner(view, name) == identity {
			return name
		}
	}
	t.Fatalf("%v assigns nothing to %s", view, identity)
	return ""
}

// TestSharesAreEven: with 1,000 members no server of eight has more than a quarter above or below its part.
func TestSharesAreEven(t *testing.T) {
	var view []string
	for i := range 8 {
		view = append(view, fmt.Sprintf("server-%d:6443_%d", i, i))
	}
	shares := map[string]int{}
	for i := range 1000 {
		shares[owner(view, fmt.Sprintf("member-%d", i))]++
	}
	for identity, share := range shares {
		if share < 94 || share > 156 {
			t.Errorf("%s has %d of 1000 members", identity, share)
		}
	}
}
