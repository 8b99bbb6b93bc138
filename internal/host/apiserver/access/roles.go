package access

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
)

// errRolesNotRead is returned for a request that ended before the roles were read.
var errRolesNotRead = errors.New("the server is starting, and has not read roles and their bindings yet: try again")

// withRoles is an authorizer that decides when roles and bindings are in its caches.
type withRoles struct {
	authorizer.Authorizer
	caches []toolscache.InformerSynced
	read   atomic.Bool // so that the caches are not checked for each request
}

// WithRoles returns the authorizer, but for the time at the start of a server in which it has not read all roles and their bindings: it would
// forbid what they allow, and clients do not repeat what is forbidden. A request waits then. Those of system:masters do not, since the
// caches are filled by requests of theirs.
func WithRoles(a authorizer.Authorizer, shared informers.SharedInformerFactory) authorizer.Authorizer {
	rbac := shared.Rbac().V1()
	return &withRoles{Authorizer: a, caches: []toolscache.InformerSynced{
		rbac.Roles().Informer().HasSynced, rbac.ClusterRoles().Informer().HasSynced,
		rbac.RoleBindings().Informer().HasSynced, rbac.ClusterRoleBindings().Informer().HasSynced,
	}}
}

// Authorize implements authorizer.Authorizer.
func (w *withRoles) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if err := w.wait(ctx, a.GetUser()); err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	return w.Authorizer.Authorize(ctx, a)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (w *withRoles) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if err := w.wait(ctx, a.GetUser()); err != nil {
		return authorizer.ConditionsAwareDecisionFromParts(authorizer.DecisionNoOpinion, "", err)
	}
	return w.Authorizer.ConditionsAwareAuthorize(ctx, a)
}

func (w *withRoles) wait(ctx context.Context, author user.Info) error {
	if w.read.Load() || author != nil && slices.Contains(author.GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), w.caches...) {
		return errRolesNotRead
	}
	w.read.Store(true)
	return nil
}
