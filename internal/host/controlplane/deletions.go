package controlplane

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/features/agents"
	"github.com/flagship-k8s/flagship/internal/features/namespaces"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate"
	"github.com/flagship-k8s/flagship/internal/pipeline/render"
)

var errStarting = errors.New("the control plane is starting")

// wants returns whether a binding that is deleted would be created again.
func (h *components) wants(ctx context.Context, binding workv1alpha2.Binding) (bool, error) {
	return propagate.Wants(h.mgr.GetClient(), h.templates, render.HasWorks(h.mgr.GetClient()))(ctx, binding)
}

// keeps returns whether a Work that is deleted would be created again. If that is not known yet, again is the pause before
// the next call.
func (h *components) keeps(ctx context.Context, work *workv1alpha1.Work) (keeps bool, again time.Duration, err error) {
	if carries, err := namespaces.Carries(ctx, h.templates, work); err != nil || carries {
		return carries, 0, err
	}
	keeper := render.Keeper{Reader: h.mgr.GetClient(), Templates: h.templates, Wanted: h.wants, Clock: h.options.Clock}
	return keeper.Keeps(ctx, work)
}

// cluster reads a Cluster from memory for admission, which is there before the loops are.
func (w *admissionLookups) cluster(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error) {
	h := w.components.Load()
	if h == nil {
		return nil, errStarting
	}
	cluster := &clusterv1alpha1.Cluster{}
	if err := h.mgr.GetClient().Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return cluster, nil
}

// tokenCluster returns the name of the Cluster that the user of a bootstrap token may register.
func (w *admissionLookups) tokenCluster(ctx context.Context, user string) (string, error) {
	h := w.components.Load()
	if h == nil {
		return "", errStarting
	}
	return agents.TokenCluster(ctx, h.mgr.GetClient(), user)
}

// keeps is keeps of the components.
func (w *admissionLookups) keeps(ctx context.Context, work *workv1alpha1.Work) (bool, error) {
	h := w.components.Load()
	if h == nil {
		return false, errStarting
	}
	keeps, _, err := h.keeps(ctx, work)
	return keeps, err
}
