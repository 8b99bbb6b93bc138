package v1beta1

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Labels of an EndpointSlice that came from another cluster.
const (
	// ServiceNameLabel is the name of the ServiceImport that the slice belongs to.
	ServiceNameLabel = "multicluster.kubernetes.io/service-name"
	// SourceClusterLabel is the cluster whose endpoints the slice has.
	SourceClusterLabel = "multicluster.kubernetes.io/source-cluster"
)

// Labels of Works about an exported service: records of it, and what importing clusters get.
const (
	// ExportNamespaceLabel is the namespace of the ServiceExport.
	ExportNamespaceLabel = "serviceexport.karmada.io/namespace"
	// ExportNameLabel is the name of the ServiceExport.
	ExportNameLabel = "serviceexport.karmada.io/name"
	// ExportRoleLabel names the purpose of the Work.
	ExportRoleLabel = "serviceexport.karmada.io/role"
)

// The values of ExportRoleLabel.
const (
	// RoleExport is a record of a ServiceExport and its Service, as they are in the cluster.
	RoleExport = "export"
	// RoleEndpoints is a record of an EndpointSlice of an exported Service.
	RoleEndpoints = "endpoints"
	// RoleImport carries a ServiceImport.
	RoleImport = "import"
	// RoleDerived carries the Service through which an import is used.
	RoleDerived = "derived-service"
	// RoleImportedEndpoints carries an EndpointSlice to an importing cluster.
	RoleImportedEndpoints = "imported-endpoints"
	// RoleDefinition carries the definition of one of this group's kinds.
	RoleDefinition = "definition"
)

// Annotations of those Works.
const (
	// VerdictAnnotation, on the record of an export, is what the control plane makes of it, as JSON.
	VerdictAnnotation = "serviceexport.karmada.io/verdict"
	// ExportingClustersAnnotation, on the Work of a derived Service, lists the exporting clusters, with commas between.
	ExportingClustersAnnotation = "serviceimport.karmada.io/clusters"
)

// Labels and annotations of a ServiceImport on the control plane.
const (
	// MadeFromExportsLabel set to "true" marks an import that was made from exports; one that a user made does not have it.
	MadeFromExportsLabel = "serviceimport.karmada.io/made-from-exports"
	// ContentAnnotation stands for what the import was last made of.
	ContentAnnotation = "serviceimport.karmada.io/content"
)

// IsRecord reports that a Work is kept for the control plane to read: an export in a member, or a slice of its Service. It is
// suspended, and nothing of it is applied.
func IsRecord(work metav1.Object) bool {
	role := work.GetLabels()[ExportRoleLabel]
	return role == RoleExport || role == RoleEndpoints
}

// ExportRecordName returns the name of the Work, in the exporting cluster's execution namespace, that records an export.
func ExportRecordName(namespace, name string) string {
	return recordName(namespace, name, "serviceexport")
}

// EndpointsRecordName returns the name of the Work, in the exporting cluster's execution namespace, that records a slice
// of an exported Service. It is another one than a MultiClusterService's record of the same slice.
func EndpointsRecordName(namespace, slice string) string {
	return recordName(namespace, slice, "endpointslice")
}

// ImportedEndpointsWorkName returns the name of the Work, in an importing cluster's execution namespace, that carries a
// slice of an exporting cluster.
func ImportedEndpointsWorkName(cluster, namespace, slice string) string {
	return hashed("imported-"+cluster+"-"+slice, fmt.Sprintf("%s/%s/%s", cluster, namespace, slice))
}

func recordName(namespace, name, kind string) string {
	return hashed("exported-"+name, fmt.Sprintf("%s/%s/%s", kind, namespace, name))
}

// hashed keeps a name readable as far as it fits, and makes it distinct.
func hashed(name, distinct string) string {
	const longest = 240 // an object's name may have 253 characters; the hash takes up to 11
	name = strings.ToLower(name)
	if len(name) > longest {
		name = name[:longest]
	}
	return strings.TrimRight(name, "-.") + "-" + workv1alpha1.NameHash(distinct)
}
