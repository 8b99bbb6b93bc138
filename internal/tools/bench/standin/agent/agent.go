package agent

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	leaseSeconds = 40
	leaseRenewal = leaseSeconds / 4 * time.Second
)

var (
	clusters       = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")
	works          = workv1alpha1.SchemeGroupVersion.WithResource("works")
	customizations = schema.GroupVersionResource{Group: "config.karmada.io", Version: "v1alpha1", Resource: "resourceinterpretercustomizations"}
)

// Agent is a client with the requests of an agent.
type Agent struct {
	name    string
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

// New returns a client with the identity of the agent of a Cluster.
func New(hub *rest.Config, name string, uid types.UID) (*Agent, error) {
	config := rest.CopyConfig(hub)
	config.Impersonate = rest.ImpersonationConfig{UserName: clusterv1alpha1.AgentUser(name), Groups: clusterv1alpha1.AgentGroups(uid)}
	// A dialer of its own: otherwise all agents would share one connection.
	config.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	return &Agent{name: name, kube: kube, dynamic: dyn}, nil
}

// pages has a reflector list in pages before it watches, as an agent does.
type pages struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is read by client-go, which named it.
func (pages) IsWatchListSemanticsUnSupported() bool { return true }

// Run is the life of an agent until the context ends: lists in pages and watches with client-go's own backoff, and the renewal of its Lease.
func (a *Agent) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, w := range []struct {
		client dynamic.ResourceInterface
		fields string
	}{
		{a.dynamic.Resource(clusters), "metadata.name=" + a.name},
		{a.dynamic.Resource(works).Namespace(workv1alpha1.ExecutionNamespace(a.name)), ""},
		{a.dynamic.Resource(customizations), ""},
	} {
		source := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				if o.FieldSelector = w.fields; o.Limit > 0 {
					o.ResourceVersion, o.ResourceVersionMatch = "", ""
				}
				return w.client.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.FieldSelector = w.fields
				return w.client.Watch(ctx, o)
			},
		}
		reflector := cache.NewReflectorWithOptions(pages{source}, &unstructured.Unstructured{}, cache.NewStore(cache.MetaNamespaceKeyFunc), cache.ReflectorOptions{})
		running.Go(func() { reflector.RunWithContext(ctx) })
	}
	running.Go(func() {
		lease.NewController(clock.RealClock{}, a.kube, a.name, leaseSeconds, nil, leaseRenewal, a.name, clusterv1alpha1.ClusterNamespace, nil).Run(ctx)
	})
	running.Wait()
}
