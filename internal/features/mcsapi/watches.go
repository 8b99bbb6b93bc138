package mcsapi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// followExports follows all exports of a member.
func followExports(ctx context.Context, conn *member.Conn, tell endpointslices.Handlers) (*endpointslices.Watch[*multiclusterv1beta1.ServiceExport], error) {
	client, err := dynamic.NewForConfigAndClient(conn.RESTConfig(), conn.PatientHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building a client for ServiceExports: %w", err)
	}
	exports := client.Resource(exportwork.ServiceExports)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return exports.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return exports.Watch(ctx, o)
		},
	}
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(multiclusterv1beta1.GroupVersion.WithKind(multiclusterv1beta1.KindServiceExport))
	return endpointslices.Start(ctx, conn, example, "serviceexports", lw, endpointslices.ViewOf(keepExport), tell), nil
}

// keepExport leaves out what nobody looks at.
func keepExport(obj any) (*multiclusterv1beta1.ServiceExport, bool, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, false, fmt.Errorf("keeping a %T: not a ServiceExport", obj)
	}
	export := &multiclusterv1beta1.ServiceExport{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, export); err != nil {
		return nil, false, fmt.Errorf("reading ServiceExport %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	export.ManagedFields, export.Annotations, export.Labels = nil, nil, nil
	return export, export.DeletionTimestamp == nil, nil
}

// followServices follows the Services of a namespace.
func followServices(ctx context.Context, conn *member.Conn, namespace string, tell endpointslices.Handlers) (*endpointslices.Watch[corev1.ServiceSpec], error) {
	core, err := coreclient.NewForConfigAndClient(endpointslices.Protobuf(conn), conn.PatientHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building a client for Services: %w", err)
	}
	services := core.Services(namespace)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return services.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return services.Watch(ctx, o)
		},
	}
	return endpointslices.Start(ctx, conn, &corev1.Service{}, "services", lw, endpointslices.ViewOf(keepService), tell), nil
}

// keepService leaves out what does not matter to others.
func keepService(obj any) (corev1.ServiceSpec, bool, error) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return corev1.ServiceSpec{}, false, fmt.Errorf("keeping a %T: not a Service", obj)
	}
	return exportwork.ExportedSpec(&service.Spec), service.DeletionTimestamp == nil, nil
}
