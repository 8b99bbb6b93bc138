package mcsapi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// watchExports watches all exports of a member.
func watchExports(ctx context.Context, watches *endpointslices.Watches, conn *member.Conn, handlers endpointslices.Handlers) (*endpointslices.Watch[*multiclusterv1beta1.ServiceExport], error) {
	client, err := dynamic.NewForConfigAndClient(conn.RESTConfig(), conn.PatientHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building a client for ServiceExports: %w", err)
	}
	exports := client.Resource(exportwork.ServiceExports)
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(multiclusterv1beta1.GroupVersion.WithKind(multiclusterv1beta1.KindServiceExport))
	return endpointslices.Start(ctx, watches, conn, example, "serviceexports", endpointslices.ListWatch(exports.List, exports.Watch), exportView, handlers), nil
}

var exportView = endpointslices.View[*unstructured.Unstructured, *multiclusterv1beta1.ServiceExport]{
	Keep: func(object *unstructured.Unstructured) (*multiclusterv1beta1.ServiceExport, bool, error) {
		export := &multiclusterv1beta1.ServiceExport{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, export); err != nil {
			return nil, false, fmt.Errorf("reading ServiceExport %s/%s: %w", object.GetNamespace(), object.GetName(), err)
		}
		export.ManagedFields, export.Annotations, export.Labels = nil, nil, nil
		return export, export.DeletionTimestamp == nil, nil
	},
}

// watchServices watches the Services of a namespace.
func watchServices(ctx context.Context, watches *endpointslices.Watches, conn *member.Conn, namespace string, handlers endpointslices.Handlers) (*endpointslices.Watch[corev1.ServiceSpec], error) {
	core, err := coreclient.NewForConfigAndClient(endpointslices.Protobuf(conn), conn.PatientHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building a client for Services: %w", err)
	}
	services := core.Services(namespace)
	return endpointslices.Start(ctx, watches, conn, &corev1.Service{}, "services", endpointslices.ListWatch(services.List, services.Watch), serviceView, handlers), nil
}

var serviceView = endpointslices.View[*corev1.Service, corev1.ServiceSpec]{
	Keep: func(service *corev1.Service) (corev1.ServiceSpec, bool, error) {
		return exportwork.ExportedSpec(&service.Spec), service.DeletionTimestamp == nil, nil
	},
}
