package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// Fleet is the choice of clusters on the command line.
type Fleet struct {
	Hub       cli.HubAccess
	Clusters  []string
	all       bool
	Namespace string
	Timeout   time.Duration
}

// DefaultTimeout is how long a cluster may take for an answer.
const DefaultTimeout = 10 * time.Second

// Flags adds the flags that choose clusters.
func (f *Fleet) Flags(c *cobra.Command) {
	f.Hub.Flags(c)
	c.Flags().StringSliceVar(&f.Clusters, "clusters", nil, "the clusters, separated by commas (default: all of them)")
	f.Hub.CompleteFlag(c, "clusters")
	c.Flags().BoolVar(&f.all, "all-clusters", false, "every cluster of the control plane, which is the default")
	c.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "the namespace (default: that of the kubeconfig's context)")
	c.Flags().DurationVar(&f.Timeout, "request-timeout", DefaultTimeout, "how long each cluster may take for an answer, and to begin a stream")
}

// Member is one cluster of the choice.
type Member struct {
	Name   string
	Access *Access
	// Factory builds the clients of kubectl's commands.
	Factory cmdutil.Factory
}

// Members returns the chosen clusters, sorted by name. A user who may not list clusters can still name them.
func (f *Fleet) Members(ctx context.Context) ([]Member, error) {
	if f.all && len(f.Clusters) > 0 {
		return nil, cli.UsageErrorf("--clusters and --all-clusters exclude each other")
	}
	if f.Timeout <= 0 {
		return nil, cli.UsageErrorf("--request-timeout must be more than 0")
	}
	cli.LogTo(io.Discard) // client-go logs each error of discovery, and these commands print one line for each cluster that failed
	config, namespace, err := f.Hub.ConfigAndNamespace()
	if err != nil {
		return nil, err
	}
	if f.Namespace != "" {
		namespace = f.Namespace
	}
	listCtx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	names, err := f.names(listCtx, config)
	if err != nil {
		return nil, err
	}
	out := make([]Member, 0, len(names))
	for _, name := range names {
		a, err := NewAccess(throughProxy(ctx, config, name, f.Timeout), namespace)
		if err != nil {
			return nil, fmt.Errorf("preparing the client of cluster %s: %w", name, err)
		}
		out = append(out, Member{name, a, cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(a))}) // exec needs the defaults that MatchVersionFlags sets
	}
	return out, nil
}

func (f *Fleet) names(ctx context.Context, config *rest.Config) ([]string, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the control plane: %w", err)
	}
	list, err := client.Resource(clusterv1alpha1.GroupVersion.WithResource("clusters")).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err) && len(f.Clusters) > 0:
		return selectClusters(f.Clusters, f.Clusters)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w\nname the clusters with --clusters", err)
	case err != nil:
		return nil, fmt.Errorf("listing the clusters: %w", err)
	}
	var known []string
	for i := range list.Items {
		known = append(known, list.Items[i].Name)
	}
	return selectClusters(f.Clusters, known)
}

// selectClusters returns the names that are selected, all if none is, sorted and each once.
func selectClusters(wanted, known []string) ([]string, error) {
	if len(wanted) == 0 {
		wanted = known
	}
	wanted = slices.Compact(slices.Sorted(slices.Values(wanted)))
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, cli.UsageErrorf("there is no cluster %q; there are: %s", name, cli.OrNone(strings.Join(slices.Sorted(slices.Values(known)), ", ")))
		}
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("the control plane has no clusters\nadd one with 'flagship join'")
	}
	return wanted, nil
}

// throughProxy is a configuration that reaches a cluster through the control plane. Commands of kubectl take no context: the transport ends their requests with the given one, and at the deadline.
func throughProxy(ctx context.Context, hub *rest.Config, cluster string, timeout time.Duration) *rest.Config {
	config := cli.ThroughProxy(hub, cluster)
	config.QPS = -1 // the servers limit requests by user
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return deadline(ctx, next, timeout) })
	return config
}

// Access leads kubectl's code to one cluster.
type Access struct {
	Config    *rest.Config
	Namespace string
	// Mapper maps names of kinds as the cluster serves them.
	Mapper    meta.RESTMapper
	discovery discovery.CachedDiscoveryInterface
}

// NewAccess sends no request yet.
func NewAccess(config *rest.Config, namespace string) (*Access, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	a := &Access{Config: config, Namespace: namespace, discovery: memory.NewMemCacheClient(client)}
	a.Mapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(a.discovery), a.discovery, func(string) {})
	return a, nil
}

// ToRESTConfig returns a copy, since kubectl's commands set a group and version in it.
func (a *Access) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(a.Config), nil }

// ToDiscoveryClient returns the client whose answers are kept for the command.
func (a *Access) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return a.discovery, nil
}

// ToRESTMapper maps names of kinds as this cluster serves them.
func (a *Access) ToRESTMapper() (meta.RESTMapper, error) { return a.Mapper, nil }

// ToRawKubeConfigLoader returns the namespace; nothing reads the rest.
func (a *Access) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: a.Namespace}})
}

// Selection is which objects of a cluster are read.
type Selection struct {
	Labels, Fields string
	AllNamespaces  bool
}

// Flags adds the flags that select objects.
func (o *Selection) Flags(c *cobra.Command) {
	c.Flags().StringVarP(&o.Labels, "selector", "l", "", "a label selector, as for kubectl get")
	c.Flags().StringVar(&o.Fields, "field-selector", "", "a field selector, as for kubectl get")
	c.Flags().BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "in every namespace")
}

// Builder is kubectl's way from arguments to requests.
func (o *Selection) Builder(m Member) *resource.Builder {
	return m.Factory.NewBuilder().Unstructured().ContinueOnError().Latest().
		NamespaceParam(m.Access.Namespace).DefaultNamespace().AllNamespaces(o.AllNamespaces).
		LabelSelectorParam(o.Labels).FieldSelectorParam(o.Fields)
}
