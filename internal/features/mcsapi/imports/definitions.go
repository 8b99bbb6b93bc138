package imports

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/api/crds"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// definer brings the definitions of exports and imports to every cluster: users make exports there. One that a cluster has
// from elsewhere is taken over if it is the same, and else left as it is, as with any definition.
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

// Reconcile brings the definitions to the cluster that the request names.
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
		failures = append(failures, d.bring(ctx, types.NamespacedName{Namespace: workv1alpha1.ExecutionNamespace(cluster.Name), Name: name}, raw))
	}
	err = errors.Join(failures...)
	if errors.Is(err, endpointslices.ErrNoExecutionNamespace) {
		return reconcile.Result{RequeueAfter: endpointslices.RetryDelay}, nil
	}
	return reconcile.Result{}, err
}

// bring writes one Work, unless a policy takes the definition there.
func (d *definer) bring(ctx context.Context, key types.NamespacedName, raw []byte) error {
	existing := &workv1alpha1.Work{}
	switch err := d.client.Get(ctx, key, existing); {
	case apierrors.IsNotFound(err):
		existing = nil
	case err != nil:
		return fmt.Errorf("reading Work %s: %w", key, err)
	case exportwork.Bound(existing):
		return nil
	}
	desired := endpointslices.WorkFor(existing, key.Namespace, key.Name)
	desired.Labels = labels.Merge(desired.Labels, map[string]string{multiclusterv1beta1.ExportRoleLabel: multiclusterv1beta1.RoleDefinition})
	endpointslices.AddExecutionFinalizer(desired)
	endpointslices.SetManifest(desired, raw, false)
	return endpointslices.Write(ctx, d.client, existing, desired)
}
