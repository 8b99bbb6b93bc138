package replicasets

import (
	"context"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/apps"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Derive returns a getter that differs in the options of ReplicaSets: their storage includes those of Deployments. plain makes
// storage without a watch cache.
func Derive(getter generic.RESTOptionsGetter, plain generic.StorageDecorator) generic.RESTOptionsGetter {
	return &derivingGetter{RESTOptionsGetter: getter, plain: plain, deployments: &collection{}}
}

// collection is the storage of one resource.
type collection struct {
	// cached is that of the API server, plain one without a watch cache.
	cached, plain storage.Interface
	prefix        string
}

// key is the key of an object, or of a namespace if the name is empty, or of all objects if both are.
func (c *collection) key(namespace, name string) string {
	key := c.prefix + "/"
	if namespace != "" {
		key += namespace + "/"
	}
	return key + name
}

type derivingGetter struct {
	generic.RESTOptionsGetter
	plain generic.StorageDecorator
	// deployments is complete when the API server is built.
	deployments *collection
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g *derivingGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	switch resource {
	case apps.Resource("deployments"):
		options.Decorator = g.both(options.Decorator, func(c collection) storage.Interface {
			*g.deployments = c
			return c.cached
		})
	case apps.Resource("replicasets"):
		options.Decorator = g.both(options.Decorator, func(c collection) storage.Interface {
			return &Storage{Interface: c.cached, stored: c, deployments: g.deployments}
		})
	}
	return options, err
}

// both makes both storages of a resource.
func (g *derivingGetter) both(cached generic.StorageDecorator, use func(collection) storage.Interface) generic.StorageDecorator {
	return func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		made, destroy, err := cached(config, prefix, key, newFunc, newListFunc, attributes, triggers, indexers)
		if err != nil {
			return nil, nil, err
		}
		plain, destroyPlain, err := g.plain(config, prefix, key, newFunc, newListFunc, attributes, triggers, indexers)
		if err != nil {
			destroy()
			return nil, nil, err
		}
		return use(collection{made, plain, prefix}), func() {
			destroy()
			destroyPlain()
		}, nil
	}
}

// Storage adds the derived ReplicaSets to the stored ones.
type Storage struct {
	// Interface is the storage in etcd.
	storage.Interface
	stored      collection
	deployments *collection
}

// split returns the namespace and the name in a key. Both are empty for the key of all objects, the name for that of a namespace.
func (s *Storage) split(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(strings.Trim(strings.TrimPrefix(key, s.stored.prefix), "/"), "/")
	return namespace, name
}

// find returns the derived ReplicaSet of a name, nil if there is none.
func (s *Storage) find(ctx context.Context, key, resourceVersion string) (*apps.ReplicaSet, error) {
	namespace, name := s.split(key)
	end := strings.LastIndexByte(name, '-')
	if end <= 0 {
		return nil, nil
	}
	var d apps.Deployment
	err := s.deployments.cached.Get(ctx, s.deployments.key(namespace, name[:end]), storage.GetOptions{ResourceVersion: resourceVersion}, &d)
	if storage.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rs, err := derive(&d)
	if err != nil || rs == nil || rs.Name != name {
		return nil, err
	}
	return rs, nil
}

// Get implements storage.Interface.
func (s *Storage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	strict := opts
	strict.IgnoreNotFound = false
	err := s.Interface.Get(ctx, key, strict, out)
	if !storage.IsNotFound(err) {
		return err
	}
	rs, failure := s.find(ctx, key, opts.ResourceVersion)
	if failure != nil {
		return failure
	}
	if rs != nil {
		*out.(*apps.ReplicaSet) = *rs
		return nil
	}
	if opts.IgnoreNotFound {
		return runtime.SetZeroValue(out)
	}
	return err
}

