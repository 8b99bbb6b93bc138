package tunable

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus"
	"github.com/flagship-k8s/flagship/internal/features/deschedule"
	"github.com/flagship-k8s/flagship/internal/features/evict"
	"github.com/flagship-k8s/flagship/internal/features/limit"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

// DefaultHistoryLimit is how many revisions are kept of a template, as Kubernetes keeps of a Deployment.
const DefaultHistoryLimit = 10

// DefaultUndeletePeriod is how long deleted templates can be brought back.
const DefaultUndeletePeriod = 24 * time.Hour

// Options are those that may change while a control plane runs. The loops read them at each turn.
type Options struct {
	// ProbePeriod is how often the health of a member is probed. Default 10 s.
	ProbePeriod time.Duration
	// FailureThreshold is how long a member must have been unhealthy before its condition Ready changes. Default 30 s.
	FailureThreshold time.Duration
	// SuccessThreshold is how long it must have been healthy again. Default 30 s.
	SuccessThreshold time.Duration
	// LeasePeriod is how often the Lease of an agent is read. Default 5 s.
	LeasePeriod time.Duration
	// LeaseGrace is how long an agent may give no sign of life before nothing is known of its cluster. Default 40 s.
	LeaseGrace time.Duration
	// StartupGrace is the same for a cluster whose agent has never reported. Default 60 s.
	StartupGrace time.Duration
	// DegradedAfter is how long an object may be unhealthy before its Work is Degraded. Default 60 s.
	DegradedAfter time.Duration
	// ServiceGrace is how long the endpoints of a member that is not ready stay in other members as they were seen last,
	// before they are marked as not ready. Default 5 min.
	ServiceGrace time.Duration

	// Brake configures when removals and shrinkages in members wait for a person. See package brake for its defaults. Its Window does not
	// change.
	Brake brake.Config

	// NamespaceLimits bound what is stored for a namespace that has no limits of its own. See package limit for the defaults.
	NamespaceLimits limit.Limits

	// GracefulEvictionTimeout is how long a copy stays in a cluster that its object left, if a copy in a new cluster does
	// not become healthy. Default 10 min.
	GracefulEvictionTimeout time.Duration
	// Evict configures when objects leave clusters that fail. Its Timeout is GracefulEvictionTimeout. Its NoExecute must not change.
	Evict evict.Config
	// EvictionRate is how many copies are evicted each second, by cluster failover and application failover together. Default 20.
	EvictionRate float64
	// Deschedule configures when replicas that cannot run in a cluster move.
	Deschedule deschedule.Config
	// HistoryLimit is how many revisions are kept of a template without a field revisionHistoryLimit. Default 10; a negative number
	// records nothing.
	HistoryLimit int
	// UndeletePeriod is how long deleted templates can be brought back. Default 24 h; a negative duration keeps none.
	UndeletePeriod time.Duration
}

// Complete returns the options with the defaults of those that are not set.
func (t Options) Complete() Options {
	for _, d := range []struct {
		value *time.Duration
		unset time.Duration
	}{
		{&t.ProbePeriod, 10 * time.Second},
		{&t.FailureThreshold, 30 * time.Second},
		{&t.SuccessThreshold, 30 * time.Second},
		{&t.LeasePeriod, 5 * time.Second},
		{&t.LeaseGrace, 40 * time.Second},
		{&t.StartupGrace, time.Minute},
		{&t.DegradedAfter, time.Minute},
		{&t.ServiceGrace, endpointslices.DefaultGrace},
		{&t.GracefulEvictionTimeout, 10 * time.Minute},
		{&t.UndeletePeriod, DefaultUndeletePeriod},
	} {
		*d.value = cmp.Or(*d.value, d.unset)
	}
	t.HistoryLimit = cmp.Or(t.HistoryLimit, DefaultHistoryLimit)
	t.EvictionRate = cmp.Or(t.EvictionRate, eviction.DefaultRate)
	t.Evict.Timeout = t.GracefulEvictionTimeout
	return t
}

// Current is the options as they are now.
type Current struct{ options atomic.Pointer[Options] }

// NewCurrent returns options that are complete.
func NewCurrent(t Options) *Current {
	c := &Current{}
	c.options.Store(&t)
	return c
}

// Set has the loops go on with other values, from their next turn on.
func (c *Current) Set(t Options) {
	t = t.Complete()
	c.options.Store(&t)
}

// Now returns a function that reads a part of the options as they are when it is called.
func Now[T any](c *Current, part func(*Options) T) func() T {
	return func() T { return part(c.options.Load()) }
}

// Brake returns the configuration of the brake.
func (c *Current) Brake() func() brake.Config {
	return Now(c, func(t *Options) brake.Config { return t.Brake })
}

// Evict returns when objects leave clusters.
func (c *Current) Evict() func() evict.Config {
	return Now(c, func(t *Options) evict.Config { return t.Evict })
}

// ServiceGrace returns how long endpoints of a member that is not ready stay as they are.
func (c *Current) ServiceGrace() func() time.Duration {
	return Now(c, func(t *Options) time.Duration { return t.ServiceGrace })
}

// Periods returns the periods of probes.
func (c *Current) Periods() func() clusterstatus.Periods {
	return Now(c, func(t *Options) clusterstatus.Periods {
		return clusterstatus.Periods{Probe: t.ProbePeriod, Failure: t.FailureThreshold, Success: t.SuccessThreshold}
	})
}

// LeasePeriods returns those of the Leases of agents.
func (c *Current) LeasePeriods() func() clusterstatus.LeasePeriods {
	return Now(c, func(t *Options) clusterstatus.LeasePeriods {
		return clusterstatus.LeasePeriods{Period: t.LeasePeriod, Grace: t.LeaseGrace, StartupGrace: t.StartupGrace}
	})
}
