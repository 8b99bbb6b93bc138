package imports

import (
	"cmp"
	"context"
	"fmt"
	"time"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// recheck is when an export that was refused is reconciled again.
const recheck = time.Minute

// refusal returns why a cluster may not export a service; empty if it may.
func (i *importer) refusal(ctx context.Context, record *workv1alpha1.Work, cluster *clusterv1alpha1.Cluster) (string, error) {
	service := exportwork.ServiceOf(record)
	if workv1alpha1.ReservedService(service.Namespace, service.Name) {
		return exportwork.ReservedMessage(service), nil
	}
	var onNamespace map[string]string
	if namespace, there := i.templates.Meta(hubstore.NamespaceRef(service.Namespace)); there {
		onNamespace = namespace.Annotations
	}
	if !clusterv1alpha1.MayExport(onNamespace, cluster.Name) {
		return fmt.Sprintf("cluster %s is not among those that may export Services of namespace %s: an operator adds it to the annotation %s of the Namespace on the control plane",
			cluster.Name, service.Namespace, clusterv1alpha1.ExportersAnnotation), nil
	}
	inAll := clusterv1alpha1.ExportLimit(cluster.Annotations, clusterv1alpha1.DefaultExports)
	inNamespace := clusterv1alpha1.ExportLimit(onNamespace, clusterv1alpha1.DefaultExportsInNamespace)
	records, err := exportwork.ListExports(ctx, i.client, cluster.Name)
	if err != nil || len(records) <= min(inAll, inNamespace) {
		return "", err
	}
	before, beforeInNamespace := 0, 0
	for _, other := range records {
		if cmp.Or(other.CreationTimestamp.Compare(record.CreationTimestamp.Time), cmp.Compare(other.Name, record.Name)) < 0 {
			before++
			if exportwork.ServiceOf(other).Namespace == service.Namespace {
				beforeInNamespace++
			}
		}
	}
	switch {
	case before >= inAll:
		return fmt.Sprintf("cluster %s exports %d Services, and may export no more: delete exports, or have an operator set the annotation %s of its Cluster",
			cluster.Name, inAll, clusterv1alpha1.ExportLimitAnnotation), nil
	case beforeInNamespace >= inNamespace:
		return fmt.Sprintf("cluster %s exports %d Services of namespace %s, and may export no more: delete exports, or have an operator set the annotation %s of the Namespace on the control plane",
			cluster.Name, inNamespace, service.Namespace, clusterv1alpha1.ExportLimitAnnotation), nil
	}
	return "", nil
}
