package soak_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// leastFault is how short a fault is at least, mostFault how long most of them last at most, and longest how long the others do. What lasts for
	// longer than unready is detected: the control plane reports the cluster as not ready.
	leastFault, mostFault, longest = 300 * time.Millisecond, 3500 * time.Millisecond, 8 * time.Second
	// mostPause is the most between two faults of a sequence.
	mostPause = 1500 * time.Millisecond
	// longestStart is what is left of a start at most when the control plane is killed while it starts.
	longestStart = 4 * time.Second
	// burst is how many objects are written at the same time when the control plane is killed, and longestBurst the most until then.
	burst, longestBurst = 12, 400 * time.Millisecond
)

// planFaults adds the sequences of faults: one for each process and network that fails. With killed the control plane and the agent are killed, too.
func (s *soak) planFaults(killed bool) {
	var kinds []string
	if len(s.plan.spared) == 0 { // after a pause the control plane may take a cluster for one that cannot be reached
		kinds = append(kinds, "pause the control plane")
	}
	hub, agent := kinds, []string{"pause the agent", "pause the agent"}
	if killed {
		kinds = append(kinds, "kill the control plane", "kill the control plane in a burst of writes", "kill the control plane while it starts",
			"end the control plane")
		hub = append(s.picks(2, kinds...), "kill the control plane in a burst of writes")
		agent = []string{"kill the agent", s.pick("kill the agent", "pause the agent")}
	}
	network := []string{"hold the network", "lose connections", "cut connections", "slow the network"}
	s.sequence(hub, s.hubFault)
	s.sequence(agent, s.agentFault)
	members := slices.DeleteFunc(slices.Clone(names), func(cluster string) bool { return s.plan.spared[cluster] || cluster == s.absent })
	s.sequence(s.picks(3, "kill", "pause"), func(kind string) func() { return s.memberFault(kind, s.pick(members...)) })
	for _, cluster := range slices.Sorted(maps.Keys(s.links)) {
		if !s.plan.spared[cluster] && cluster != s.absent {
			s.sequence(s.picks(4, network...), func(kind string) func() { return s.networkFault(kind, cluster) })
		}
	}
}

// sequence adds faults that happen one after the other.
func (s *soak) sequence(kinds []string, fault func(kind string) func()) {
	var sequence []func()
	for _, kind := range kinds {
		wait, do := s.between(0, mostPause), fault(kind)
		sequence = append(sequence, func() {
			<-time.After(wait)
			do()
		})
	}
	s.plan.sequences = append(s.plan.sequences, sequence)
}

// happens is a fault that begins, lasts and ends. Each has its own end, so that nothing of it is left when the sequence has ended.
func (s *soak) happens(name string, lasts time.Duration, begin, end func()) func() {
	s.faults[name]++
	return func() {
		s.note("  %s, for %v", name, lasts.Round(time.Millisecond))
		begin()
		<-time.After(lasts)
		end()
		s.note("  end: %s", name)
	}
}

// lasts is how long a fault does.
func (s *soak) lasts() time.Duration {
	if s.rand.IntN(4) == 0 {
		return s.between(mostFault, longest)
	}
	return s.between(leastFault, mostFault)
}

func (s *soak) hubFault(kind string) func() {
	lasts := s.lasts()
	start := func() { s.hub.Start(s.t) }
	kill := func() { s.hub.Kill() }
	if kind == "pause the control plane" {
		return s.happens(kind, lasts, func() { s.hub.Pause(s.t) }, func() { s.hub.Resume(s.t) })
	}
	s.hubLevel.again()
	switch kind {
	case "kill the control plane":
		return s.happens(kind, lasts/4, kill, start)
	case "end the control plane":
		return s.happens(kind, lasts/4, func() { s.hub.Stop(s.t) }, start)
	case "kill the control plane while it starts":
		return s.happens(kind, s.between(0, longestStart), func() { s.hub.Kill(); s.hub.Launch(s.t) }, func() { s.hub.Kill(); s.hub.Start(s.t) })
	}
	writes := s.burst()
	var writing sync.WaitGroup
	return s.happens(kind, s.between(0, longestBurst), func() {
		for _, write := range writes {
			writing.Go(write)
		}
	}, func() { kill(); start(); writing.Wait() })
}

// burst are requests that are sent at the same time: each of them about an object that is not changed otherwise in this round.
func (s *soak) burst() (writes []func()) {
	for range burst {
		o := s.someObject(func(o *object) bool { return o.changed != s.rounds && !o.suspended })
		switch n := s.rand.IntN(3); {
		case n == 0 && len(s.objects) < maxObjects || o == nil:
			writes = append(writes, s.creations(s.newObject(s.pick("ConfigMap", "Secret", "Deployment", "ClusterRole"), ns))...)
		case n == 1:
			o.value = s.someValue()
			s.changes(o)
			write := s.writes(o)
			writes = append(writes, func() { s.try("change "+o.name, write) })
		default:
			for _, present := range s.written(o) {
				writes = append(writes, func() { s.try("delete "+o.name, s.deletes(present)) })
			}
			delete(s.objects, o.name)
		}
	}
	return writes
}

func (s *soak) agentFault(kind string) func() {
	if kind == "pause the agent" {
		return s.happens(kind, s.lasts(), func() { s.agent.Pause(s.t) }, func() { s.agent.Resume(s.t) })
	}
	s.agentLevel.again()
	return s.happens(kind, s.lasts(), func() { s.agent.Kill() }, func() { s.agent.Start(s.t) })
}

func (s *soak) memberFault(kind, cluster string) func() {
	member := s.members[cluster]
	name := fmt.Sprintf("%s the member %s", kind, cluster)
	if kind == "pause" {
		return s.happens(name, s.lasts(), func() { member.Pause(s.t) }, func() { member.Resume(s.t) })
	}
	return s.happens(name, s.lasts(), func() { member.Kill() }, func() { member.Start(s.t) })
}

func (s *soak) networkFault(kind, cluster string) func() {
	trouble := map[string]fleettest.Trouble{
		"hold the network": {Held: true},
		"lose connections": {Lost: true},
		"cut connections":  {Cut: 32 << 10},
		"slow the network": {Delay: 100 * time.Millisecond},
	}[kind]
	link := s.links[cluster]
	return s.happens(fmt.Sprintf("%s of %s", kind, cluster), s.lasts(), func() { link.Set(trouble) },
		func() { link.Set(fleettest.Trouble{}) })
}
