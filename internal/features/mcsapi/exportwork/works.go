package exportwork

import (
	"cmp"
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
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
)

// Field managers in members. That of the addresses is not the one that applies the rest of an import, which would remove them.
const (
	ConditionsManager = "flagship-exports"
	AddressesManager  = "flagship-addresses"
)

// Resources of members.
var (
	ServiceExports = multiclusterv1beta1.GroupVersion.WithResource(multiclusterv1beta1.ResourcePluralServiceExport)
	ServiceImports = multiclusterv1beta1.GroupVersion.WithResource(multiclusterv1beta1.ResourcePluralServiceImport)
	Services       = corev1.SchemeGroupVersion.WithResource("services")
	Namespaces     = corev1.SchemeGroupVersion.WithResource("namespaces")
)

// ExportDefinition is the name of the Work that carries the definition of ServiceExport to a cluster.
var ExportDefinition = DefinitionName(ServiceExports.Resource + "." + ServiceExports.Group)

// DefinitionName is the name of the Work that carries a definition.
func DefinitionName(definition string) string {
	return workv1alpha1.WorkName("CustomResourceDefinition", "", definition)
}

// ImportKey is the key of the Work that carries the import of a service to a cluster.
func ImportKey(cluster string, service types.NamespacedName) types.NamespacedName {
	return endpointslices.WorkKey(cluster, workv1alpha1.WorkName(multiclusterv1beta1.KindServiceImport, service.Namespace, service.Name))
}

// DerivedKey is the key of the Work that carries the derived Service of a service to a cluster.
func DerivedKey(cluster string, service types.NamespacedName) types.NamespacedName {
	return endpointslices.WorkKey(cluster, workv1alpha1.WorkName("Service", service.Namespace, networkingv1alpha1.DerivedServiceName(service.Name)))
}

// Labels say which exported service a Work is about, and what it is for.
func Labels(service types.NamespacedName, role string) map[string]string {
	return map[string]string{
		multiclusterv1beta1.ExportNamespaceLabel: service.Namespace, multiclusterv1beta1.ExportNameLabel: service.Name,
		multiclusterv1beta1.ExportRoleLabel: role,
	}
}

// RoleOf returns what a Work about an exported service is for; empty for other Works.
func RoleOf(work metav1.Object) string { return work.GetLabels()[multiclusterv1beta1.ExportRoleLabel] }

// ServiceOf returns the exported service that a Work is about; empty for other Works.
func ServiceOf(work metav1.Object) types.NamespacedName {
	return types.NamespacedName{
		Namespace: work.GetLabels()[multiclusterv1beta1.ExportNamespaceLabel], Name: work.GetLabels()[multiclusterv1beta1.ExportNameLabel],
	}
}

// RecordOf returns the record that the slice of an importing cluster was made from.
func RecordOf(imported metav1.Object) types.NamespacedName {
	return EndpointsKey(imported.GetAnnotations()[networkingv1alpha1.EndpointSliceProvisionClusterAnnotation], endpointslices.SliceOf(imported))
}

// Refusal returns the condition with why what a Work carries could not be applied; nil if it was, or before the first attempt.
func Refusal(work *workv1alpha1.Work) *metav1.Condition {
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	if applied == nil || applied.Status == metav1.ConditionTrue {
		return nil
	}
	return applied
}

const (
	// serviceIndex finds the Works about an exported service, the records of a cluster, and those of a service of a cluster.
	serviceIndex = "service.export"
	// namespaceIndex finds the records of exports by namespace, those of a cluster, and with allNamespaces all of them.
	namespaceIndex = "service.exportSpace"
	allNamespaces  = "*"
	// recordIndex finds the Works made from the record of a slice.
	recordIndex = "service.exportedSlice"
)

// AddIndexes adds the indexes of the List functions to a cache.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for name, extract := range map[string]client.IndexerFunc{
		serviceIndex: func(obj client.Object) []string {
			key := ServiceOf(obj)
			if key.Name == "" {
				return nil
			}
			values := []string{"service " + key.String()}
			if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(obj.GetNamespace()); ok && multiclusterv1beta1.IsRecord(obj) {
				values = append(values, "cluster "+cluster, "cluster "+cluster+" service "+key.String())
			}
			return values
		},
		namespaceIndex: func(obj client.Object) []string {
			if RoleOf(obj) != multiclusterv1beta1.RoleExport {
				return nil
			}
			cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(obj.GetNamespace())
			return []string{allNamespaces, ServiceOf(obj).Namespace, "cluster " + cluster}
		},
		recordIndex: func(obj client.Object) []string {
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

// ListOf lists the Works about an exported service. All lists are shared with the cache.
func ListOf(ctx context.Context, reader client.Reader, service types.NamespacedName) ([]*workv1alpha1.Work, error) {
	return hubclient.ListWorks(ctx, reader, client.MatchingFields{serviceIndex: "service " + service.String()})
}

// ListRecords lists the records of a cluster.
func ListRecords(ctx context.Context, reader client.Reader, cluster string) ([]*workv1alpha1.Work, error) {
	return hubclient.ListWorks(ctx, reader, client.MatchingFields{serviceIndex: "cluster " + cluster})
}

// ListExports lists the records of the exports of a cluster.
func ListExports(ctx context.Context, reader client.Reader, cluster string) ([]*workv1alpha1.Work, error) {
	return hubclient.ListWorks(ctx, reader, client.MatchingFields{namespaceIndex: "cluster " + cluster})
}

// ListRecordsOf lists the records of a service of a cluster: that of its export and those of its slices.
func ListRecordsOf(ctx context.Context, reader client.Reader, cluster string, service types.NamespacedName) ([]*workv1alpha1.Work, error) {
	return hubclient.ListWorks(ctx, reader, client.MatchingFields{serviceIndex: "cluster " + cluster + " service " + service.String()})
}

// ListFrom lists the Works made from the record of a slice.
func ListFrom(ctx context.Context, reader client.Reader, record types.NamespacedName) ([]*workv1alpha1.Work, error) {
	return hubclient.ListWorks(ctx, reader, client.MatchingFields{recordIndex: record.String()})
}

// ListServices lists the exported services of a namespace; of all namespaces for an empty one.
func ListServices(ctx context.Context, reader client.Reader, namespace string) ([]types.NamespacedName, error) {
	works, err := hubclient.ListWorks(ctx, reader, client.MatchingFields{namespaceIndex: cmp.Or(namespace, allNamespaces)})
	seen := map[types.NamespacedName]bool{}
	var services []types.NamespacedName
	for _, w := range works {
		if key := ServiceOf(w); !seen[key] {
			seen[key] = true
			services = append(services, key)
		}
	}
	return services, err
}
