package propagate

import (
	"k8s.io/client-go/util/workqueue"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/policies"
)

// Steps returns the loops of this package without a manager. The loop of policies adds templates to the queue given; so does the owner
// for each template that changes. The client needs the indexes of [Indexes].
func Steps(deps Deps, queue workqueue.TypedRateLimitingInterface[hubstore.Ref]) (controlloop.Steps[hubstore.Ref], controlloop.Steps[policies.Request]) {
	p := newPropagator(deps.Client, deps)
	in := &inbox{}
	in.open(queue)
	templates := controlloop.Steps[hubstore.Ref]{Reconciler: p, Watches: []controlloop.Watch[hubstore.Ref]{
		controlloop.On(onBinding[*workv1alpha2.ResourceBinding](p)),
		controlloop.On(onBinding[*workv1alpha2.ClusterResourceBinding](p)),
	}}
	return templates, policies.Steps(newPolicyLoop(p, in))
}
