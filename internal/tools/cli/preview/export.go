package preview

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// exported are the resources of which all objects are exported; the last two name the templates that are.
func exported() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		clusterv1alpha1.GroupVersion.WithResource(clusterv1alpha1.ResourcePluralCluster),
		fleetv1alpha1.GroupVersion.WithResource(fleetv1alpha1.ResourcePluralClusterCapacity),
		policyv1alpha1.SchemeGroupVersion.WithResource(policyv1alpha1.ResourcePluralPropagationPolicy),
		policyv1alpha1.SchemeGroupVersion.WithResource(policyv1alpha1.ResourcePluralClusterPropagationPolicy),
		policyv1alpha1.SchemeGroupVersion.WithResource(policyv1alpha1.ResourcePluralOverridePolicy),
		policyv1alpha1.SchemeGroupVersion.WithResource(policyv1alpha1.ResourcePluralClusterOverridePolicy),
		policyv1alpha1.SchemeGroupVersion.WithResource(policyv1alpha1.ResourcePluralClusterTaintPolicy),
		networkingv1alpha1.GroupVersion.WithResource(networkingv1alpha1.ResourcePluralMultiClusterService),
		configv1alpha1.GroupVersion.WithResource(configv1alpha1.ResourcePluralResourceInterpreterCustomization),
		workv1alpha2.GroupVersion.WithResource(workv1alpha2.ResourcePluralResourceBinding),
		workv1alpha2.GroupVersion.WithResource(workv1alpha2.ResourcePluralClusterResourceBinding),
	}
}

// export writes what a preview needs of a control plane to a file.
func export(ctx context.Context, s cli.Streams, config *rest.Config, path string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making the discovery client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discover))
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	templates := 0
	for _, resource := range exported() {
		lister := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(resource).List(ctx, o)
		})
		err := lister.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			obj := item.(*unstructured.Unstructured)
			list.Items = append(list.Items, *cleaned(obj))
			template, err := templateOf(ctx, client, mapper, obj)
			if template != nil {
				list.Items = append(list.Items, *cleaned(template))
				templates++
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("exporting %s: %w", resource.Resource, err)
		}
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		return fmt.Errorf("encoding the export: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	s.Line(fmt.Sprintf("%s has %d objects, %d of them templates.", path, len(list.Items), templates))
	return nil
}

// templateOf reads the template of a binding; nil if there is none.
func templateOf(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, binding *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !slices.Contains([]string{workv1alpha2.KindResourceBinding, workv1alpha2.KindClusterResourceBinding}, binding.GetKind()) {
		return nil, nil
	}
	resource, _, err := unstructured.NestedStringMap(binding.Object, "spec", "resource")
	if err != nil {
		return nil, fmt.Errorf("reading spec.resource of %s: %w", binding.GetName(), err)
	}
	kind := schema.FromAPIVersionAndKind(resource["apiVersion"], resource["kind"])
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", kind, err)
	}
	objects := client.Resource(mapping.Resource)
	var found *unstructured.Unstructured
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		found, err = objects.Namespace(resource["namespace"]).Get(ctx, resource["name"], metav1.GetOptions{})
	} else {
		found, err = objects.Get(ctx, resource["name"], metav1.GetOptions{})
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code == 404 {
		return nil, nil
	}
	return found, err
}

// cleaned is an object without managed fields and, if it is a Secret, without values.
func cleaned(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj.SetManagedFields(nil)
	if obj.GetKind() != "Secret" {
		return obj
	}
	annotations := obj.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	obj.SetAnnotations(annotations)
	data, _, _ := unstructured.NestedMap(obj.Object, "data") // what is no map has no values
	for key := range data {
		data[key] = ""
	}
	delete(obj.Object, "stringData")
	if len(data) > 0 {
		obj.Object["data"] = data
	}
	return obj
}
