package settings

import (
	"context"
	"io"

	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Check has one period pass.
func Check(ctx context.Context, r *Reloader, out io.Writer) {
	r.check(log.IntoContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(out)))))
}
