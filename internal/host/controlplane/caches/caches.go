// Package caches builds the caches that the loops of the control plane read from, and the managers that run them.
//
// In: the API server of this process.
//
// Out: managers.
//
// Owns: nothing.
//
// Never: starts a manager.
package caches

import (
	"context"
	"net/http"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/flagship-k8s/flagship/api"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/imports"
	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/storage"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

const (
	// stopLoopsTimeout bounds how long the loops take to end. They take a moment; on a machine without a processor to spare, three seconds were
	// too few.
	stopLoopsTimeout = 8 * time.Second
)

// kept makes of an object what the loops keep of it.
func kept(obj any) (any, error) {
	obj, err := cache.TransformStripManagedFields()(obj)
	storage.Compact(obj)
	return obj, err
}

// kinds register what the loops read and write.
func kinds() []func(*runtime.Scheme) error {
	return []func(*runtime.Scheme) error{
		corev1.AddToScheme, autoscalingv2.AddToScheme, discoveryv1.AddToScheme, rbacv1.AddToScheme, coordinationv1.AddToScheme,
		certificatesv1.AddToScheme, apiextensionsv1.AddToScheme, api.AddToScheme,
	}
}

// NewManager builds the cache that all loops read from and the manager that runs them while it holds the lock; nil for always.
func NewManager(server *apiserver.Server, lock *leader.Term) (ctrl.Manager, error) {
	// The API server has reduced their memory, which it shares.
	shared := cache.ByObject{Transform: cache.TransformStripManagedFields()}
	options := ctrl.Options{
		Cache: cache.Options{
			DefaultTransform: kept,
			NewInformer:      server.NewInformer,
			// Credentials of members, bootstrap tokens of agents and the Leases of agents are the only Secrets and Leases the loops read;
			// others stay out of memory.
			ByObject: map[client.Object]cache.ByObject{
				&workv1alpha1.Work{}: shared, &workv1alpha2.ResourceBinding{}: shared, &workv1alpha2.ClusterResourceBinding{}: shared,
				&corev1.Secret{}: {Namespaces: map[string]cache.Config{
					clusterv1alpha1.ClusterNamespace: {},
					metav1.NamespaceSystem:           {FieldSelector: fields.OneTermEqualSelector("type", string(corev1.SecretTypeBootstrapToken))},
				}},
				&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{clusterv1alpha1.ClusterNamespace: {}}},
				// Of Services and EndpointSlices the loops read here those that they make from exports.
				&corev1.Service{}:            {Label: labels.SelectorFromSet(imports.OnHub())},
				&discoveryv1.EndpointSlice{}: {Label: labels.SelectorFromSet(imports.OnHub())},
			},
		},
		Metrics: metricsserver.Options{BindAddress: "0"},
	}
	if lock == nil {
		options.NewClient = server.NewClient
	} else { // Requests are fenced.
		options.LeaderElection, options.LeaderElectionID, options.LeaderElectionResourceLockInterface = true, leader.Name, lock
		options.LeaderElectionNamespace = clusterv1alpha1.SystemNamespace // that of the events
		options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = new(leader.Duration), new(leader.RenewDeadline), new(leader.RetryPeriod)
	}
	return controlloop.NewManager(lock.Fence(server.LoopbackConfig()), options, stopLoopsTimeout, kinds()...)
}

// NewMemberManager builds the manager that runs the loops of members on the caches of another one. It writes while the term holds.
func NewMemberManager(server *apiserver.Server, of ctrl.Manager, held *leader.Term) (ctrl.Manager, error) {
	return controlloop.NewManager(held.Fence(server.LoopbackConfig()), ctrl.Options{
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return runningCache{of.GetCache()}, nil },
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return of.GetRESTMapper(), nil },
		Metrics:        metricsserver.Options{BindAddress: "0"},
	}, stopLoopsTimeout, kinds()...)
}

// runningCache is a cache that another manager runs.
type runningCache struct{ cache.Cache }

// Start implements cache.Cache.
func (runningCache) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
