package brake

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// fixture is a brake that engages at more than half of at least ten objects within ten minutes.
type fixture struct {
	*Brake
	config  Config
	clock   *clocktesting.FakeClock
	engaged []string
}

func newFixture() *fixture {
	f := &fixture{clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))}
	f.config = Config{Share: 0.5, Window: 10 * time.Minute, Minimum: 10}
	f.Brake = New(func() Config { return f.config }, f.clock, func(cluster string) { f.engaged = append(f.engaged, cluster) })
	return f
}

func work(i int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(i)} }

// hold gives a member Works with one object each.
func (f *fixture) hold(cluster string, n int) {
	for i := range n {
		f.Change(cluster, work(i), Work{}, Work{Objects: 1})
	}
}

// order has the Works from first to last deleted.
func (f *fixture) order(cluster string, first, last int) {
	for i := first; i < last; i++ {
		f.Change(cluster, work(i), Work{Objects: 1}, Work{Objects: 1, Leaving: 1})
	}
}

// unselect has the Works from first to last deleted, as the last copies of templates that stay.
func (f *fixture) unselect(cluster string, first, last int) {
	for i := first; i < last; i++ {
		f.Change(cluster, work(i), Work{Objects: 1}, Work{Objects: 1, Leaving: 1, Last: 1})
	}
}

// carryOut requests the removal of one Work after the other, each gone before the next, and returns how many were admitted.
func (f *fixture) carryOut(cluster string, first, last int) (admitted int) {
	for i := first; i < last; i++ {
		if f.Admit(Request{Cluster: cluster, Work: work(i), Removal: true}) {
			admitted++
			f.Change(cluster, work(i), Work{Objects: 1, Leaving: 1}, Work{})
		}
	}
	return admitted
}

func (f *fixture) cause(cluster string) Cause {
	state, _ := f.Look(cluster)
	return state.Cause
}

