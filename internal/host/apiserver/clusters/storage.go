package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
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
	return r.get(ctx, name, "")
}

// cached reads one cluster from the watch cache.
func (r clusterREST) cached(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error) {
	return r.get(ctx, name, "0")
}

func (r clusterREST) get(ctx context.Context, name, resourceVersion string) (*clusterv1alpha1.Cluster, error) {
	object, err := r.Get(ctx, name, &metav1.GetOptions{ResourceVersion: resourceVersion})
	if err != nil {
		return nil, err
	}
	return object.(*clusterv1alpha1.Cluster), nil
}

// names are those of all clusters, sorted.
func (r clusterREST) names(ctx context.Context) ([]string, error) {
	object, err := r.List(ctx, &metainternalversion.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range object.(*clusterv1alpha1.ClusterList).Items {
		names = append(names, object.(*clusterv1alpha1.ClusterList).Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}

func newStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter, secret SecretReader, rules dial.Rules) (clusterREST, native.TableStatusREST, error) {
	spec := specStrategy{scheme, names.SimpleNameGenerator, rules}
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
	unique := &uniqueness{store: store, secret: secret}
	store.BeginCreate, store.BeginUpdate = unique.beginCreate, unique.beginUpdate
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return clusterREST{}, native.TableStatusREST{}, fmt.Errorf("building storage of clusters: %w", err)
	}
	return clusterREST{store}, native.TableStatusREST{StatusREST: native.NewStatusREST(store, statusStrategy{spec})}, nil
}

// uniqueness refuses a second Cluster for the same member, and a Cluster that names a credential of another one. Two such writes
// at the very same moment may both pass; joining and every use of a credential check again.
type uniqueness struct {
	store  *registry.Store
	secret SecretReader
}

func (c *uniqueness) beginCreate(ctx context.Context, object runtime.Object, _ *metav1.CreateOptions) (registry.FinishFunc, error) {
	return c.begin(ctx, object.(*clusterv1alpha1.Cluster), &clusterv1alpha1.Cluster{})
}

func (c *uniqueness) beginUpdate(ctx context.Context, object, old runtime.Object, _ *metav1.UpdateOptions) (registry.FinishFunc, error) {
	return c.begin(ctx, object.(*clusterv1alpha1.Cluster), old.(*clusterv1alpha1.Cluster))
}

func (c *uniqueness) begin(ctx context.Context, cluster, old *clusterv1alpha1.Cluster) (registry.FinishFunc, error) {
	if cluster.Spec.ID != old.Spec.ID {
		if err := c.checkID(ctx, cluster); err != nil {
			return nil, err
		}
	}
	var errs field.ErrorList
	for _, ref := range []struct {
		field    string
		now, old *clusterv1alpha1.LocalSecretReference
	}{
		{"secretRef", cluster.Spec.SecretRef, old.Spec.SecretRef},
		{"impersonatorSecretRef", cluster.Spec.ImpersonatorSecretRef, old.Spec.ImpersonatorSecretRef},
	} {
		if ref.now == nil || ref.old != nil && *ref.now == *ref.old {
			continue
		}
		err := c.checkSecret(ctx, cluster, ref.now, field.NewPath("spec", ref.field))
		if detail, ok := errors.AsType[*field.Error](err); ok {
			errs = append(errs, detail)
		} else if err != nil {
			return nil, err
		}
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster").GroupKind(), cluster.Name, errs)
	}
	return doNothing, nil
}

// checkSecret refuses a Secret that another Cluster owns. One that does not exist yet, or that has no owner yet, is accepted:
// joining writes Secrets and Cluster in either order, and the Secret is not used before this Cluster owns it.
func (c *uniqueness) checkSecret(ctx context.Context, cluster *clusterv1alpha1.Cluster, ref *clusterv1alpha1.LocalSecretReference, path *field.Path) error {
	if c.secret == nil || clusterv1alpha1.CheckCredentialRef(cluster, ref) != nil {
		return nil // Validation has refused it, or it was there before and is refused when used.
	}
	secret, err := c.secret(ctx, ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading the Secret that %s names: %w", path, err))
	}
	if clusterv1alpha1.OwnsCredential(cluster, secret) {
		return nil
	}
	if _, owned := clusterv1alpha1.OwnedByOtherCluster(cluster, secret); owned {
		return field.Forbidden(path, fmt.Sprintf("the Secret %s belongs to another Cluster", ref.Name))
	}
	return nil
}

func (c *uniqueness) checkID(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	if cluster.Spec.ID == "" {
		return nil
	}
	object, err := c.store.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing clusters for their ids: %w", err)
	}
	list := object.(*clusterv1alpha1.ClusterList)
	for j := range list.Items {
		if other := &list.Items[j]; other.Name != cluster.Name && other.Spec.ID == cluster.Spec.ID {
			return apierrors.NewConflict(clusterv1alpha1.Resource(clusterv1alpha1.ResourcePluralCluster), cluster.Name,
				fmt.Errorf("the member with id %s is registered as cluster %q already", cluster.Spec.ID, other.Name))
		}
	}
	return nil
}

func doNothing(context.Context, bool) {}
