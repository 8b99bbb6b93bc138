// Package soak_test runs a mix of everything that users do and everything that fails, by a seed, for as long as the environment sets.
//
// The test is a sequence of rounds. A round is planned first, by the seed: what each user does, and which faults happen meanwhile. Then it is
// carried out: users and faults at the same time, so faults overlap and are in the middle of requests. When all of them have ended, everything
// must become as the model has it: see check_test.go. The plan depends on the seed alone; how its parts meet in time does not, so a run is
// repeated in what happens and not in each moment.
package soak_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

const (
	// forVariable has how long the test runs, as a Go duration, and faultsVariable after how many faults it ends; the first of both ends it. Without
	// any of them it is skipped. seedVariable has the seed; without it one is chosen and printed.
	forVariable, faultsVariable, seedVariable = "FLAGSHIP_SOAK", "FLAGSHIP_SOAK_FAULTS", "FLAGSHIP_SOAK_SEED"

	// stepsOfARound are what users do between two checks.
	stepsOfARound = 30
	// roundsOfALife are the rounds in which the processes of the control plane and the agent are killed, and then as many in which only others
	// are. In this long life of theirs it shows whether memory and goroutines stay level.
	roundsOfALife = 10
	// progressEvery is how often a line is printed for a person who waits.
	progressEvery = 30 * time.Second
)

// TestSoak does what users do, by a seed, in three members: one beside the control plane, one behind a network that fails, one with an agent
// behind a network that fails. Meanwhile processes are killed and paused and connections cut. After each round of that everything must be as it
// should: every object in its clusters and nowhere else, with its content, the same object as before unless a user deleted it; nothing is left
// over; objects of others are as they were; neither memory nor goroutines grow.
func TestSoak(t *testing.T) {
	length, faults := limits(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("reading %s: %v", seedVariable, err)
		}
	}
	t.Logf("the seed is %d: make soak SEED=%d", seed, seed)
	s := newSoak(t, rand.New(rand.NewPCG(seed, seed)))
	defer s.summary(seed)
	for last := time.Now(); (length == 0 || time.Since(s.began) < length) && (faults == 0 || total(s.faults) < faults); s.rounds++ {
		s.round()
		if t.Failed() {
			t.Fatalf("round %d of seed %d:\n%s", s.rounds, seed, strings.Join(s.log, "\n"))
		}
		if time.Since(last) >= progressEvery {
			last = time.Now()
			t.Log(s.progress())
		}
	}
}

// limits are how long the test runs and after how many faults it ends; 0 is no limit.
func limits(t *testing.T) (length time.Duration, faults int) {
	t.Helper()
	var err error
	if text := os.Getenv(forVariable); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("reading %s: %v", forVariable, err)
		}
	}
	if text := os.Getenv(faultsVariable); text != "" {
		if faults, err = strconv.Atoi(text); err != nil {
			t.Fatalf("reading %s: %v", faultsVariable, err)
		}
	}
	if length <= 0 && faults <= 0 {
		t.Skipf("set %s to how long it runs, such as 10m, or %s to a number of faults", forVariable, faultsVariable)
	}
	return length, faults
}

// soak is a run.
type soak struct {
	*fleet
	*model
	t     *testing.T
	rand  *rand.Rand
	began time.Time

	steps, faults map[string]int
	// settled is the longest time from the end of the last fault of a round until everything was as it should be.
	settled time.Duration
	// hubLevel and agentLevel are what both processes use.
	hubLevel, agentLevel *level

	// plan is what happens in the present round.
	plan plan

	mu  sync.Mutex
	log []string
	// start is that of the present round.
	start time.Time
}

// plan is what happens in one round. The users and the sequences run at the same time; what is in one of them happens one after the other.
type plan struct {
	users     [users][]func()
	sequences [][]func()
	// spared are the clusters that have no fault of their own in this round.
	spared map[string]bool
	// relabelled are the clusters whose tier changes, and selected the objects whose placement is by tier before or after a change of it.
	relabelled, selected map[string]bool
}

func newSoak(t *testing.T, rnd *rand.Rand) *soak {
	t.Helper()
	klog.SetLogger(logr.Discard()) // a killed server is an error of its clients, too
	s := &soak{t: t, rand: rnd, fleet: startFleet(t), model: newModel(), steps: map[string]int{}, faults: map[string]int{}}
	s.hubLevel, s.agentLevel = s.levels()
	s.began = time.Now()
	return s
}

// round plans what users do and what fails, carries it out, and checks.
func (s *soak) round() {
	s.log, s.start = nil, time.Now()
	s.plan = plan{spared: map[string]bool{}, relabelled: map[string]bool{}, selected: map[string]bool{}}
	for range stepsOfARound {
		s.step()
	}
	s.crossed()
	s.planFaults(s.rounds/roundsOfALife%2 == 0)
	var running sync.WaitGroup
	for _, sequence := range append(s.plan.sequences, s.plan.users[:]...) {
		running.Go(func() {
			for _, do := range sequence {
				if s.t.Failed() {
					return
				}
				do()
			}
		})
	}
	running.Wait()
	if !s.t.Failed() {
		s.check()
	}
	if !s.t.Failed() {
		s.hubLevel.check(s.t)
		s.agentLevel.check(s.t)
	}
}

// note is for a reader of a failure. It may be called at any time.
func (s *soak) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf("%5.1fs ", time.Since(s.start).Seconds())+fmt.Sprintf(format, args...))
}

func (s *soak) pick(from ...string) string { return from[s.rand.IntN(len(from))] }

func (s *soak) picks(n int, from ...string) (picked []string) {
	for range n {
		picked = append(picked, s.pick(from...))
	}
	return picked
}

// between is a duration by the seed.
func (s *soak) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rand.Int64N(int64(most-least)))
}

// progress is a line for a person who waits.
func (s *soak) progress() string {
	line := fmt.Sprintf("%v: %d rounds, %d steps, %d faults, %d objects; settled within %v", time.Since(s.began).Round(time.Second),
		s.rounds+1, total(s.steps), total(s.faults), len(s.objects), s.settled.Round(100*time.Millisecond))
	for _, l := range []*level{s.hubLevel, s.agentLevel} {
		line += "; " + l.name + " " + l.last().String()
	}
	return line
}

// summary is what the run was.
func (s *soak) summary(seed uint64) {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d: %d faults and %d steps in %d rounds and %v; everything was as it should be within %v of each round's last fault\n", seed, total(s.faults),
		total(s.steps), s.rounds, time.Since(s.began).Round(time.Second), s.settled.Round(100*time.Millisecond))
	for _, counts := range []map[string]int{s.faults, s.steps} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&out, "%6d %s\n", counts[name], name)
		}
	}
	for _, l := range []*level{s.hubLevel, s.agentLevel} {
		fmt.Fprintf(&out, "%s: %s\n", l.name, l.summary())
	}
	s.t.Log(out.String())
}

func total(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
