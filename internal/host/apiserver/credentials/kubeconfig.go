package credentials

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

// Kubeconfig is the kubeconfig of an administrator: of the operator, if there is one, else of a user with all rights for good.
func (k *Keyring) Kubeconfig() ([]byte, error) {
	if k.options.Operator {
		return k.kubeconfig(operatorName, k.options.Name)
	}
	return k.kubeconfig(adminName, k.options.Name)
}

// WriteKubeconfig writes the kubeconfig of an administrator to a file readable by its owner only, in one step, and again
// whenever the client certificate in it is renewed.
func (k *Keyring) WriteKubeconfig(path string) error {
	data, err := k.Kubeconfig()
	if err != nil {
		return err
	}
	if err := atomicfile.Write(path, data, 0o600); err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kubeconfigs.Insert(path)
	return nil
}

// WriteBreakGlass writes the kubeconfig that RBAC does not bound, for the day when the rights of everybody else are lost.
func (k *Keyring) WriteBreakGlass() error {
	data, err := k.kubeconfig(adminName, k.options.Name+"-break-glass")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(k.dir.File(breakGlassFile), data, 0o600); err != nil {
		return fmt.Errorf("writing the break-glass kubeconfig: %w", err)
	}
	return nil
}

// kubeconfig leads to the server with the client certificate of this name. The cluster has one name in all of them, user and context
// have that of the kubeconfig, so that kubeconfigs can be merged.
func (k *Keyring) kubeconfig(client, name string) ([]byte, error) {
	at := slices.IndexFunc(k.leaves, func(l leaf) bool { return l.name == client })
	pair, _, err := k.dir.Leaf(client, k.authorities[k.leaves[at].issuer].Load(), k.leaves[at].profile)
	if err != nil {
		return nil, fmt.Errorf("loading the certificate %q: %w", client, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[k.options.Name] = &clientcmdapi.Cluster{Server: k.options.URL, CertificateAuthorityData: k.authority().PEM}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: k.options.Name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding kubeconfig: %w", err)
	}
	return data, nil
}

// Run replaces certificates before they end, until the context ends. The running server reads the serving certificate from
// its file again; kubeconfigs are written again.
func (k *Keyring) Run(ctx context.Context) {
	logger := log.FromContext(ctx).WithName("apiserver")
	for {
		renewed, next, err := k.renew()
		if err != nil {
			logger.Error(err, "Certificate renewal failed, trying again")
		}
		for _, name := range renewed {
			logger.Info("Renewed certificate", "name", name)
		}
		if len(renewed) > 0 {
			k.rewriteKubeconfigs(ctx)
		}
		timer := k.options.Clock.NewTimer(renewalPause(k.options.Clock, next))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (k *Keyring) rewriteKubeconfigs(ctx context.Context) {
	k.mu.Lock()
	paths := k.kubeconfigs.UnsortedList()
	k.mu.Unlock()
	for _, path := range paths {
		if err := k.WriteKubeconfig(path); err != nil {
			log.FromContext(ctx).Error(err, "Kubeconfig was not renewed", "path", path)
		}
	}
	if k.options.Operator {
		if err := k.WriteBreakGlass(); err != nil {
			log.FromContext(ctx).Error(err, "Kubeconfig was not renewed", "path", breakGlassFile)
		}
	}
}

// maxRenewalPause bounds the pause between renewals, so that a clock set forward takes effect.
const maxRenewalPause = 12 * time.Hour

// renewalPause is the pause before certificates due at next are renewed.
func renewalPause(clk clock.PassiveClock, next time.Time) time.Duration {
	return min(max(next.Sub(clk.Now()), time.Minute), maxRenewalPause)
}
