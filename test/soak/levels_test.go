package soak_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// hubMore and agentMore are how much more a process may use than after the first round of its life. What differs from round to round are the objects,
// the definitions and whether a cluster has left: 200 goroutines and 40 MB of the control plane, 20 goroutines and 3 MB of the agent. A long life has
// about 120 faults and 300 steps: a run fails if each fault leaves three goroutines behind.
var hubMore, agentMore = fleettest.Usage{Heap: 80 << 20, Goroutines: 360}, fleettest.Usage{Heap: 16 << 20, Goroutines: 60}

// level is whether what a process uses stays the same while it lives, whatever fails around it. What is compared is what it uses at rest: garbage is
// collected before, and what ends by itself may take its time, such as connections that the network has lost. So the load of the machine has no part
// in it.
type level struct {
	name   string
	config *rest.Config
	more   fleettest.Usage
	// life is what it used at the end of each round since its start.
	life []fleettest.Usage
	// most is the most of all rounds, longest the number of rounds of the longest life, from and to what it used at its ends.
	most     fleettest.Usage
	longest  int
	from, to fleettest.Usage
}

func (f *fleet) levels() (hub, agent *level) {
	return &level{name: "control plane", config: f.hub.Config, more: hubMore}, &level{name: "agent", config: f.agentPages, more: agentMore}
}

// again is called when the process is started again.
func (l *level) again() { l.life = nil }

// check waits until the process uses no more than after the first round of its life, and what the objects since then may need.
func (l *level) check(t *testing.T) {
	var now fleettest.Usage
	var wrong error
	err := wait.PollUntilContextTimeout(t.Context(), settlePoll, patience, true, func(ctx context.Context) (bool, error) {
		now, wrong = fleettest.ReadUsage(ctx, l.config)
		if wrong == nil && len(l.life) > 0 && (now.Heap > l.life[0].Heap+l.more.Heap || now.Goroutines > l.life[0].Goroutines+l.more.Goroutines) {
			wrong = fmt.Errorf("after %d rounds it uses %s, after the first %s", len(l.life)+1, now, l.life[0])
		}
		return wrong == nil, nil
	})
	if err != nil {
		stacks, unread := fleettest.Goroutines(t.Context(), l.config)
		t.Errorf("what the %s uses: %v: %v\n%.20000s%v", l.name, err, wrong, stacks, unread)
		return
	}
	l.life = append(l.life, now)
	l.most = fleettest.Usage{Heap: max(l.most.Heap, now.Heap), Goroutines: max(l.most.Goroutines, now.Goroutines)}
	if len(l.life) > l.longest {
		l.longest, l.from, l.to = len(l.life), l.life[0], now
	}
}

// last is what it used at the last check.
func (l *level) last() fleettest.Usage { return l.life[len(l.life)-1] }

func (l *level) summary() string {
	return fmt.Sprintf("%s at most; after the first and the last of %d rounds without a start: %s, %s", l.most, l.longest, l.from, l.to)
}
