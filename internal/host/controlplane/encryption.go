package controlplane

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/encryption"
)

// RewriteEncrypted has a control plane store anew all objects that are stored in another way than its encryption
// configuration requires. It reports what it does line by line.
func RewriteEncrypted(ctx context.Context, server *rest.Config, report func(string)) error {
	rewriter, err := encryption.NewRewriter(server)
	if err != nil {
		return err
	}
	return rewriter.Rewrite(ctx, func(p encryption.Progress) { report(p.String()) })
}

func (h *components) setupEncryption(mgr ctrl.Manager, server *apiserver.Server) error {
	failures := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "flagship_encryption_rewrite_failures_total",
		Help: "Attempts to store all objects as the encryption configuration requires that failed.",
	}, func() float64 { return float64(server.RewriteFailures()) })
	if err := h.options.metrics.Register(failures); err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(server.RewriteStored))
}
