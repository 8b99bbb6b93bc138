package imports

import (
	"cmp"
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// namespaces watches which namespaces members have: a service is imported where its namespace is. Members are watched only while
// anything is exported anywhere.
type namespaces struct {
	fleet   *member.Fleet
	cache   cache.Cache
	watches *memberwatch.Group // since Start

	mu      sync.Mutex
	queues  []endpointslices.Queue
	records map[types.NamespacedName]bool
	members map[string]memberNamespaces
}

type memberNamespaces struct {
	conn  *member.Conn
	watch *memberwatch.Watch[struct{}]
}

func newNamespaces(works cache.Cache, fleet *member.Fleet) *namespaces {
	return &namespaces{fleet: fleet, cache: works, records: map[types.NamespacedName]bool{}, members: map[string]memberNamespaces{}}
}

// source enqueues the group of services in a namespace that came or went in some member, and that of all services when the namespaces
// of a member are known.
func (n *namespaces) source() source.Source {
	return source.Func(func(_ context.Context, q endpointslices.Queue) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.queues = append(n.queues, q)
		return nil
	})
}

func (n *namespaces) enqueue(namespace string) {
	n.mu.Lock()
	queues := n.queues
	n.mu.Unlock()
	for _, q := range queues {
		q.Add(endpointslices.Group(types.NamespacedName{Namespace: namespace}))
	}
}

// Start implements manager.Runnable.
func (n *namespaces) Start(ctx context.Context) error {
	n.watches = memberwatch.NewGroup(ctx)
	defer n.watches.Close()
	n.fleet.Subscribe(n.sync)
	_, stop, err := hubclient.Follow(ctx, n.cache, func(before, after *workv1alpha1.Work, _ bool) {
		if before == nil || after == nil {
			n.count(cmp.Or(before, after), after != nil)
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// count follows the records of exports.
func (n *namespaces) count(work *workv1alpha1.Work, there bool) {
	if exportwork.RoleOf(work) != multiclusterv1beta1.RoleExport {
		return
	}
	n.mu.Lock()
	before := len(n.records) > 0
	if there {
		n.records[client.ObjectKeyFromObject(work)] = true
	} else {
		delete(n.records, client.ObjectKeyFromObject(work))
	}
	changed := before != (len(n.records) > 0)
	n.mu.Unlock()
	if changed {
		for _, cluster := range n.fleet.Names() {
			n.sync(cluster)
		}
	}
}

// sync starts or stops the watch of a member.
func (n *namespaces) sync(cluster string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	conn, connected := n.fleet.Get(cluster)
	wanted := connected && len(n.records) > 0
	if m, ok := n.members[cluster]; ok {
		if wanted && m.conn == conn {
			return
		}
		m.watch.Stop()
		delete(n.members, cluster)
	}
	if !wanted {
		return
	}
	store := memberwatch.NewStore(func(namespace *metav1.PartialObjectMetadata) (struct{}, bool, error) {
		return struct{}{}, namespace.DeletionTimestamp == nil, nil
	}, func(namespace types.NamespacedName) { n.enqueue(namespace.Name) }, func() { n.enqueue("") })
	n.members[cluster] = memberNamespaces{conn, memberwatch.Start(n.watches, cluster+"/namespaces",
		conn.Patient().Metadata(exportwork.Namespaces, metav1.NamespaceAll).Within(bounds.Namespaces), store)}
}

// has returns whether a member has a namespace, and whether that is known.
func (n *namespaces) has(cluster, namespace string) (present, known bool) {
	n.mu.Lock()
	m, ok := n.members[cluster]
	n.mu.Unlock()
	if !ok {
		return false, false
	}
	_, present, known = m.watch.Get(types.NamespacedName{Name: namespace})
	return present, known
}
