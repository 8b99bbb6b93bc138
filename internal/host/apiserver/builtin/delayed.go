package builtin

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// eventDelay is how much later the garbage collector receives events of objects in resource.k8s.io/v1alpha2.
//
// The contract of that version is a recording of a kube-apiserver 1.30 (testdata/resourceclaims): after a deletion with the
// propagation policy Orphan or Foreground, and after a write that names an owner which does not exist, the client reads the object
// again and gets it. A garbage collector over the network is slower than the client's next request; in this process it is faster,
// and the object is gone. No event ends this wait, for nothing shows that the client has read.
const eventDelay = 300 * time.Millisecond

// delayedInformer delivers events later, in their order. Objects that exist when it starts are delivered at once.
type delayedInformer struct {
	cache.SharedIndexInformer
	queue workqueue.TypedDelayingInterface[*delivery]
}

type delivery struct{ deliver func() }

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (d *delayedInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	later := func(deliver func()) { d.queue.AddAfter(&delivery{deliver}, eventDelay) }
	return d.SharedIndexInformer.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if initial {
				handler.OnAdd(obj, initial)
				return
			}
			later(func() { handler.OnAdd(obj, initial) })
		},
		UpdateFunc: func(old, obj any) { later(func() { handler.OnUpdate(old, obj) }) },
		DeleteFunc: func(obj any) { later(func() { handler.OnDelete(obj) }) },
	}, resync)
}

// Run implements cache.SharedInformer. Events that are due after the end are not delivered.
func (d *delayedInformer) Run(stop <-chan struct{}) {
	d.queue = workqueue.NewTypedDelayingQueue[*delivery]()
	var delivering sync.WaitGroup
	delivering.Go(func() {
		for {
			next, ended := d.queue.Get()
			if ended {
				return
			}
			next.deliver()
			d.queue.Done(next)
		}
	})
	d.SharedIndexInformer.Run(stop)
	d.queue.ShutDown()
	delivering.Wait()
}
