package imports

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/api/crds"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// definer sends the definitions of exports and imports to every cluster: users create exports there. One that a cluster has from
// elsewhere is adopted if it is the same, and otherwise left as it is, as with any definition.
type definer struct {
	client client.Client
	// definitions are the manifests, by the name of their Work.
	definitions map[string][]byte
}

func newDefiner(c client.Client) (*definer, error) {
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	d := &definer{client: c, definitions: map[string][]byte{}}
	for _, definition := range all {
		if definition.Spec.Group != multiclusterv1beta1.GroupName {
			continue
		}
		definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
		raw, err := manifestOf(definition)
		if err != nil {
			return nil, fmt.Errorf("encoding definition %s: %w", definition.Name, err)
		}
		d.definitions[exportwork.DefinitionName(definition.Name)] = raw
	}
	return d, nil
}

func setupDefinitions(mgr ctrl.Manager, c client.Client) error {
	d, err := newDefiner(c)
	if err != nil {
		return err
	}
	changed := predicate.TypedFuncs[*workv1alpha1.Work]{
		CreateFunc: func(ctrlevent.TypedCreateEvent[*workv1alpha1.Work]) bool { return false },
		UpdateFunc: func(e ctrlevent.TypedUpdateEvent[*workv1alpha1.Work]) bool {
			return endpointslices.Changed(e.ObjectOld, e.ObjectNew)
		},
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("service-definitions").
		For(&clusterv1alpha1.Cluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Kind(mgr.GetCache(), &workv1alpha1.Work{}, handler.TypedEnqueueRequestsFromMapFunc(clusterOfDefinition), changed)).
		WatchesRawSource(source.Kind(mgr.GetCache(), &corev1.Namespace{}, handler.TypedEnqueueRequestsFromMapFunc(clusterOfNamespace), endpointslices.NewExecutionNamespaces())).
		WithOptions(controller.Options{
			RateLimiter:        backoff.Limiter[reconcile.Request](),
			SkipNameValidation: new(true), // Several control planes may run in one process.
		}).
		Complete(controlloop.Track(mgr, d))
	if err != nil {
		return fmt.Errorf("adding the loop service-definitions: %w", err)
	}
	return nil
}

// clusterOfDefinition maps the Work of a definition to its cluster.
func clusterOfDefinition(_ context.Context, work *workv1alpha1.Work) []reconcile.Request {
	if exportwork.RoleOf(work) != multiclusterv1beta1.RoleDefinition {
		return nil
	}
	return clusterOf(work.Namespace)
}

func clusterOfNamespace(_ context.Context, namespace *corev1.Namespace) []reconcile.Request {
	return clusterOf(namespace.Name)
}

func clusterOf(namespace string) []reconcile.Request {
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(namespace)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: cluster}}}
}

// Reconcile writes the Works of the cluster that the request names.
func (d *definer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := d.client.Get(ctx, request.NamespacedName, cluster, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) || err == nil && cluster.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading Cluster %s: %w", request.Name, err)
	}
	var failures []error
	for name, raw := range d.definitions {
		failures = append(failures, d.write(ctx, endpointslices.WorkKey(cluster.Name, name), raw))
	}
	return reconcile.Result{}, errors.Join(failures...)
}

// write writes one Work, unless it is that of a binding: a policy propagates the definition.
func (d *definer) write(ctx context.Context, key types.NamespacedName, raw []byte) error {
	existing, err := hubclient.GetWork(ctx, d.client, key)
	if err != nil || existing != nil && workv1alpha2.IsBound(existing) {
		return err
	}
	desired := workv1alpha1.NewWork(key, existing)
	desired.AddLabels(map[string]string{multiclusterv1beta1.ExportRoleLabel: multiclusterv1beta1.RoleDefinition})
	endpointslices.SetManifest(desired, raw, false)
	return endpointslices.Write(ctx, d.client, existing, desired)
}
