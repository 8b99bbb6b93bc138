package exportwork

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
)

const (
	// conditionsManager writes what is said about an export or import in a member.
	ConditionsManager = "flagship-exports"
	// addressesManager writes the addresses of an import. It is not the one that applies the rest, which would take them
	// away again.
	AddressesManager = "flagship-addresses"
)

// Refusal is why what a Work carries could not be applied; empty if it was, or nobody has tried.
func Refusal(work *workv1alpha1.Work) string {
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	if applied == nil || applied.Status == metav1.ConditionTrue {
		return ""
	}
	return applied.Message
}

// ExportDefinition is the name of the Work that brings the definition of ServiceExport to a cluster, whoever made it.
var ExportDefinition = DefinitionName(ServiceExports.Resource + "." + ServiceExports.Group)

func DefinitionName(definition string) string {
	return workv1alpha1.WorkName("CustomResourceDefinition", "", definition)
}

// Labels say whose export a Work is about, and what it is for.
func Labels(key types.NamespacedName, role string) map[string]string {
	return map[string]string{
		multiclusterv1beta1.ExportNamespaceLabel: key.Namespace, multiclusterv1beta1.ExportNameLabel: key.Name,
		multiclusterv1beta1.ExportRoleLabel: role,
	}
}

func RoleOf(work metav1.Object) string { return work.GetLabels()[multiclusterv1beta1.ExportRoleLabel] }

// ExportOf is the exported service that a Work is about; empty for other Works.
func ExportOf(work metav1.Object) types.NamespacedName {
	return types.NamespacedName{
		Namespace: work.GetLabels()[multiclusterv1beta1.ExportNamespaceLabel], Name: work.GetLabels()[multiclusterv1beta1.ExportNameLabel],
	}
}

// Indexes in the cache.
const (
	// exportIndex finds the Works about an exported service, see ofService, and the records of a cluster, see inCluster.
	ServiceIndex = "service.export"
	// exportSpaceIndex finds the records of exports by namespace; under allSpaces all of them.
	NamespaceIndex = "service.exportSpace"
	// recordIndex finds the Works made from the record of a slice.
	RecordIndex = "service.exportedSlice"

	AllNamespaces = "*"
)

func OfService(key types.NamespacedName) string { return "service " + key.String() }

func InCluster(name string) string { return "cluster " + name }

func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for name, extract := range map[string]client.IndexerFunc{
		ServiceIndex: func(obj client.Object) []string {
			key := ExportOf(obj)
			if key.Name == "" {
				return nil
			}
			values := []string{OfService(key)}
			if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(obj.GetNamespace()); ok && multiclusterv1beta1.IsRecord(obj) {
				values = append(values, InCluster(cluster))
			}
			return values
		},
		NamespaceIndex: func(obj client.Object) []string {
			if RoleOf(obj) != multiclusterv1beta1.RoleExport {
				return nil
			}
			return []string{ExportOf(obj).Namespace, AllNamespaces}
		},
		RecordIndex: func(obj client.Object) []string {
			if RoleOf(obj) != multiclusterv1beta1.RoleImportedEndpoints {
				return nil
			}
			return []string{RecordOf(obj).String()}
		},
	} {
		if err := indexer.IndexField(ctx, &workv1alpha1.Work{}, name, extract); err != nil {
			return fmt.Errorf("adding the index %s: %w", name, err)
		}
	}
	return nil
}

var (
	ServiceExports = multiclusterv1beta1.GroupVersion.WithResource(multiclusterv1beta1.ResourcePluralServiceExport)
	ServiceImports = multiclusterv1beta1.GroupVersion.WithResource(multiclusterv1beta1.ResourcePluralServiceImport)
	Services       = corev1.SchemeGroupVersion.WithResource("services")
	Namespaces     = corev1.SchemeGroupVersion.WithResource("namespaces")
)

func ImportName(key types.NamespacedName) string {
	return workv1alpha1.WorkName(multiclusterv1beta1.KindServiceImport, key.Namespace, key.Name)
}

func DerivedName(key types.NamespacedName) string {
	return workv1alpha1.WorkName("Service", key.Namespace, networkingv1alpha1.DerivedServiceName(key.Name))
}

// Bound says that a Work is a binding's: a policy takes the object where it goes.
func Bound(work metav1.Object) bool {
	return work.GetLabels()[workv1alpha2.ResourceBindingPermanentIDLabel] != "" || work.GetLabels()[workv1alpha2.ClusterResourceBindingPermanentIDLabel] != ""
}

// RecordOf is the record that an importing cluster's slice was made from.
func RecordOf(imported metav1.Object) types.NamespacedName {
	slice := endpointslices.SliceOf(imported)
	return types.NamespacedName{
		Namespace: workv1alpha1.ExecutionNamespace(imported.GetAnnotations()[networkingv1alpha1.EndpointSliceProvisionClusterAnnotation]),
		Name:      multiclusterv1beta1.EndpointsRecordName(slice.Namespace, slice.Name),
	}
}
