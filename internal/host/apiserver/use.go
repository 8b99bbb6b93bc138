package apiserver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/storage"
)

// Namespaces counts what is stored in each namespace, without Works, whose keys have the namespace of their cluster. Hub only.
func (s *Server) Namespaces() *storage.Namespaces { return s.storage.Namespaces }

// StorageSize is the size of the database, and its quota at which nothing can be written, in bytes; 0 if that is not known. Hub only.
func (s *Server) StorageSize(ctx context.Context) (used, quota int64, err error) {
	return s.storage.Size(ctx)
}

// StorageCapacity is what an embedded etcd has to store things; false for an external one.
func (s *Server) StorageCapacity() (etcd.Capacity, bool) { return s.storage.Capacity() }

// CertificateEnds are the times at which the certificates of this server end, by the names of their files in the key directory.
func (s *Server) CertificateEnds() map[string]time.Time { return s.keys.Ends() }

// TokenKeyID is the id of the key that signs tokens of service accounts, which the header of each token has.
func (s *Server) TokenKeyID() string { return s.keys.TokenKeyID() }

// InUse returns whether there may be objects of a resource: false is the answer about custom resources and built-in kinds of which none was
// ever seen. It is quick. To list or watch such a custom resource costs far more than its definition does, and a watch of a built-in kind
// costs 100 kB.
func (s *Server) InUse(ctx context.Context, resource schema.GroupResource) bool {
	usage := s.storage.Usage
	return usage == nil || !s.defines(resource) && !usage.Stores(resource) || usage.Used(ctx, resource)
}

// OnUse has notify called when the result of InUse may have changed, until the context ends. It must return quickly.
func (s *Server) OnUse(ctx context.Context, notify func()) {
	if s.storage.Usage != nil {
		context.AfterFunc(ctx, s.storage.Usage.Subscribe(notify))
	}
}

// NewInformer makes an informer for the loops of this process. It shares the memory of Works and bindings with the API server: see package local.
func (s *Server) NewInformer(source toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if local := s.ListerWatcher(obj); local != nil {
		source = local
	}
	return toolscache.NewSharedIndexInformer(source, obj, resync, indexers)
}

// nativeInformer makes an informer of Works or bindings as NewInformer does, and returns nil for any other resource.
func (s *Server) nativeInformer(resource schema.GroupResource) toolscache.SharedIndexInformer {
	obj := s.works.New(resource)
	if obj == nil {
		return nil
	}
	return toolscache.NewSharedIndexInformer(s.ListerWatcher(obj), obj, 0, toolscache.Indexers{})
}

// ListerWatcher returns how all Works or bindings are read from the watch cache of this process, nil for any other kind. What it reads must
// not be changed.
func (s *Server) ListerWatcher(obj runtime.Object) toolscache.ListerWatcher {
	return s.works.ListerWatcher(obj)
}

// NewClient makes the client of the loops of this process. It writes Works and bindings by calls of their storage: see package local.
func (s *Server) NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	requests, err := client.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return s.works.Client(requests, s.drained), nil
}

// holds is InUse that reads storage instead of returning false.
func (s *Server) holds(ctx context.Context, resource schema.GroupResource) bool {
	return s.storage.Usage == nil || !s.defines(resource) || s.storage.Usage.Holds(ctx, resource)
}
