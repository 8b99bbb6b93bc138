package demo

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

const (
	fieldManager = "flagship-demo"
	policyGroup  = "policy.karmada.io"
)

// applied is one object of the manifests as it stands on the hub.
type applied struct {
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

// isPolicy returns whether an object is a policy, not a template.
func (a applied) isPolicy() bool { return a.resource.Group == policyGroup }

// apply sends every manifest to the hub, into the namespace unless the manifest names one.
func apply(ctx context.Context, hub *rest.Config, client dynamic.Interface, namespace string, manifests [][]byte) ([]applied, error) {
	mapper, err := mapperFor(hub)
	if err != nil {
		return nil, err
	}
	out := make([]applied, 0, len(manifests))
	for _, manifest := range manifests {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(manifest, &object.Object); err != nil {
			return nil, fmt.Errorf("reading manifest: %w", err)
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return nil, fmt.Errorf("finding kind %s: %w", kind.Kind, err)
		}
		resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			if object.GetNamespace() == "" {
				object.SetNamespace(namespace)
			}
			resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
		if object, err = resource.Apply(ctx, object.GetName(), object, options); err != nil {
			return nil, fmt.Errorf("applying %s %s: %w", kind.Kind, object.GetName(), err)
		}
		out = append(out, applied{mapping.Resource, object})
	}
	return out, nil
}

func mapperFor(hub *rest.Config) (meta.RESTMapper, error) {
	client, err := discovery.NewDiscoveryClientForConfig(hub)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return nil, fmt.Errorf("asking for the kinds of the control plane: %w", err)
	}
	return restmapper.NewDiscoveryRESTMapper(groups), nil
}
