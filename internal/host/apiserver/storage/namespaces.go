package storage

import (
	"cmp"
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// countPage is how many values one answer holds while everything is counted. A value has a megabyte and a half at most.
	countPage = 100
	// recountPause is how long after the end of the watch everything is counted again.
	recountPause = 5 * time.Second
)

// Namespaces counts what is stored in each namespace: objects, and bytes of their values. It counts everything once, and then
// follows a watch, so that a write costs no read and several servers on one storage agree within the delay of a watch.
//
// A ResourceQuota cannot do this: it has no limit of bytes, and on a control plane a ResourceQuota is a template that limits a
// namespace of the members.
//
// Events count with their bytes only: they end by themselves, and another limit bounds their number.
type Namespaces struct {
	client *clientv3.Client
	clock  clock.Clock
	prefix string
	// skipped is the path, behind the prefix, of what does not count; empty for none.
	skipped string
	seed    maphash.Seed

	mu      sync.RWMutex
	counted bool
	tally   tally
}

// tally is one count. An event of a watch has no size of the value before, and etcd would read that value for each write to
// add it. So the size of every value is kept, by the hash of its key: about 25 bytes for an object.
type tally struct {
	sizes      map[uint64]uint32
	namespaces map[string]usage
}

// usage is what is stored in one namespace.
type usage struct{ objects, bytes int64 }

func newTally() tally {
	return tally{sizes: map[uint64]uint32{}, namespaces: map[string]usage{}}
}

// NewNamespaces returns a count of what is stored under a prefix, without what is under the path skipped of it. It owns the client.
func NewNamespaces(client *clientv3.Client, clk clock.Clock, prefix, skipped string) *Namespaces {
	return &Namespaces{
		client: client, clock: clk, prefix: "/" + strings.Trim(prefix, "/") + "/", skipped: skipped, seed: maphash.MakeSeed(), tally: newTally(),
	}
}

// Of returns what is stored in a namespace. It is not known until everything was counted once.
func (n *Namespaces) Of(namespace string) (objects, bytes int64, known bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	of := n.tally.namespaces[namespace]
	return of.objects, of.bytes, n.counted
}

// Each calls visit for every namespace in which something is stored. Visit must return quickly.
func (n *Namespaces) Each(visit func(namespace string, objects, bytes int64)) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for namespace, of := range n.tally.namespaces {
		visit(namespace, of.objects, of.bytes)
	}
}

// Run counts until the context ends.
func (n *Namespaces) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := n.follow(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("The usage of namespaces is counted again", "reason", err.Error())
		}
		timer := n.clock.NewTimer(recountPause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// follow counts everything and then what changes, until the watch ends.
func (n *Namespaces) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	fresh, revision, err := n.count(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.tally, n.counted = fresh, true
	n.mu.Unlock()
	for response := range n.client.Watch(ctx, n.prefix, clientv3.WithPrefix(), clientv3.WithRev(revision+1)) {
		if err := response.Err(); err != nil {
			return err
		}
		n.mu.Lock()
		for _, event := range response.Events {
			size := len(event.Kv.Value)
			if event.Type == mvccpb.Event_DELETE {
				size = gone
			}
			n.note(n.tally, string(event.Kv.Key), size)
		}
		n.mu.Unlock()
	}
	return ctx.Err()
}

// count reads everything that counts, in pages of one revision. What was counted before stays in use meanwhile.
func (n *Namespaces) count(ctx context.Context) (tally, int64, error) {
	counting, revision := newTally(), int64(0)
	spans := [][2]string{{n.prefix, clientv3.GetPrefixRangeEnd(n.prefix)}}
	if n.skipped != "" {
		// For each page etcd visits all keys up to the end of the range. With many that do not count this would be most of a start.
		skipped := n.prefix + n.skipped
		spans = [][2]string{{n.prefix, skipped}, {clientv3.GetPrefixRangeEnd(skipped), spans[0][1]}}
	}
	for _, span := range spans {
		for key, more := span[0], true; more; {
			page, err := n.client.Get(ctx, key, clientv3.WithRange(span[1]), clientv3.WithLimit(countPage), clientv3.WithRev(revision))
			if err != nil {
				return tally{}, 0, err
			}
			revision = cmp.Or(revision, page.Header.Revision)
			for _, kv := range page.Kvs {
				n.note(counting, string(kv.Key), len(kv.Value))
			}
			if more = page.More && len(page.Kvs) > 0; more {
				key = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
			}
		}
	}
	return counting, revision, nil
}

// gone is the size of what is not there any more.
const gone = -1

// note counts the value of a key.
func (n *Namespaces) note(to tally, key string, size int) {
	path, ok := strings.CutPrefix(key, n.prefix)
	if !ok || n.skipped != "" && strings.HasPrefix(path, n.skipped) {
		return
	}
	namespace, ok := namespaceOf(path)
	if !ok {
		return
	}
	var object int64 = 1
	if strings.HasPrefix(path, "events/") {
		object = 0
	}
	id := maphash.String(n.seed, key)
	of := to.namespaces[namespace]
	if before, existed := to.sizes[id]; existed {
		of.objects -= object
		of.bytes -= int64(before)
	}
	if size == gone {
		delete(to.sizes, id)
	} else {
		to.sizes[id] = uint32(size)
		of.objects += object
		of.bytes += int64(size)
	}
	to.namespaces[namespace] = of
	if of == (usage{}) {
		delete(to.namespaces, namespace)
	}
}

// namespaceOf reads the namespace from the path of a key: RESOURCE/NAMESPACE/NAME for most built-in kinds, and
// GROUP/RESOURCE/NAMESPACE/NAME for all others. A path without a namespace has one part less; a group has a dot in it.
func namespaceOf(path string) (string, bool) {
	first, rest, _ := strings.Cut(path, "/")
	second, rest, _ := strings.Cut(rest, "/")
	third, fourth, four := strings.Cut(rest, "/")
	switch {
	case four && !strings.Contains(fourth, "/"):
		return third, true
	case !four && third != "" && !strings.Contains(first, "."):
		return second, true
	}
	return "", false
}

// Stop releases the client. Run must have returned.
func (n *Namespaces) Stop() { _ = n.client.Close() }
