package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/storage"
)

// Namespaces counts what is stored in each namespace, without Works: these are stored in the namespace of their cluster, and
// for encryption the key does not say for which namespace. Hub only.
func (s *Server) Namespaces() *storage.Namespaces { return s.storage.Namespaces }

// StorageSize is the size of the database and its quota, in bytes: at the quota nothing can be written any more. The quota is
// 0 if it is not known. Hub only.
func (s *Server) StorageSize(ctx context.Context) (used, quota int64, err error) {
	return s.storage.Size(ctx)
}

// StorageCapacity is what an embedded etcd has to store things; false for an external one.
func (s *Server) StorageCapacity() (etcd.Capacity, bool) { return s.storage.Capacity() }

// InUse returns whether there may be objects of a resource: false is the answer about custom resources of which none was ever
// seen. It is quick. To list or watch such a resource costs far more than its definition does.
func (s *Server) InUse(ctx context.Context, resource schema.GroupResource) bool {
	return s.storage.Usage == nil || !s.defines(resource) || s.storage.Usage.Used(ctx, resource)
}

// OnUse has notify called when the result of InUse may have changed, until the context ends. It must return quickly.
func (s *Server) OnUse(ctx context.Context, notify func()) {
	if s.storage.Usage != nil {
		context.AfterFunc(ctx, s.storage.Usage.Subscribe(notify))
	}
}

// holds is InUse that reads storage instead of returning false.
func (s *Server) holds(ctx context.Context, resource schema.GroupResource) bool {
	return s.storage.Usage == nil || !s.defines(resource) || s.storage.Usage.Holds(ctx, resource)
}
