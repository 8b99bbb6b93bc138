package propagate

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// Selects returns whether a policy selects a template that no policy and no other kind owns. It needs the indexes that Setup adds.
func Selects(reader client.Reader, templates Templates) func(context.Context, hubstore.Ref, metav1.Object) (bool, error) {
	return func(ctx context.Context, ref hubstore.Ref, meta metav1.Object) (bool, error) {
		decision, err := hubclient.Policies{Reader: reader}.Choose(ctx, policy.SubjectOf(ref.GroupVersionKind, meta, templates.OtherVersions(ref.GroupVersionKind)))
		return decision.Winner != nil, err
	}
}
