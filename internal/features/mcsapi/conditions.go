package mcsapi

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// validity is the condition of whether a Service can be exported.
func validity(export *multiclusterv1beta1.ServiceExport, service *corev1.ServiceSpec) metav1.Condition {
	switch {
	case service == nil:
		return multiclusterv1beta1.NoService(export.Generation, fmt.Sprintf("There is no Service %s in this cluster: create it", export.Name))
	case service.Type == corev1.ServiceTypeExternalName:
		return multiclusterv1beta1.InvalidServiceType(export.Generation, "A Service of type ExternalName has no endpoints to export")
	}
	return multiclusterv1beta1.Valid(export.Generation)
}

// exportConditions are the conditions of an export, others' included. Only an export that is valid can be in conflict. Missing says which of its
// slices are not recorded; "" if all are.
func exportConditions(export *multiclusterv1beta1.ServiceExport, valid metav1.Condition, record *workv1alpha1.Work, missing string, now time.Time) []metav1.Condition {
	conditions := export.DeepCopy().Status.Conditions
	set := func(c metav1.Condition) {
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		meta.SetStatusCondition(&conditions, c)
	}
	set(valid)
	verdict, given := exportwork.ReadVerdict(record)
	switch {
	case valid.Status != metav1.ConditionTrue:
		set(multiclusterv1beta1.ExportFailed(export.Generation, "The export is not valid"))
		meta.RemoveStatusCondition(&conditions, multiclusterv1beta1.ExportConflict)
		return conditions
	case !given:
		set(multiclusterv1beta1.ExportPending(export.Generation, "The control plane has not reconciled the export yet"))
		return conditions
	case verdict.Refused != "":
		return refusedConditions(export, verdict.Refused, now, valid)
	default:
		message := "The service is exported to all clusters that have the namespace"
		if verdict.Obstacles != "" {
			message = "The service is exported, but not everywhere: " + verdict.Obstacles
		}
		if missing != "" {
			message += "; endpoints are missing: " + missing
		}
		set(multiclusterv1beta1.Exported(export.Generation, message))
	}
	if len(verdict.Reasons) > 0 {
		set(multiclusterv1beta1.Conflicting(export.Generation, verdict.Reasons, verdict.Message))
	} else {
		set(multiclusterv1beta1.NoConflicts(export.Generation))
	}
	return conditions
}

// refusedConditions are the conditions of an export that is not taken to any cluster, others' included. Whether it is valid may not be known.
func refusedConditions(export *multiclusterv1beta1.ServiceExport, why string, now time.Time, valid ...metav1.Condition) []metav1.Condition {
	conditions := export.DeepCopy().Status.Conditions
	for _, c := range append(valid, multiclusterv1beta1.ExportRefused(export.Generation, why)) {
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		meta.SetStatusCondition(&conditions, c)
	}
	meta.RemoveStatusCondition(&conditions, multiclusterv1beta1.ExportConflict)
	return conditions
}