func TestBrake(t *testing.T) {
	cases := map[string]struct {
		run  func(f *fixture) int
		want int
		// cause is that of the member a.
		cause Cause
	}{
		"HalfAtOnce": {func(f *fixture) int {
			f.hold("a", 100)
			f.order("a", 0, 50)
			return f.carryOut("a", 0, 50)
		}, 50, None},
		"MoreThanHalfAtOnce": {func(f *fixture) int {
			f.hold("a", 100)
			f.order("a", 0, 51)
			return f.carryOut("a", 0, 51)
		}, 0, Member},
		"OneAfterTheOther": {func(f *fixture) (n int) {
			f.hold("a", 100)
			for i := range 100 {
				f.order("a", i, i+1)
				n += f.carryOut("a", i, i+1)
			}
			return n
		}, 50, Member},
		"Slowly": {func(f *fixture) (n int) {
			f.hold("a", 100)
			for i := range 80 {
				f.order("a", i, i+1)
				n += f.carryOut("a", i, i+1)
				f.clock.Step(time.Minute)
			}
			return n
		}, 80, None},
		"SmallMember": {func(f *fixture) int {
			f.hold("a", 9)
			f.order("a", 0, 9)
			return f.carryOut("a", 0, 9)
		}, 9, None},
		"SmallMembersOfALargeFleet": {func(f *fixture) (n int) {
			for i := range 4 {
				f.hold(fmt.Sprint("b", i), 9)
				f.order(fmt.Sprint("b", i), 0, 5)
			}
			f.hold("a", 9)
			f.order("a", 0, 5)
			return f.carryOut("a", 0, 5)
		}, 0, Fleet},
		"RemovedMembersDoNotCount": {func(f *fixture) (n int) {
			f.hold("b", 100)
			f.order("b", 0, 100)
			f.Exclude("b", true)
			f.hold("a", 20)
			f.order("a", 0, 1)
			return f.carryOut("a", 0, 1)
		}, 1, None},
		"WhatHangsOnIt": {func(f *fixture) int {
			f.hold("a", 100)
			f.order("a", 0, 1)
			if f.Admit(Request{Cluster: "a", Work: work(0), Removal: true, Extra: 60}) {
				return 1
			}
			return 0
		}, 0, Member},
		"Shrinkages": {func(f *fixture) (n int) {
			f.hold("a", 100)
			for i := range 100 {
				if f.Admit(Request{Cluster: "a", Work: work(i), Scaling: &Scaling{Object: Object(fmt.Sprint(i)), From: 3, To: 1}}) {
					n++
				}
			}
			return n
		}, 50, Member},
		"LeftAlone": {func(f *fixture) int { // let go without removing anything: not counted afterwards
			f.hold("a", 100)
			f.order("a", 0, 50)
			for i := range 50 {
				f.Change("a", work(i), Work{Objects: 1, Leaving: 1}, Work{})
			}
			f.order("a", 50, 75)
			return f.carryOut("a", 50, 75)
		}, 25, None},
		"MadeAgain": {func(f *fixture) (n int) { // twice as many removals as objects, and none is lost
			f.hold("a", 100)
			for i := range 200 {
				f.order("a", i%100, i%100+1)
				n += f.carryOut("a", i%100, i%100+1)
				f.Change("a", work(i%100), Work{}, Work{Objects: 1})
			}
			return n
		}, 200, None},
		"MadeAgainAtOnce": {func(f *fixture) (n int) {
			f.hold("a", 100)
			for range 3 {
				f.order("a", 0, 45)
				n += f.carryOut("a", 0, 45)
				for i := range 45 {
					f.Change("a", work(i), Work{}, Work{Objects: 1})
				}
			}
			return n
		}, 135, None},
		"WithdrawnAndOrderedAgain": {func(f *fixture) int {
			f.hold("a", 100)
			f.order("a", 0, 60)
			f.carryOut("a", 0, 60)
			for i := range 60 { // each stays in the member and has a new Work
				f.Change("a", work(i), Work{Objects: 1, Leaving: 1}, Work{})
				f.Change("a", work(i), Work{}, Work{Objects: 1})
			}
			f.cause("a")
			f.order("a", 0, 50)
			return f.carryOut("a", 0, 50)
		}, 50, None},
		"DownAndUp": {func(f *fixture) (n int) {
			f.hold("a", 100)
			for i := range 300 {
				object := Object(fmt.Sprint(i % 100))
				if f.Admit(Request{Cluster: "a", Work: work(i % 100), Scaling: &Scaling{Object: object, From: 3, To: 1}}) {
					n++
				}
				f.Admit(Request{Cluster: "a", Work: work(i % 100), Scaling: &Scaling{Object: object, From: 1, To: 3}})
			}
			return n
		}, 300, None},
		"DownAgainAndAgain": {func(f *fixture) (n int) { // one object counts once
			f.hold("a", 100)
			for i := range 60 {
				if f.Admit(Request{Cluster: "a", Work: work(0), Scaling: &Scaling{Object: "a", From: int64(100 - i), To: int64(99 - i)}}) {
					n++
				}
			}
			return n
		}, 60, None},
		"NotQuiteUp": {func(f *fixture) (n int) {
			f.hold("a", 100)
			for i := range 100 {
				object := Object(fmt.Sprint(i))
				if f.Admit(Request{Cluster: "a", Work: work(i), Scaling: &Scaling{Object: object, From: 3, To: 1}}) {
					n++
					f.Admit(Request{Cluster: "a", Work: work(i), Scaling: &Scaling{Object: object, From: 1, To: 2}})
				}
			}
			return n
		}, 50, Member},
		"LastCopiesBelowTheMinimum": {func(f *fixture) int {
			f.config.Minimum = 500
			f.hold("a", 12)
			f.unselect("a", 0, 12)
			return f.carryOut("a", 0, 12)
		}, 0, Member},
		"LastCopiesOfManySmallMembers": {func(f *fixture) int {
			f.config.Minimum = 500
			for i := range 3 {
				f.hold(fmt.Sprint("b", i), 4)
				f.unselect(fmt.Sprint("b", i), 0, 4)
			}
			f.hold("a", 4)
			f.unselect("a", 0, 4)
			return f.carryOut("a", 0, 4)
		}, 0, Fleet},
		"FewLastCopies": {func(f *fixture) int {
			f.hold("a", 9)
			f.unselect("a", 0, 9)
			return f.carryOut("a", 0, 9)
		}, 9, None},
		"LastCopiesOfASmallShare": {func(f *fixture) int {
			f.hold("a", 100)
			f.unselect("a", 0, 20)
			return f.carryOut("a", 0, 20)
		}, 20, None},
		"AfterARestart": {func(f *fixture) int { // what was ordered counts again, what was done does not
			for i := range 60 {
				f.Change("a", work(i), Work{}, Work{Objects: 1, Leaving: 1})
			}
			for i := 60; i < 100; i++ {
				f.Change("a", work(i), Work{}, Work{Objects: 1})
			}
			return f.carryOut("a", 0, 60)
		}, 0, Member},
		"EngagedBeforeARestart": {func(f *fixture) int {
			f.Resume("a", true)
			f.hold("a", 100)
			f.order("a", 0, 1)
			return f.carryOut("a", 0, 1)
		}, 0, Before},
		"ReleasedAgo": {func(f *fixture) int { // an old annotation
			f.hold("a", 100)
			f.Release("a", f.clock.Now())
			f.order("a", 0, 60)
			return f.carryOut("a", 0, 60)
		}, 0, Member},
		"ReleasedForYears": {func(f *fixture) int {
			f.hold("a", 100)
			f.Release("a", f.clock.Now().Add(MaxRelease+time.Second))
			f.order("a", 0, 60)
			return f.carryOut("a", 0, 60)
		}, 0, Member},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			if got := tc.run(f); got != tc.want {
				t.Errorf("%d were admitted, want %d", got, tc.want)
			}
			if got := f.cause("a"); got != tc.cause {
				t.Errorf("the cause is %v, want %v", got, tc.cause)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	f := newFixture()
	f.hold("a", 100)
	f.order("a", 0, 80)
	if n := f.carryOut("a", 0, 80); n != 0 || len(f.engaged) != 80 {
		t.Fatalf("%d were admitted, and %d times another number waited", n, len(f.engaged))
	}
	if state, _ := f.Look("a"); state.Waiting != 80 || state.Touched != 80 || state.Objects != 100 {
		t.Errorf("state is %+v", state)
	}
	f.Release("a", f.clock.Now().Add(time.Minute))
	if n := f.carryOut("a", 0, 70); n != 70 {
		t.Errorf("%d were admitted, want 70", n)
	}
	f.clock.Step(time.Minute)
	f.order("a", 80, 85)
	if n := f.carryOut("a", 80, 85); n != 5 {
		t.Errorf("%d were admitted after the release, want 5: what was released does not count", n)
	}
}

// Who takes over a member takes over its brake, whatever it was when the member was others'.
func TestABrakeChangesHands(t *testing.T) {
	f := newFixture()
	f.hold("a", 100)
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	engaged := clusterv1alpha1.BrakeEngaged(clusterv1alpha1.MemberShareExceededReason, "")
	f.Heed(cluster, true)
	f.Heed(cluster, false)
	meta.SetStatusCondition(&cluster.Status.Conditions, engaged)
	f.Heed(cluster, false)
	if got := f.cause("a"); got != None {
		t.Errorf("the cause is %v while another process writes to the member", got)
	}
	f.Heed(cluster, true)
	if got := f.cause("a"); got != Before {
		t.Errorf("the cause is %v after the member was taken over, want that of an earlier process", got)
	}
	f.order("a", 0, 1)
	if n := f.carryOut("a", 0, 1); n != 0 {
		t.Error("a removal is admitted")
	}
}

// A brake that was engaged by what is not requested any more is released by itself.
func TestNothingWaits(t *testing.T) {
	f := newFixture()
	f.hold("a", 100)
	f.order("a", 0, 60)
	f.carryOut("a", 0, 60)
	for i := range 60 {
		f.Change("a", work(i), Work{Objects: 1, Leaving: 1}, Work{})
	}
	if f.cause("a") != None {
		t.Error("it holds although nothing waits")
	}
	f.Resume("b", true)
	f.hold("b", 100)
	if f.cause("b") != Before {
		t.Error("it lets go although what waited before a restart was not requested yet")
	}
	f.order("b", 0, 1)
	f.carryOut("b", 0, 1)
	f.Change("b", work(0), Work{Objects: 1, Leaving: 1}, Work{Objects: 1})
	f.Clear("b", work(0))
	if f.cause("b") != None {
		t.Error("it holds although nothing is left to remove after a restart")
	}
}

func TestOff(t *testing.T) {
	b := New(func() Config { return Config{Share: 1, Minimum: 1} }, clocktesting.NewFakeClock(time.Unix(0, 0)), func(string) { t.Error("it engaged") })
	b.Change("a", work(0), Work{}, Work{Objects: 1, Leaving: 1})
	b.Resume("a", true)
	if !b.Admit(Request{Cluster: "a", Work: work(0), Removal: true}) {
		t.Error("it is off and refuses")
	}
}

// FuzzBrake carries out random histories and checks, after every step, that no more was removed within a window than the
// share allows, and that what is engaged admits nothing.
func FuzzBrake(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz0123456789"))
	f.Fuzz(func(t *testing.T, steps []byte) {
		const objects = 40
		x := newFixture()
		x.hold("a", objects)
		next := 0
		var done []time.Time
		for _, step := range steps {
			x.clock.Step(time.Duration(step%16) * 30 * time.Second)
			if next == objects {
				break
			}
			before := x.cause("a")
			x.order("a", next, next+1)
			n := x.carryOut("a", next, next+1)
			next++
			if n > 0 && before != None {
				t.Fatal("an engaged brake admitted a removal")
			}
			for range n {
				done = append(done, x.clock.Now())
			}
			recent, limit := 0, x.clock.Now().Add(-9*time.Minute)
			for _, at := range done {
				if at.After(limit) {
					recent++
				}
			}
			if left := objects - len(done) + recent; left >= 10 && 2*recent > left {
				t.Fatalf("%d of %d were removed within a window", recent, left)
			}
		}
	})
}

func TestAClearedWorkDoesNotWait(t *testing.T) {
	f := newFixture()
	f.hold("m1", 20)
	for i := range 11 {
		f.Change("m1", work(i), Work{Objects: 1}, Work{Objects: 1, Leaving: 1})
	}
	if f.Admit(Request{Cluster: "m1", Work: work(0), Removal: true}) {
		t.Fatal("the removal of more than half is admitted")
	}
	if state, _ := f.Look("m1"); state.Waiting != 1 || state.Cause != Member {
		t.Errorf("the state is %+v, want one Work that waits for the member's brake", state)
	}
	f.Clear("m1", work(0))
	f.Clear("m2", work(0)) // of a member without an account
	if state, next := f.Look("m1"); state != (State{}) || next != 0 {
		t.Errorf("after Clear the state is %+v, next look in %v", state, next)
	}
	f.Forget("m1")
	if state, next := f.Look("m1"); state != (State{}) || next != 0 {
		t.Errorf("a member that was removed has the state %+v, %v", state, next)
	}
	if got := New(func() Config { return Config{} }, f.clock, nil).Describe(); got != "more than 50 % within 10m0s" {
		t.Errorf("Describe is %q", got)
	}
}

// TestTheShareChanges: another share and another minimum count from the next decision on. A brake that is engaged stays so, unless it is
// turned off, and the window stays that of the start.
func TestTheShareChanges(t *testing.T) {
	f := newFixture()
	f.hold("m1", 20)
	if f.order("m1", 0, 10); !f.Admit(Request{Cluster: "m1", Work: work(0), Removal: true}) {
		t.Fatal("half of the objects may be removed")
	}
	f.config.Share = 0.2
	if f.Admit(Request{Cluster: "m1", Work: work(1), Removal: true}) {
		t.Fatal("half of the objects is more than the share is now")
	}
	f.config = Config{Share: 0.9, Window: time.Second, Minimum: 10}
	f.clock.Step(time.Minute)
	if state, _ := f.Look("m1"); state.Cause != Member || state.Waiting != 1 || f.Admit(Request{Cluster: "m1", Work: work(1), Removal: true}) {
		t.Errorf("%+v: what waits does so until a person releases it", state)
	}
	f.config.Share = 1
	if !f.Admit(Request{Cluster: "m1", Work: work(1), Removal: true}) {
		t.Error("the brake is off now")
	}
	if state, next := f.Look("m1"); state != (State{}) || next != 0 {
		t.Errorf("%+v, again in %s: nothing waits for a brake that is off", state, next)
	}
	f.config = Config{Share: 0.2, Minimum: 50}
	if !f.Admit(Request{Cluster: "m1", Work: work(2), Removal: true}) {
		t.Error("the member has fewer objects than the minimum is now")
	}
}

// TestLastCopiesSettle: the removal of a last copy waits for the others of the same change, and not for ever.
func TestLastCopiesSettle(t *testing.T) {
	f := newFixture()
	f.hold("a", 100)
	if f.Settles() > 0 {
		t.Error("it waits for nothing")
	}
	f.order("a", 99, 100)
	if f.Settles() > 0 {
		t.Error("it waits after the removal of an object whose template was deleted")
	}
	for i := range 20 {
		if got := f.Settles() > 0; got != (i > 0 && i < 10) {
			t.Errorf("after %d seconds of orders it waits: %v", i, got)
		}
		f.unselect("a", i, i+1)
		f.clock.Step(time.Second)
	}
	f.clock.Step(quiet)
	if f.unselect("a", 50, 51); f.Settles() != quiet {
		t.Errorf("another change settles in %s", f.Settles())
	}
	f.config.Share = 1
	if f.Settles() > 0 {
		t.Error("it waits for a brake that is off")
	}
}
