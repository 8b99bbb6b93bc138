package migration

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
)

// ControlPlane is one end of a migration.
type ControlPlane struct {
	// Address is where its API server is.
	Address string
	objects dynamic.Interface
	kinds   discovery.DiscoveryInterface
}

// Connect makes the clients of a control plane. It sends no request.
func Connect(config *rest.Config) (*ControlPlane, error) {
	// The copy of a large control plane is one burst of writes; the API server's own flow control limits it.
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{} // all kinds are listed, the deprecated ones too
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", config.Host, err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the discovery client of %s: %w", config.Host, err)
	}
	return &ControlPlane{Address: config.Host, objects: objects, kinds: kinds}, nil
}

// resource is a kind as a control plane serves it.
type resource struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
}

// resources are all kinds that can be listed and created, in their preferred versions.
func (c *ControlPlane) resources(ctx context.Context) ([]resource, error) {
	lists, err := discovery.ServerPreferredResourcesWithContext(ctx, discovery.ToDiscoveryInterfaceWithContext(c.kinds))
	if err != nil {
		return nil, fmt.Errorf("listing the kinds of %s: %w", c.Address, err)
	}
	var all []resource
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "create", "delete"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("reading the kinds of %s: %w", c.Address, err)
		}
		for _, r := range list.APIResources {
			all = append(all, resource{gv.WithResource(r.Name), r.Kind, r.Namespaced})
		}
	}
	return all, nil
}

// each calls visit with every object of a resource in a namespace, or in all of them.
func (c *ControlPlane) each(ctx context.Context, gvr schema.GroupVersionResource, namespace string, visit func(*unstructured.Unstructured) error) error {
	lister := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.objects.Resource(gvr).Namespace(namespace).List(ctx, o)
	})
	err := lister.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error { return visit(item.(*unstructured.Unstructured)) })
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil // the definition was deleted, or the kind is only answered
	}
	if err != nil {
		return fmt.Errorf("listing %s of %s: %w", gvr.GroupResource(), c.Address, err)
	}
	return nil
}
