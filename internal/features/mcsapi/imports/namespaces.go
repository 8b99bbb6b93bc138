package imports

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// followNamespaces follows which namespaces a member has.
func followNamespaces(ctx context.Context, conn *member.Conn, tell endpointslices.Handlers) (*endpointslices.Watch[struct{}], error) {
	client, err := metadata.NewForConfigAndClient(metadata.ConfigFor(endpointslices.Protobuf(conn)), conn.PatientHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building a client for namespaces: %w", err)
	}
	namespaces := client.Resource(exportwork.Namespaces)
	lw := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return namespaces.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return namespaces.Watch(ctx, o)
		},
	}
	return endpointslices.Start(ctx, conn, &metav1.PartialObjectMetadata{}, "namespaces", lw, endpointslices.ViewOf(func(obj any) (struct{}, bool, error) {
		namespace, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok {
			return struct{}{}, false, fmt.Errorf("keeping a %T: not metadata", obj)
		}
		return struct{}{}, namespace.DeletionTimestamp == nil, nil
	}), tell), nil
}

// spaces knows which namespaces the members have: a service is imported where its namespace is. Members are asked only
// while anything is exported anywhere.
type spaces struct {
	fleet *member.Fleet
	cache cache.Cache
	// changed is told of a namespace that came or went in some member; of "" when all of a member's have been seen.
	changed func(namespace string)

	mu      sync.Mutex
	ctx     context.Context // nil until Start
	records map[types.NamespacedName]bool
	members map[string]*spacesOf
}

type spacesOf struct {
	conn       *member.Conn
	namespaces *endpointslices.Watch[struct{}]
}

// Start implements manager.Runnable.
func (s *spaces) Start(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	works, err := s.cache.GetInformer(ctx, &workv1alpha1.Work{})
	if err != nil {
		return fmt.Errorf("watching Works: %w", err)
	}
	handle, err := works.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.count(obj, true) },
		DeleteFunc: func(obj any) { s.count(obj, false) },
	})
	if err != nil {
		return fmt.Errorf("watching Works: %w", err)
	}
	defer func() { _ = works.RemoveEventHandler(handle) }() // the cache ends with us
	<-ctx.Done()
	return nil
}

// count follows the records of exports.
func (s *spaces) count(obj any, there bool) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	work, ok := obj.(*workv1alpha1.Work)
	if !ok || exportwork.RoleOf(work) != multiclusterv1beta1.RoleExport {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.records) > 0
	if there {
		s.records[client.ObjectKeyFromObject(work)] = true
	} else {
		delete(s.records, client.ObjectKeyFromObject(work))
	}
	if before == (len(s.records) > 0) {
		return
	}
	for _, cluster := range s.fleet.Names() {
		s.adjust(cluster)
	}
}

// settle follows the coming and going of a connection.
func (s *spaces) settle(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adjust(cluster)
}

// adjust watches a member, or does not. The lock is held.
func (s *spaces) adjust(cluster string) {
	if s.ctx == nil {
		return
	}
	conn, connected := s.fleet.Get(cluster)
	wanted := connected && len(s.records) > 0
	if m := s.members[cluster]; m != nil {
		if wanted && m.conn == conn {
			return
		}
		m.namespaces.Stop()
		delete(s.members, cluster)
	}
	if !wanted {
		return
	}
	namespaces, err := followNamespaces(s.ctx, conn, endpointslices.Handlers{
		Changed: func(namespace types.NamespacedName) { s.changed(namespace.Name) },
		Listed:  func() { s.changed("") },
	})
	if err != nil { // The configuration of every connection is the same: it cannot be wrong for one.
		log.FromContext(s.ctx).Error(err, "Cannot watch namespaces", "cluster", cluster)
		return
	}
	s.members[cluster] = &spacesOf{conn: conn, namespaces: namespaces}
}

// has says whether a member has a namespace, and whether that is known.
func (s *spaces) has(cluster, namespace string) (present, known bool) {
	s.mu.Lock()
	m := s.members[cluster]
	s.mu.Unlock()
	if m == nil {
		return false, false
	}
	_, present, known = m.namespaces.Get(types.NamespacedName{Name: namespace})
	return present, known
}
