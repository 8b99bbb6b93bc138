package storage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/storage"
)

// TestRetry: a step of a start is tried again while storage does not answer, for a while, and not after a refusal.
func TestRetry(t *testing.T) {
	silent := fmt.Errorf("installing works: %w", apierrors.NewInternalError(errors.New("etcdserver: request timed out")))
	refused := fmt.Errorf("installing works: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "works"}, "a", nil))
	for name, tc := range map[string]struct {
		failures []error // of the first runs
		want     error
		runs     int
	}{
		"AtOnce":         {nil, nil, 1},
		"StorageIsBack":  {[]error{silent, silent}, nil, 3},
		"Refused":        {[]error{refused}, refused, 1},
		"RefusedLater":   {[]error{silent, refused}, refused, 2},
		"NotByTheServer": {[]error{context.Canceled}, context.Canceled, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				err := storage.Retry(t.Context(), nil, func(context.Context, *rest.Config) error {
					if runs++; runs <= len(tc.failures) {
						return tc.failures[runs-1]
					}
					return nil
				})
				if !errors.Is(err, tc.want) || runs != tc.runs {
					t.Errorf("%d runs and %v, want %d and %v", runs, err, tc.runs, tc.want)
				}
			})
		})
	}
	t.Run("NeverBack", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			err := storage.Retry(t.Context(), nil, func(context.Context, *rest.Config) error { runs++; return silent })
			if !errors.Is(err, silent) || runs < 100 {
				t.Errorf("%d runs and %v", runs, err)
			}
		})
	})
}
