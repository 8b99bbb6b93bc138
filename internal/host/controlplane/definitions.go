package controlplane

import (
	"context"
	"sync/atomic"

	"github.com/flagship-k8s/flagship/internal/features/crds"
)

// admissionLookups are what admission, which runs before the loops, reads from them.
type admissionLookups struct {
	carrier    atomic.Pointer[crds.Carrier]
	components atomic.Pointer[components]
}

// instances counts the objects of a kind by cluster.
func (w *admissionLookups) instances(ctx context.Context, group, kind string) (counts map[string]int, wanted bool, err error) {
	carrier := w.carrier.Load()
	if carrier == nil {
		return nil, false, errStarting
	}
	return carrier.Instances(ctx, group, kind)
}
