package credentials

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust"
)

// pollPeriod is how often the files of certificates are read for changes.
const pollPeriod = 10 * time.Second

// Poll lets the API server read the files of its certificates once in a period. Otherwise it watches each of them, and those of
// authorities twice, with an inotify instance each: of these a user has 128 by default, for all programs together.
func Poll(serving *server.SecureServingInfo, trust *clusterauthenticationtrust.ClusterAuthenticationInfo) {
	if files, ok := serving.Cert.(dynamiccertificates.ControllerRunner); ok {
		serving.Cert = polledCertificate{serving.Cert, polled{files}}
	}
	if files, ok := serving.ClientCA.(dynamiccertificates.ControllerRunner); ok {
		serving.ClientCA = polledAuthorities{serving.ClientCA, polled{files}}
	}
	// These are among the authorities that the serving part reads.
	trust.ClientCA, trust.RequestHeaderCA = unwatched(trust.ClientCA), unwatched(trust.RequestHeaderCA)
}

// polled reads files once in a period, in place of a watch.
type polled struct {
	files dynamiccertificates.ControllerRunner
}

// RunOnce implements dynamiccertificates.ControllerRunner.
func (p polled) RunOnce(ctx context.Context) error { return p.files.RunOnce(ctx) }

// Run implements dynamiccertificates.ControllerRunner.
func (p polled) Run(ctx context.Context, _ int) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := p.files.RunOnce(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Certificates cannot be read; those that were read last stay in use")
		}
	}, pollPeriod)
}

type polledCertificate struct {
	dynamiccertificates.CertKeyContentProvider
	polled
}

type polledAuthorities struct {
	dynamiccertificates.CAContentProvider
	polled
}

// unwatched hides that a provider can be run.
func unwatched(provider dynamiccertificates.CAContentProvider) dynamiccertificates.CAContentProvider {
	if provider == nil {
		return nil
	}
	return struct {
		dynamiccertificates.CAContentProvider
	}{provider}
}
