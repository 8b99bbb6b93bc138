package propagate

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// Selects says whether a policy takes a template as soon as no other kind has it. It needs the indexes that Setup adds.
func Selects(reader client.Reader, templates Templates) func(context.Context, hubstore.Ref, metav1.Object) (bool, error) {
	policies := policySource{reader}
	return func(ctx context.Context, ref hubstore.Ref, meta metav1.Object) (bool, error) {
		candidates, err := policies.selecting(ctx, ref)
		if err != nil {
			return false, err
		}
		subject := subjectOf(templates, ref, meta)
		return policy.Choose(subject, candidates).Winner != nil, nil
	}
}
