package observe

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// revisitPause is the pause between two Works when all Works of clusters are revisited: a hundred per second, however many clusters and
// Works there are. Each may lead to three writes, of the Work, its binding and its template.
const revisitPause = 10 * time.Millisecond

// revisits is the queue of the Works of clusters that were lost or found. They are handled at a steady rate. Clusters take turns, so that one
// with many Works does not delay the others.
type revisits struct {
	loop  *controlloop.Loop
	visit func(ctx context.Context, cluster string, work types.NamespacedName) error
	queue *fairqueue.Queue[revisit]
}

type revisit struct {
	cluster string
	work    types.NamespacedName
}

func newRevisits(loop *controlloop.Loop, visit func(ctx context.Context, cluster string, work types.NamespacedName) error) *revisits {
	return &revisits{
		loop: loop, visit: visit,
		queue: fairqueue.New("", backoff.Limiter[revisit](), func(v revisit) string { return v.cluster }),
	}
}

// add has a Work visited; one that waits already is visited once.
func (r *revisits) add(cluster string, work types.NamespacedName) {
	r.queue.Add(revisit{cluster, work})
}

// run visits until ctx ends.
func (r *revisits) run(ctx context.Context) {
	stop := sync.OnceFunc(r.queue.ShutDown)
	defer stop() // the function below is not called if the loop ends by ctx first
	defer context.AfterFunc(ctx, stop)()
	for limiter := rate.NewLimiter(rate.Every(revisitPause), 1); limiter.Wait(ctx) == nil; {
		next, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		err := r.loop.Do(ctx, next.cluster+" "+next.work.String(), func(ctx context.Context) error { return r.visit(ctx, next.cluster, next.work) })
		if err != nil {
			failures := r.queue.NumRequeues(next) + 1
			controlloop.LogFailure(log.FromContext(ctx).WithName("observe").WithValues("cluster", next.cluster, "work", next.work), err, failures, false)
			r.queue.AddRateLimited(next)
		} else {
			r.queue.Forget(next)
		}
		r.queue.Done(next)
	}
}
