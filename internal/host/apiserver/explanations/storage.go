package explanations

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

// Answer answers a question of an author, who may get what may returns. It is a function since what it reads is built after the server.
type Answer func(ctx context.Context, spec fleetv1alpha1.ExplanationSpec, author user.Info, may func(explain.Right) bool) (fleetv1alpha1.ExplanationStatus, error)

// storage stores nothing.
type storage struct {
	answer     Answer
	authorizer authorizer.Authorizer
}

var (
	_ rest.Creater              = &storage{} //nolint:misspell // its name in apiserver
	_ rest.Scoper               = &storage{}
	_ rest.SingularNameProvider = &storage{}
)

// New returns an empty object.
func (*storage) New() runtime.Object { return &fleetv1alpha1.Explanation{} }

// Destroy has nothing to close.
func (*storage) Destroy() {}

// NamespaceScoped is false: the namespace of the object is in the spec.
func (*storage) NamespaceScoped() bool { return false }

// GetSingularName is the name of one object.
func (*storage) GetSingularName() string { return "explanation" }

// Create answers a question.
func (s *storage) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	question, ok := obj.(*fleetv1alpha1.Explanation)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is no Explanation", obj))
	}
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("no user found for the request"))
	}
	if s.answer == nil {
		return nil, apierrors.NewServiceUnavailable("this server answers no Explanations")
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	answered := question.DeepCopy()
	answered.ManagedFields = nil // they are of stored objects
	var err error
	answered.Status, err = s.answer(ctx, question.Spec, caller, s.rights(ctx, caller))
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return nil, status
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return answered, nil
}

// rights returns what a user may get, each right decided once. Who may get every object of a resource may get each, so that an answer
// about many clusters costs few decisions.
func (s *storage) rights(ctx context.Context, caller user.Info) func(explain.Right) bool {
	known := map[explain.Right]bool{}
	var may func(explain.Right) bool
	may = func(r explain.Right) bool {
		if allowed, ok := known[r]; ok {
			return allowed
		}
		allowed := r.Name != "" && may(explain.Right{Group: r.Group, Resource: r.Resource, Namespace: r.Namespace})
		if !allowed && r.Namespace != "" && r.Name == "" {
			allowed = may(explain.Right{Group: r.Group, Resource: r.Resource})
		}
		if !allowed {
			decision, _, err := s.authorizer.Authorize(ctx, authorizer.AttributesRecord{
				User: caller, Verb: "get", APIGroup: r.Group, APIVersion: "*", Resource: r.Resource, Namespace: r.Namespace, Name: r.Name, ResourceRequest: true,
			})
			allowed = err == nil && decision == authorizer.DecisionAllow
		}
		known[r] = allowed
		return allowed
	}
	return may
}
