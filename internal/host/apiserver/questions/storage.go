package questions

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/questions/slots"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

// storage stores nothing.
type storage struct {
	kind
	authorizer authorizer.Authorizer
	slots      *slots.Slots
}

var (
	_ rest.Creater              = &storage{} //nolint:misspell // its name in apiserver
	_ rest.Scoper               = &storage{}
	_ rest.SingularNameProvider = &storage{}
)

// New returns an empty object.
func (s *storage) New() runtime.Object { return s.empty() }

// Destroy has nothing to close.
func (*storage) Destroy() {}

// NamespaceScoped is false: the namespace of the object is in the spec.
func (*storage) NamespaceScoped() bool { return false }

// GetSingularName is the name of one object.
func (s *storage) GetSingularName() string { return s.singular }

// Create answers a question.
func (s *storage) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	if reflect.TypeOf(obj) != reflect.TypeOf(s.empty()) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is no question of the kind %s", obj, s.kind.kind))
	}
	caller, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("no user found for the request"))
	}
	if s.answer == nil {
		return nil, apierrors.NewServiceUnavailable("this server answers no questions of the kind " + s.kind.kind)
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	may := s.rights(ctx, caller)
	end, ok := s.slots.Begin(caller, func() bool { return may(explain.AllBindings) })
	if !ok {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("too many %s are being answered: a user, and the service accounts of a namespace together, have %d at a time",
			s.plural, s.each), 1)
	}
	defer end()
	answered, err := s.answer(ctx, obj, caller, may)
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
func (s *storage) rights(ctx context.Context, caller user.Info) May {
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
