package controlplane

import (
	"context"
	"time"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/features/namespaces"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate"
	"github.com/flagship-k8s/flagship/internal/pipeline/render"
)

// recreates returns whether a binding that is deleted would be created again.
func (h *components) recreates(ctx context.Context, binding workv1alpha2.Binding) (bool, error) {
	return propagate.Recreates(h.mgr.GetClient(), h.templates, render.HasWorks(h.mgr.GetClient()))(ctx, binding)
}

// keeps returns whether a Work that is deleted would be created again. If that is not known yet, again is the pause before
// the next call.
func (h *components) keeps(ctx context.Context, work *workv1alpha1.Work) (keeps bool, again time.Duration, err error) {
	if carries, err := namespaces.Carries(ctx, h.templates, work); err != nil || carries {
		return carries, 0, err
	}
	keeper := render.Keeper{Reader: h.mgr.GetClient(), Templates: h.templates, Wanted: h.recreates, Clock: h.options.Clock}
	return keeper.Keeps(ctx, work)
}
