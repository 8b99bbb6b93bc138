package preview

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/features/evict"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

const (
	// foresight is how far ahead evictions are computed.
	foresight = 365 * 24 * time.Hour
	// maxMoments bounds at how many times something may happen.
	maxMoments = 1000
	// atOnce is a rate for which any number of evictions takes no time.
	atOnce = 1e12
)

// movable is a clock that a preview advances.
type movable struct {
	clock.WithTicker
	ahead time.Duration
}

// Now implements clock.PassiveClock.
func (c *movable) Now() time.Time { return c.WithTicker.Now().Add(c.ahead) }

// Since implements clock.PassiveClock.
func (c *movable) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// unpaced is a configuration of evict in which nothing takes time but what a toleration delays: clusters are evicted from at the same time,
// and a copy stays until the copies elsewhere are healthy, which nothing here is. Its share of the fleet counts as ever.
func unpaced(c evict.Config) evict.Config {
	if c.Rate >= 0 {
		c.Rate = atOnce
	}
	if c.SecondaryRate >= 0 {
		c.SecondaryRate = atOnce
	}
	c.Timeout = 10 * foresight
	return c
}

// foresee has the evictions happen that tolerations delay. It advances the clock of evictions to the time of each, the earliest first. What
// other loops wait for is in members.
func (r *Run) foresee(ctx context.Context) error {
	begun := r.later.Now()
	for range maxMoments {
		due, ok := r.evictions.Next()
		if !ok || due.Sub(begun) > foresight {
			break
		}
		r.later.ahead += max(due.Sub(r.later.Now()), 0)
		if err := r.Settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// noted is what a preview notes of changes while they happen. The times count from the change.
type noted struct {
	// evicted has evictions that begin, by binding and cluster; they may have ended since.
	evicted map[client.ObjectKey]map[string]departure
	// moved is when the replicas of a binding in a cluster changed last, and written when what an answer has of a Work did.
	moved   map[client.ObjectKey]map[string]time.Duration
	written map[client.ObjectKey]time.Duration
	// tainted has the taints of Clusters as the change itself sets them, and emptied the namespaces that it deletes.
	tainted map[string][]corev1.Taint
	emptied map[string]bool
}

// departure is why and when an object is evicted.
type departure struct {
	why string
	at  time.Duration
}

func newNoted() noted {
	return noted{
		evicted: map[client.ObjectKey]map[string]departure{}, moved: map[client.ObjectKey]map[string]time.Duration{},
		written: map[client.ObjectKey]time.Duration{}, tainted: map[string][]corev1.Taint{}, emptied: map[string]bool{},
	}
}

// note notes a change that happens at a time.
func (n *noted) note(change controlloop.Change, at time.Duration) {
	object := cmp.Or(change.After, change.Before)
	key := client.ObjectKeyFromObject(object)
	switch object.(type) {
	case *workv1alpha1.Work:
		before, _ := change.Before.(*workv1alpha1.Work)
		after, _ := change.After.(*workv1alpha1.Work)
		if at == 0 || showsDifference(before, after) {
			n.written[key] = at
		}
	case workv1alpha2.Binding:
		before, was := change.Before.(workv1alpha2.Binding)
		after, is := change.After.(workv1alpha2.Binding)
		n.noteMoves(key, before, after, at)
		if was && is {
			n.noteEvictions(key, before, after, at)
		}
	}
}

// showsDifference returns whether an answer would have something of the change of a Work. What the control plane adds to objects, such as the
// name of their policy, is written together with the next change, whenever that is.
func showsDifference(before, after *workv1alpha1.Work) bool {
	from, err := manifests(before)
	to, wrong := manifests(after)
	return err != nil || wrong != nil || !equality.Semantic.DeepEqual(from, to)
}

// noteMoves notes in which clusters the replicas of a binding change.
func (n *noted) noteMoves(key client.ObjectKey, before, after workv1alpha2.Binding, at time.Duration) {
	from, to := targetsOf(before), targetsOf(after)
	for _, all := range []map[string]int32{from, to} {
		for name := range all {
			was, had := from[name]
			is, has := to[name]
			if was == is && had == has {
				continue
			}
			if n.moved[key] == nil {
				n.moved[key] = map[string]time.Duration{}
			}
			n.moved[key][name] = at
		}
	}
}

// noteEvictions notes the tasks that a change of a binding begins.
func (n *noted) noteEvictions(key client.ObjectKey, before, after workv1alpha2.Binding, at time.Duration) {
	for _, task := range after.BindingSpec().GracefulEvictionTasks {
		if eviction.Find(before.BindingSpec(), task.FromCluster) != nil {
			continue
		}
		if n.evicted[key] == nil {
			n.evicted[key] = map[string]departure{}
		}
		if _, again := n.evicted[key][task.FromCluster]; again {
			continue // the first one counts
		}
		n.evicted[key][task.FromCluster] = departure{cmp.Or(task.Message, task.Reason), at}
	}
}

// seconds is a time as an answer has it.
func seconds(d time.Duration) int64 { return int64(d.Round(time.Second) / time.Second) }
