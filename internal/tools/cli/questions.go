package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// Resolve finds the resource that a user means, with its short names, as kubectl does.
func Resolve(cfg *rest.Config, kind string) (schema.GroupVersionResource, error) {
	return ResolveIn(cfg, "", kind)
}

// ResolveIn is Resolve for an object in a member: a resource that the control plane does not serve is one that the member serves.
func ResolveIn(hub *rest.Config, member, kind string) (schema.GroupVersionResource, error) {
	found, err := resourceFor(hub, kind)
	if meta.IsNoMatchError(err) && member != "" {
		found, err = resourceFor(ThroughProxy(hub, member), kind)
	}
	switch {
	case meta.IsNoMatchError(err) && member != "":
		return found, fmt.Errorf("neither the control plane nor cluster %s serves %s\nlist the groups of the cluster: kubectl get --raw %s/apis",
			member, kind, clusterv1alpha1.ProxyPath(member))
	case meta.IsNoMatchError(err):
		return found, fmt.Errorf("the control plane serves no %s\nlist what it serves: kubectl api-resources", kind)
	case err != nil:
		return found, fmt.Errorf("finding %s among the served resources: %w", kind, err)
	}
	return found, nil
}

func resourceFor(cfg *rest.Config, kind string) (schema.GroupVersionResource, error) {
	mapper, err := mapperOf(cfg)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	versioned, unversioned := schema.ParseResourceArg(kind)
	if versioned != nil {
		if found, err := mapper.ResourceFor(*versioned); err == nil {
			return found, nil
		}
	}
	return mapper.ResourceFor(unversioned.WithVersion(""))
}

// ThroughProxy is a configuration that reaches a member through the control plane, as the same user.
func ThroughProxy(hub *rest.Config, cluster string) *rest.Config {
	config := rest.CopyConfig(hub)
	config.Host = strings.TrimSuffix(hub.Host, "/") + clusterv1alpha1.ProxyPath(cluster)
	return config
}

// Namespaced returns whether objects of a resource have a namespace.
func Namespaced(cfg *rest.Config, resource schema.GroupVersionResource) (bool, error) {
	mapping, err := mappingOf(cfg, resource)
	if err != nil {
		return false, err
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// Mapping finds the kind that a user means, as the control plane serves it.
func Mapping(hub *rest.Config, kind string) (*meta.RESTMapping, error) {
	resource, err := Resolve(hub, kind)
	if err != nil {
		return nil, err
	}
	return mappingOf(hub, resource)
}

func mappingOf(cfg *rest.Config, resource schema.GroupVersionResource) (*meta.RESTMapping, error) {
	mapper, err := mapperOf(cfg)
	if err != nil {
		return nil, err
	}
	kind, err := mapper.KindFor(resource)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %s: %w", resource.Resource, err)
	}
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the scope of %s: %w", resource.Resource, err)
	}
	return mapping, nil
}

// ResourceOf finds the resource of a kind.
func ResourceOf(cfg *rest.Config, kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	mapper, err := mapperOf(cfg)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("finding the resource of %s: %w", kind, err)
	}
	return mapping.Resource, nil
}

func mapperOf(cfg *rest.Config) (meta.RESTMapper, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the discovery client: %w", err)
	}
	cached := memory.NewMemCacheClient(client)
	return restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil), nil
}

// Ask creates a question of a resource of fleet.flagship.io, and decodes the answer into it.
func Ask(ctx context.Context, cfg *rest.Config, resource string, question any) error {
	plain := dynamic.ConfigFor(cfg)
	plain.GroupVersion = &fleetv1alpha1.GroupVersion
	api, err := rest.UnversionedRESTClientFor(plain)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("encoding the question: %w", err)
	}
	raw, err := api.Post().AbsPath("/apis", fleetv1alpha1.GroupName, fleetv1alpha1.GroupVersion.Version, resource).
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w\nlet an administrator bind you a role with that right, such as view in the namespace, and the one that docs/security.md names for this question", err)
	case err != nil:
		return fmt.Errorf("the control plane does not answer: %w", err)
	}
	if err := json.Unmarshal(raw, question); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}
