package membership

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Access is a way to a cluster, as a kubeconfig file describes it.
type Access struct {
	// Config is a client configuration; its CA is loaded.
	Config *rest.Config
	// ProxyURL is the proxy that the file names for the cluster; empty for none.
	ProxyURL string
	// Namespace is that of the context.
	Namespace string
}

// LoadAccess reads the kubeconfig file at path and picks a context, the file's current one if none is named. Errors are
// one line and name the file.
func LoadAccess(path, context string) (Access, error) {
	config, err := clientcmd.LoadFromFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Access{}, fmt.Errorf("kubeconfig %s does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return Access{}, fmt.Errorf("kubeconfig %s cannot be read: permission denied", path)
	case err != nil:
		return Access{}, fmt.Errorf("%s is no kubeconfig: %s", path, oneLine(err))
	case len(config.Contexts) == 0:
		return Access{}, fmt.Errorf("%s is no kubeconfig: it has no contexts", path)
	}
	if context == "" {
		context = config.CurrentContext
	}
	chosen, ok := config.Contexts[context]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(config.Contexts)), ", ")
		if context == "" {
			return Access{}, fmt.Errorf("kubeconfig %s has no current context; it has: %s", path, known)
		}
		return Access{}, fmt.Errorf("kubeconfig %s has no context %q; it has: %s", path, context, known)
	}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*config, context, nil, nil).ClientConfig()
	if err != nil {
		return Access{}, fmt.Errorf("context %q of kubeconfig %s: %s", context, path, oneLine(err))
	}
	if cfg.ServerName != "" {
		return Access{}, fmt.Errorf("context %q of kubeconfig %s sets tls-server-name, which a Cluster cannot express", context, path)
	}
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return Access{}, fmt.Errorf("context %q of kubeconfig %s: %s", context, path, oneLine(err))
	}
	access := Access{Config: cfg, Namespace: cmp.Or(chosen.Namespace, metav1.NamespaceDefault)}
	if cluster := config.Clusters[chosen.Cluster]; cluster != nil {
		access.ProxyURL = cluster.ProxyURL
	}
	return access, nil
}

// oneLine keeps a message of several lines from breaking a log or a terminal.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
