package events

// Reasons of events on Clusters.
const (
	CreateExecutionSpaceFailed     = "CreateExecutionSpaceFailed"
	CreateExecutionSpaceSucceed    = "CreateExecutionSpaceSucceed"
	RemoveExecutionSpaceFailed     = "RemoveExecutionSpaceFailed"
	RemoveExecutionSpaceSucceed    = "RemoveExecutionSpaceSucceed"
	TaintClusterFailed             = "TaintClusterFailed"
	TaintClusterSucceed            = "TaintClusterSucceed"
	SyncImpersonationConfigFailed  = "SyncImpersonationConfigFailed"
	SyncImpersonationConfigSucceed = "SyncImpersonationConfigSucceed"
	RenewCredentialsFailed         = "RenewCredentialsFailed"
	LeaveMemberFailed              = "LeaveMemberFailed"
	KeepObjects                    = "KeepObjects"
	DeleteObjects                  = "DeleteObjects"
	NamespaceReleased              = "NamespaceReleased"
	BrakeEngaged                   = "BrakeEngaged"
	BrakeReleased                  = "BrakeReleased"
	MemberEventsNotReadable        = "MemberEventsNotReadable"
)

// Reasons of events on Works and on their objects.
const (
	SyncFailed             = "SyncFailed"
	SyncSucceed            = "SyncSucceed"
	ReflectStatusFailed    = "ReflectStatusFailed"
	ReflectStatusSucceed   = "ReflectStatusSucceed"
	InterpretHealthFailed  = "InterpretHealthFailed"
	InterpretHealthSucceed = "InterpretHealthSucceed"
	WorkDispatching        = "WorkDispatching"
	WorkOrphaned           = "WorkOrphaned"
	RestoreWork            = "RestoreWork"
)

// Reasons of events on bindings and their templates.
const (
	RemovalWaits                            = "RemovalWaits"
	RestoreBinding                          = "RestoreBinding"
	CleanupWorkFailed                       = "CleanupWorkFailed"
	SyncWorkFailed                          = "SyncWorkFailed"
	SyncWorkSucceed                         = "SyncWorkSucceed"
	AggregateStatusFailed                   = "AggregateStatusFailed"
	AggregateStatusSucceed                  = "AggregateStatusSucceed"
	ScheduleBindingFailed                   = "ScheduleBindingFailed"
	ScheduleBindingSucceed                  = "ScheduleBindingSucceed"
	DescheduleBindingFailed                 = "DescheduleBindingFailed"
	DescheduleBindingSucceed                = "DescheduleBindingSucceed"
	EvictWorkloadFromClusterFailed          = "EvictWorkloadFromClusterFailed"
	EvictWorkloadFromClusterSucceed         = "EvictWorkloadFromClusterSucceed"
	SyncScheduleResultToDependenciesSucceed = "SyncScheduleResultToDependenciesSucceed"
	DependencyPolicyConflict                = "DependencyPolicyConflict"
)

// Reasons of events on templates.
const (
	ApplyPolicyFailed          = "ApplyPolicyFailed"
	ApplyPolicySucceed         = "ApplyPolicySucceed"
	StaysOnControlPlane        = "StaysOnControlPlane"
	ApplyOverridePolicyFailed  = "ApplyOverridePolicyFailed"
	ApplyOverridePolicySucceed = "ApplyOverridePolicySucceed"
	PreemptPolicySucceed       = "PreemptPolicySucceed"
	GetDependenciesFailed      = "GetDependenciesFailed"
	GetDependenciesSucceed     = "GetDependenciesSucceed"
	GetReplicasFailed          = "GetReplicasFailed"
	GetReplicasSucceed         = "GetReplicasSucceed"
	GetComponentsFailed        = "GetComponentsFailed"
	GetComponentsSucceed       = "GetComponentsSucceed"
	FieldPutBack               = "FieldPutBack"
	FieldDrifted               = "FieldDrifted"
	ObjectCreatedAgain         = "ObjectCreatedAgain"
	FinishedObjectRemoved      = "FinishedObjectRemoved"
	DivisionWarning            = "DivisionWarning"
)

// Reasons of events on Namespaces of the control plane.
const (
	NamespaceNearLimit    = "NamespaceNearLimit"
	NamespaceLimitReached = "NamespaceLimitReached"
	// StorageNearQuota is on the namespace of the control plane, karmada-system.
	StorageNearQuota = "StorageNearQuota"
)

// Reasons of events on definitions.
const (
	DefinitionTightened = "DefinitionTightened"
)

// Reasons of events on multi-cluster services.
const (
	SyncDerivedServiceFailed     = "SyncDerivedServiceFailed"
	SyncDerivedServiceSucceed    = "SyncDerivedServiceSucceed"
	SyncServiceFailed            = "SyncServiceFailed"
	SyncServiceSucceed           = "SyncServiceSucceed"
	DispatchEndpointSliceFailed  = "DispatchEndpointSliceFailed"
	DispatchEndpointSliceSucceed = "DispatchEndpointSliceSucceed"
	ClusterNotFound              = "ClusterNotFound"
)
