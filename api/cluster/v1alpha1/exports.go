package v1alpha1

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations with which operators decide what clusters export. On a Namespace only who may update Namespaces in the whole control
// plane may set, change or remove them.
const (
	// ExportersAnnotation, on a Namespace of the control plane, lists the clusters that may export Services of this namespace, with
	// commas between. Empty: none. Without the annotation: all.
	ExportersAnnotation = "flagship.io/exporting-clusters"
	// ExportLimitAnnotation is a number of Services. On a Cluster: how many it may export, DefaultExports without the annotation. On a
	// Namespace of the control plane: how many each cluster may export of this namespace, DefaultExportsInNamespace without it. 0: none.
	ExportLimitAnnotation = "flagship.io/export-limit"
)

// How many Services a cluster may export in all, and of one namespace. Each costs two Works for every cluster that imports it.
const (
	DefaultExports            = 1000
	DefaultExportsInNamespace = 250
)

// MaxExportRecords is how many exports of a cluster are recorded, whether they are imported or not. It leaves most of limit.MaxRecords to
// slices.
const MaxExportRecords = 2000

// MayExport returns whether the annotations of a Namespace allow a cluster to export Services of the namespace.
func MayExport(namespace map[string]string, cluster string) bool {
	list, restricted := namespace[ExportersAnnotation]
	return !restricted || slices.Contains(exporters(list), cluster)
}

func exporters(list string) []string {
	names := strings.Split(list, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// ExportLimit returns the number in ExportLimitAnnotation. It is 0 if it cannot be read, which admission refuses.
func ExportLimit(annotations map[string]string, otherwise int) int {
	text, set := annotations[ExportLimitAnnotation]
	if !set {
		return otherwise
	}
	limit, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0
	}
	return int(limit)
}

// ValidateExports checks the annotations above on a Namespace or a Cluster.
func ValidateExports(annotations map[string]string) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("metadata", "annotations")
	if text, set := annotations[ExportLimitAnnotation]; set {
		if limit, err := strconv.ParseUint(text, 10, 31); err != nil || limit > MaxExportRecords {
			errs = append(errs, field.Invalid(path.Key(ExportLimitAnnotation), text, fmt.Sprintf("must be a number of Services from 0 to %d", MaxExportRecords)))
		}
	}
	for _, name := range exporters(annotations[ExportersAnnotation]) {
		errs = append(errs, ValidateName(name, path.Key(ExportersAnnotation))...)
	}
	return errs
}
