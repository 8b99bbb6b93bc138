package clusters

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/apiserver/native"
)

// clusterREST serves clusters.
type clusterREST struct{ *registry.Store }

var (
	_ rest.CategoriesProvider   = clusterREST{}
	_ rest.SingularNameProvider = clusterREST{}
)

// Categories make clusters part of "kubectl get karmada-io".
func (clusterREST) Categories() []string { return []string{"karmada-io"} }

// cluster reads one cluster from storage.
func (r clusterREST) cluster(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error) {
	object, err := r.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return object.(*clusterv1alpha1.Cluster), nil
}

func newStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (clusterREST, native.TableStatusREST, error) {
	spec := specStrategy{scheme, names.SimpleNameGenerator}
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return &clusterv1alpha1.Cluster{} },
		NewListFunc:               func() runtime.Object { return &clusterv1alpha1.ClusterList{} },
		DefaultQualifiedResource:  clusterv1alpha1.Resource(clusterv1alpha1.ResourcePluralCluster),
		SingularQualifiedResource: clusterv1alpha1.Resource("cluster"),
		CreateStrategy:            spec,
		UpdateStrategy:            spec,
		DeleteStrategy:            spec,
		ResetFieldsStrategy:       spec,
		TableConvertor:            table{},
	}
	identities := &identities{store: store}
	store.BeginCreate, store.BeginUpdate = identities.beginCreate, identities.beginUpdate
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return clusterREST{}, native.TableStatusREST{}, fmt.Errorf("building storage of clusters: %w", err)
	}
	return clusterREST{store}, native.TableStatusREST{StatusREST: native.NewStatusREST(store, statusStrategy{spec})}, nil
}

// identities refuses a second Cluster for the same member. Two such writes at the very same moment may
// both pass; joining checks again.
type identities struct{ store *registry.Store }

func (i *identities) beginCreate(ctx context.Context, object runtime.Object, _ *metav1.CreateOptions) (registry.FinishFunc, error) {
	return i.check(ctx, object.(*clusterv1alpha1.Cluster))
}

func (i *identities) beginUpdate(ctx context.Context, object, old runtime.Object, _ *metav1.UpdateOptions) (registry.FinishFunc, error) {
	if object.(*clusterv1alpha1.Cluster).Spec.ID == old.(*clusterv1alpha1.Cluster).Spec.ID {
		return doNothing, nil
	}
	return i.check(ctx, object.(*clusterv1alpha1.Cluster))
}

func (i *identities) check(ctx context.Context, cluster *clusterv1alpha1.Cluster) (registry.FinishFunc, error) {
	if cluster.Spec.ID == "" {
		return doNothing, nil
	}
	object, err := i.store.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing clusters for their ids: %w", err)
	}
	list := object.(*clusterv1alpha1.ClusterList)
	for j := range list.Items {
		if other := &list.Items[j]; other.Name != cluster.Name && other.Spec.ID == cluster.Spec.ID {
			return nil, apierrors.NewConflict(clusterv1alpha1.Resource(clusterv1alpha1.ResourcePluralCluster), cluster.Name,
				fmt.Errorf("the member with id %s is registered as cluster %q already", cluster.Spec.ID, other.Name))
		}
	}
	return doNothing, nil
}

func doNothing(context.Context, bool) {}
