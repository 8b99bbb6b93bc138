package mcsapi

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// watchExports watches all exports of a member.
func watchExports(group *memberwatch.Group, conn *member.Conn, store *memberwatch.Store[*multiclusterv1beta1.ServiceExport]) *memberwatch.Watch[*multiclusterv1beta1.ServiceExport] {
	exports := conn.Patient().Objects(exportwork.ServiceExports, metav1.NamespaceAll)
	return memberwatch.Start(group, conn.Name()+"/serviceexports", exports.Within(bounds.Exports), store)
}

func newExports(changed func(types.NamespacedName), listed func()) *memberwatch.Store[*multiclusterv1beta1.ServiceExport] {
	return memberwatch.NewStore(func(object *unstructured.Unstructured) (*multiclusterv1beta1.ServiceExport, bool, error) {
		export := &multiclusterv1beta1.ServiceExport{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, export); err != nil {
			return nil, false, fmt.Errorf("reading ServiceExport %s/%s: %w", object.GetNamespace(), object.GetName(), err)
		}
		export.ManagedFields, export.Annotations, export.Labels = nil, nil, nil
		return export, export.DeletionTimestamp == nil, nil
	}, changed, listed)
}

// watchServices watches the Services of a namespace.
func watchServices(group *memberwatch.Group, conn *member.Conn, namespace string, store *memberwatch.Store[corev1.ServiceSpec]) *memberwatch.Watch[corev1.ServiceSpec] {
	services := conn.Patient().Typed(corev1.SchemeGroupVersion.WithResource("services"), namespace)
	return memberwatch.Start(group, conn.Name()+"/"+namespace+"/services", services.Within(bounds.Services), store)
}

func newServices(changed func(types.NamespacedName), listed func()) *memberwatch.Store[corev1.ServiceSpec] {
	return memberwatch.NewStore(func(service *corev1.Service) (corev1.ServiceSpec, bool, error) {
		return exportwork.ExportedSpec(&service.Spec), service.DeletionTimestamp == nil, nil
	}, changed, listed)
}