// GetList implements storage.Interface. A limit bounds the stored ReplicaSets: the derived ones come with the first page, as a server
// may return more than a client asked for in one.
func (s *Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	if err := s.Interface.GetList(ctx, key, opts, out); err != nil {
		return err
	}
	if opts.Predicate.Continue != "" || storedOnly(ctx, opts.Predicate) {
		return nil
	}
	list := out.(*apps.ReplicaSetList)
	namespace, name := s.split(key)
	if name != "" {
		rs, err := s.find(ctx, key, opts.ResourceVersion)
		if err != nil || rs == nil || len(list.Items) > 0 {
			return err
		}
		matches, err := opts.Predicate.Matches(rs)
		if matches {
			list.Items = append(list.Items, *rs)
		}
		return err
	}
	var found apps.DeploymentList
	if err := s.deployments.cached.GetList(ctx, s.deployments.key(namespace, ""), storage.ListOptions{
		ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch, Predicate: storage.Everything, Recursive: true,
	}, &found); err != nil {
		return err
	}
	list.Items = slices.Grow(list.Items, len(found.Items))
	for i := range found.Items {
		rs, err := derive(&found.Items[i])
		if err != nil {
			return err
		}
		if rs == nil {
			continue
		}
		matches, err := opts.Predicate.Matches(rs)
		if err != nil {
			return err
		}
		if matches {
			list.Items = append(list.Items, *rs)
		}
	}
	// Who watches from here receives what was read later in one list again, and misses nothing of the other.
	list.ResourceVersion = earlier(list.ResourceVersion, found.ResourceVersion)
	return nil
}

// Create implements storage.Interface.
func (s *Storage) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	rs, err := s.find(ctx, key, "")
	if err != nil {
		return err
	}
	if rs != nil {
		return storage.NewKeyExistsError(key, 0)
	}
	return s.Interface.Create(ctx, key, object, out, ttl)
}

// Delete implements storage.Interface.
func (s *Storage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	if err := s.refuse(ctx, key); err != nil {
		return err
	}
	return s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
}

// GuaranteedUpdate implements storage.Interface.
func (s *Storage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	if err := s.refuse(ctx, key); err != nil {
		return err
	}
	return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, update, cached)
}

// refuse returns an error for the key of a derived ReplicaSet.
func (s *Storage) refuse(ctx context.Context, key string) error {
	rs, err := s.find(ctx, key, "")
	if err != nil || rs == nil {
		return err
	}
	if err := s.Interface.Get(ctx, key, storage.GetOptions{}, &apps.ReplicaSet{}); !storage.IsNotFound(err) {
		return err
	}
	return apierrors.NewMethodNotSupported(apps.Resource("replicasets"),
		"a write to a ReplicaSet that stands for those of a Deployment in the members (change the Deployment instead)")
}

// ReadinessCheck implements storage.Interface.
func (s *Storage) ReadinessCheck() error {
	if err := s.deployments.cached.ReadinessCheck(); err != nil {
		return err
	}
	return s.Interface.ReadinessCheck()
}

// Watch implements storage.Interface.
func (s *Storage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if storedOnly(ctx, opts.Predicate) {
		return s.Interface.Watch(ctx, key, opts)
	}
	return s.watchBoth(ctx, key, opts)
}

// storedOnly returns whether a request is about stored ReplicaSets only: its selector excludes the derived ones, or it deletes all.
func storedOnly(ctx context.Context, predicate storage.SelectionPredicate) bool {
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Verb == "deletecollection" {
		return true
	}
	if predicate.Label == nil {
		return false
	}
	requirements, selectable := predicate.Label.Requirements()
	return !selectable || slices.ContainsFunc(requirements, func(r labels.Requirement) bool {
		return r.Key() == workv1alpha1.DerivedLabel && r.Operator() == selection.DoesNotExist
	})
}

// WithoutDerived selects the stored ReplicaSets.
func WithoutDerived(options *metav1.ListOptions) {
	options.LabelSelector = "!" + workv1alpha1.DerivedLabel
}

// earlier is the lower of two resourceVersions.
func earlier(a, b string) string {
	x, err := strconv.ParseUint(a, 10, 64)
	y, failure := strconv.ParseUint(b, 10, 64)
	if err != nil || failure != nil || x <= y {
		return a
	}
	return b
}
