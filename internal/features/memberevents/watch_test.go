package memberevents

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestEventsAreWatchedWhileThereAreWorks: a member without objects of users costs neither a watch nor a goroutine here.
func TestEventsAreWatchedWhileThereAreWorks(t *testing.T) {
	server := fleettest.StartEmptyMember()
	defer server.Stop()
	fleet := fleettest.LocalFleet(t, member.Config{})
	defer fleet.Close()
	server.Connect(t, fleet, "eu")
	c := &Collector{
		Deps: Deps{
			Works: reader(t), Fleet: fleet, Clock: clock.RealClock{}, Report: func(context.Context, string, []Warning) error { return nil },
		},
		spaces: map[string]map[string]int{}, members: map[string]*collected{}, seen: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "n"}, []string{"result"}),
		group: memberwatch.NewGroup(t.Context()),
	}
	defer c.group.Close()
	first, second := work(space1, "web", "shop"), work(space1, "db", "shop")
	steps := []struct {
		what    string
		do      func()
		watches int64
	}{
		{"no Work", func() {}, 0},
		{"a Work", func() { c.count(first, 1) }, 1},
		{"another Work", func() { c.count(second, 1) }, 1},
		{"one of the two", func() { c.count(first, -1) }, 1},
		{"none", func() { c.count(second, -1) }, 0},
		{"a Work again", func() { c.count(first, 1) }, 1},
		{"no connection", func() { fleet.Remove("eu") }, 0},
	}
	for _, step := range steps {
		step.do()
		c.follow(t.Context(), clusterOf(first))
		if n := len(c.members); n != int(step.watches) {
			t.Errorf("%s: %d members are followed", step.what, n)
		}
		fleettest.Eventually(t, step.what+": its watches", func() bool { return server.Watches.Load() == step.watches })
	}
}
