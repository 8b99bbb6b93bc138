package v1beta1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a ServiceExport.
const (
	// ExportValid is True if there is a Service that can be exported.
	ExportValid = "Valid"
	// ExportReady is True once the export is known to the control plane, which takes it to the other clusters.
	ExportReady = "Ready"
	// ExportConflict is True while clusters that export the service differ in something that cannot be merged.
	ExportConflict = "Conflict"
)

// ImportReady is the condition type of a ServiceImport that reports whether the service can be used in this cluster.
const ImportReady = "Ready"

// Reasons of those conditions.
const (
	ExportReasonValid              = "Valid"
	ExportReasonNoService          = "NoService"
	ExportReasonInvalidServiceType = "InvalidServiceType"

	ExportReasonExported = "Exported"
	ExportReasonPending  = "Pending"
	ExportReasonFailed   = "Failed"
	ExportReasonRefused  = "Refused"

	ExportReasonNoConflicts = "NoConflicts"

	ImportReasonReady                = "Ready"
	ImportReasonPending              = "Pending"
	ImportReasonIPFamilyNotSupported = "IPFamilyNotSupported"
)

// ConflictReason names a property about which exports differ. The condition Conflict lists several with commas between.
type ConflictReason string

// The values of ConflictReason, in the order in which they are listed.
const (
	TypeConflict                  ConflictReason = "TypeConflict"
	PortConflict                  ConflictReason = "PortConflict"
	SessionAffinityConflict       ConflictReason = "SessionAffinityConflict"
	SessionAffinityConfigConflict ConflictReason = "SessionAffinityConfigConflict"
	InternalTrafficPolicyConflict ConflictReason = "InternalTrafficPolicyConflict"
	TrafficDistributionConflict   ConflictReason = "TrafficDistributionConflict"
	IPFamilyConflict              ConflictReason = "IPFamilyConflict"
	LabelsConflict                ConflictReason = "LabelsConflict"
	AnnotationsConflict           ConflictReason = "AnnotationsConflict"
)

// Valid reports that the Service can be exported. LastTransitionTime is left to meta.SetStatusCondition, here and below.
func Valid(generation int64) metav1.Condition {
	return condition(ExportValid, metav1.ConditionTrue, ExportReasonValid, "The Service can be exported", generation)
}

// NoService reports that there is no Service of the export's name.
func NoService(generation int64, message string) metav1.Condition {
	return condition(ExportValid, metav1.ConditionFalse, ExportReasonNoService, message, generation)
}

// InvalidServiceType reports that a Service of this type has nothing to export.
func InvalidServiceType(generation int64, message string) metav1.Condition {
	return condition(ExportValid, metav1.ConditionFalse, ExportReasonInvalidServiceType, message, generation)
}

// Exported reports that the control plane takes the Service to the other clusters.
func Exported(generation int64, message string) metav1.Condition {
	return condition(ExportReady, metav1.ConditionTrue, ExportReasonExported, message, generation)
}

// ExportPending reports that the control plane has not reconciled the export yet.
func ExportPending(generation int64, message string) metav1.Condition {
	return condition(ExportReady, metav1.ConditionFalse, ExportReasonPending, message, generation)
}

// ExportFailed reports why the Service is not exported.
func ExportFailed(generation int64, message string) metav1.Condition {
	return condition(ExportReady, metav1.ConditionFalse, ExportReasonFailed, message, generation)
}

// ExportRefused reports why the control plane does not take the Service to any cluster.
func ExportRefused(generation int64, message string) metav1.Condition {
	return condition(ExportReady, metav1.ConditionFalse, ExportReasonRefused, message, generation)
}

// NoConflicts reports that all clusters that export the service agree.
func NoConflicts(generation int64) metav1.Condition {
	return condition(ExportConflict, metav1.ConditionFalse, ExportReasonNoConflicts, "All clusters that export the service agree", generation)
}

// Conflicting reports about what they differ, and which of them is followed.
func Conflicting(generation int64, reasons []ConflictReason, message string) metav1.Condition {
	names := make([]string, len(reasons))
	for i, reason := range reasons {
		names[i] = string(reason)
	}
	return condition(ExportConflict, metav1.ConditionTrue, strings.Join(names, ","), message, generation)
}

// ImportIsReady reports that the service can be used.
func ImportIsReady(generation int64) metav1.Condition {
	return condition(ImportReady, metav1.ConditionTrue, ImportReasonReady, "The service can be used", generation)
}

// ImportPending describes what the service waits for.
func ImportPending(generation int64, message string) metav1.Condition {
	return condition(ImportReady, metav1.ConditionFalse, ImportReasonPending, message, generation)
}

// IPFamilyNotSupported reports that the cluster has no addresses of the families in which the service is exported.
func IPFamilyNotSupported(generation int64, message string) metav1.Condition {
	return condition(ImportReady, metav1.ConditionFalse, ImportReasonIPFamilyNotSupported, message, generation)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string, generation int64) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
}
