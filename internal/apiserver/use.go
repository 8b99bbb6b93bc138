package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// InUse tells whether there may be objects of a resource: false is the answer about custom resources of which none was ever
// seen. It is quick. To list or watch such a resource costs far more than its definition does.
func (s *Server) InUse(ctx context.Context, resource schema.GroupResource) bool {
	return s.usage == nil || !s.defines(resource) || s.usage.Used(ctx, resource)
}

// OnUse has tell called when the answer of InUse may have become another one. It must return quickly.
func (s *Server) OnUse(tell func()) {
	if s.usage != nil {
		s.usage.Subscribe(tell)
	}
}

// holds is InUse that asks storage rather than say no.
func (s *Server) holds(ctx context.Context, resource schema.GroupResource) bool {
	return s.usage == nil || !s.defines(resource) || s.usage.Holds(ctx, resource)
}
