package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ServerConfiguration is the file of flagship server --config. Each field is the flag of the same name, --bind-address for bindAddress,
// with its meaning, unit and default (docs/reference/configuration.md has them); a flag on the command line wins, and so does its
// variable in the environment. A field that is not set changes nothing. The fields that the page names so are read again while the server runs.
//
// +kubebuilder:object:root=true
type ServerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// General.

	// DataDir is --data-dir.
	// +optional
	DataDir *string `json:"dataDir,omitempty"`

	// Name is --name.
	// +optional
	Name *string `json:"name,omitempty"`

	// BindAddress is --bind-address.
	// +optional
	BindAddress *string `json:"bindAddress,omitempty"`

	// Port is --port.
	// +optional
	Port *int32 `json:"port,omitempty"`

	// AdvertiseAddress is --advertise-address.
	// +optional
	AdvertiseAddress *string `json:"advertiseAddress,omitempty"`

	// TLSSANs is --tls-san.
	// +optional
	// +listType=atomic
	TLSSANs []string `json:"tlsSan,omitempty"`

	// Profiling is --profiling.
	// +optional
	Profiling *bool `json:"profiling,omitempty"`

	// TracingConfigFile is --tracing-config-file.
	// +optional
	TracingConfigFile *string `json:"tracingConfigFile,omitempty"`

	// V is --v.
	// +optional
	V *int32 `json:"v,omitempty"`

	// Storage.

	// EtcdServers is --etcd-servers.
	// +optional
	// +listType=atomic
	EtcdServers []string `json:"etcdServers,omitempty"`

	// EtcdCAFile is --etcd-cafile.
	// +optional
	EtcdCAFile *string `json:"etcdCafile,omitempty"`

	// EtcdCertFile is --etcd-certfile.
	// +optional
	EtcdCertFile *string `json:"etcdCertfile,omitempty"`

	// EtcdKeyFile is --etcd-keyfile.
	// +optional
	EtcdKeyFile *string `json:"etcdKeyfile,omitempty"`

	// EtcdPrefix is --etcd-prefix.
	// +optional
	EtcdPrefix *string `json:"etcdPrefix,omitempty"`

	// NamespaceObjectLimit is --namespace-object-limit.
	// +optional
	NamespaceObjectLimit *int64 `json:"namespaceObjectLimit,omitempty"`

	// NamespaceSizeLimit is --namespace-size-limit.
	// +optional
	NamespaceSizeLimit *string `json:"namespaceSizeLimit,omitempty"`

	// StorageQuota is --storage-quota.
	// +optional
	StorageQuota *string `json:"storageQuota,omitempty"`

	// Encryption.

	// PlainSecrets is --plain-secrets.
	// +optional
	PlainSecrets *bool `json:"plainSecrets,omitempty"`

	// EncryptionProviderConfig is --encryption-provider-config.
	// +optional
	EncryptionProviderConfig *string `json:"encryptionProviderConfig,omitempty"`

	// EncryptionProviderConfigAutomaticReload is --encryption-provider-config-automatic-reload.
	// +optional
	EncryptionProviderConfigAutomaticReload *bool `json:"encryptionProviderConfigAutomaticReload,omitempty"`

	// Audit.

	// AuditPolicyFile is --audit-policy-file.
	// +optional
	AuditPolicyFile *string `json:"auditPolicyFile,omitempty"`

	// AuditLogPath is --audit-log-path.
	// +optional
	AuditLogPath *string `json:"auditLogPath,omitempty"`

	// AuditLogMaxAge is --audit-log-maxage.
	// +optional
	AuditLogMaxAge *int32 `json:"auditLogMaxage,omitempty"`

	// AuditLogMaxBackup is --audit-log-maxbackup.
	// +optional
	AuditLogMaxBackup *int32 `json:"auditLogMaxbackup,omitempty"`

	// AuditLogMaxSize is --audit-log-maxsize.
	// +optional
	AuditLogMaxSize *int32 `json:"auditLogMaxsize,omitempty"`

	// AuditWebhookConfigFile is --audit-webhook-config-file.
	// +optional
	AuditWebhookConfigFile *string `json:"auditWebhookConfigFile,omitempty"`

	// Authentication.

	// AuthenticationConfig is --authentication-config.
	// +optional
	AuthenticationConfig *string `json:"authenticationConfig,omitempty"`

	// AuthenticationTokenWebhookConfigFile is --authentication-token-webhook-config-file.
	// +optional
	AuthenticationTokenWebhookConfigFile *string `json:"authenticationTokenWebhookConfigFile,omitempty"`

	// EnableBootstrapTokenAuth is --enable-bootstrap-token-auth.
	// +optional
	EnableBootstrapTokenAuth *bool `json:"enableBootstrapTokenAuth,omitempty"`

	// AuthorizationWebhookConfigFile is --authorization-webhook-config-file.
	// +optional
	AuthorizationWebhookConfigFile *string `json:"authorizationWebhookConfigFile,omitempty"`

	// Members.

	// ShardMembers is --shard-members.
	// +optional
	ShardMembers *bool `json:"shardMembers,omitempty"`
	// AllowLoopbackMembers is --allow-loopback-members.
	// +optional
	AllowLoopbackMembers *bool `json:"allowLoopbackMembers,omitempty"`

	// ConversionService is --conversion-service.
	// +optional
	ConversionService map[string]string `json:"conversionService,omitempty"`

	// SkippedPropagatingNamespaces is --skipped-propagating-namespaces.
	// +optional
	// +listType=atomic
	SkippedPropagatingNamespaces []string `json:"skippedPropagatingNamespaces,omitempty"`

	// NoRenewalTokens is --no-renewal-tokens.
	// +optional
	NoRenewalTokens *bool `json:"noRenewalTokens,omitempty"`

	// NoMemberEvents is --no-member-events.
	// +optional
	NoMemberEvents *bool `json:"noMemberEvents,omitempty"`

	// ClusterProbePeriod is --cluster-probe-period.
	// +optional
	ClusterProbePeriod *metav1.Duration `json:"clusterProbePeriod,omitempty"`

	// ClusterFailureThreshold is --cluster-failure-threshold.
	// +optional
	ClusterFailureThreshold *metav1.Duration `json:"clusterFailureThreshold,omitempty"`

	// ClusterSuccessThreshold is --cluster-success-threshold.
	// +optional
	ClusterSuccessThreshold *metav1.Duration `json:"clusterSuccessThreshold,omitempty"`

	// ClusterMonitorPeriod is --cluster-monitor-period.
	// +optional
	ClusterMonitorPeriod *metav1.Duration `json:"clusterMonitorPeriod,omitempty"`

	// ClusterMonitorGracePeriod is --cluster-monitor-grace-period.
	// +optional
	ClusterMonitorGracePeriod *metav1.Duration `json:"clusterMonitorGracePeriod,omitempty"`

	// ClusterStartupGracePeriod is --cluster-startup-grace-period.
	// +optional
	ClusterStartupGracePeriod *metav1.Duration `json:"clusterStartupGracePeriod,omitempty"`

	// DegradedAfter is --degraded-after.
	// +optional
	DegradedAfter *metav1.Duration `json:"degradedAfter,omitempty"`

	// ServiceGrace is --service-grace.
	// +optional
	ServiceGrace *metav1.Duration `json:"serviceGrace,omitempty"`

	// Failover.

	// GracefulEvictionTimeout is --graceful-eviction-timeout.
	// +optional
	GracefulEvictionTimeout *metav1.Duration `json:"gracefulEvictionTimeout,omitempty"`

	// AllowNoExecuteTaintPolicy is --allow-no-execute-taint-policy.
	// +optional
	AllowNoExecuteTaintPolicy *bool `json:"allowNoExecuteTaintPolicy,omitempty"`

	// ResourceEvictionRate is --resource-eviction-rate.
	// +optional
	ResourceEvictionRate *float64 `json:"resourceEvictionRate,omitempty"` //nolint:kubeapilinter // a share or a rate, as in the configuration of kube-controller-manager

	// EnableNoExecuteTaintEviction is --enable-no-execute-taint-eviction.
	// +optional
	EnableNoExecuteTaintEviction *bool `json:"enableNoExecuteTaintEviction,omitempty"`

	// NoExecuteTaintEvictionPurgeMode is --no-execute-taint-eviction-purge-mode.
	// +optional
	NoExecuteTaintEvictionPurgeMode *string `json:"noExecuteTaintEvictionPurgeMode,omitempty"`

	// ClusterFailoverGracePeriod is --cluster-failover-grace-period.
	// +optional
	ClusterFailoverGracePeriod *metav1.Duration `json:"clusterFailoverGracePeriod,omitempty"`

	// ClusterEvictionRate is --cluster-eviction-rate.
	// +optional
	ClusterEvictionRate *float64 `json:"clusterEvictionRate,omitempty"` //nolint:kubeapilinter // a share or a rate, as in the configuration of kube-controller-manager

	// SecondaryClusterEvictionRate is --secondary-cluster-eviction-rate.
	// +optional
	SecondaryClusterEvictionRate *float64 `json:"secondaryClusterEvictionRate,omitempty"` //nolint:kubeapilinter // a share or a rate, as in the configuration of kube-controller-manager

	// UnhealthyZoneThreshold is --unhealthy-zone-threshold.
	// +optional
	UnhealthyZoneThreshold *float64 `json:"unhealthyZoneThreshold,omitempty"` //nolint:kubeapilinter // a share or a rate, as in the configuration of kube-controller-manager

	// LargeZoneSizeThreshold is --large-zone-size-threshold.
	// +optional
	LargeZoneSizeThreshold *int32 `json:"largeZoneSizeThreshold,omitempty"`

	// EvictionShare is --eviction-share.
	// +optional
	EvictionShare *float64 `json:"evictionShare,omitempty"` //nolint:kubeapilinter // a share or a rate, as in the configuration of kube-controller-manager

	// FailoverObservationPeriod is --failover-observation-period.
	// +optional
	FailoverObservationPeriod *metav1.Duration `json:"failoverObservationPeriod,omitempty"`

	// Descheduling.

	// DeschedulingInterval is --descheduling-interval.
	// +optional
	DeschedulingInterval *metav1.Duration `json:"deschedulingInterval,omitempty"`

	// UnschedulableThreshold is --unschedulable-threshold.
	// +optional
	UnschedulableThreshold *metav1.Duration `json:"unschedulableThreshold,omitempty"`

	// History.

	// HistoryLimit is --history-limit.
	// +optional
	HistoryLimit *int32 `json:"historyLimit,omitempty"`

	// UndeletePeriod is --undelete-period.
	// +optional
	UndeletePeriod *metav1.Duration `json:"undeletePeriod,omitempty"`

	// Brake.

	// BrakeShare is --brake-share.
	// +optional
	BrakeShare *float64 `json:"brakeShare,omitempty"` //nolint:kubeapilinter // a share or a rate, as in the configuration of kube-controller-manager

	// BrakeWindow is --brake-window.
	// +optional
	BrakeWindow *metav1.Duration `json:"brakeWindow,omitempty"`

	// BrakeMinimum is --brake-minimum.
	// +optional
	BrakeMinimum *int32 `json:"brakeMinimum,omitempty"`
}

// AgentConfiguration is the file of flagship agent --config; its fields are flags as those of a ServerConfiguration are. The name of the
// cluster is an argument.
//
// +kubebuilder:object:root=true
type AgentConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// DataDir is --data-dir.
	// +optional
	DataDir *string `json:"dataDir,omitempty"`

	// V is --v.
	// +optional
	V *int32 `json:"v,omitempty"`

	// CredentialSecret is --credential-secret.
	// +optional
	CredentialSecret *string `json:"credentialSecret,omitempty"`

	// BootstrapKubeconfig is --bootstrap-kubeconfig.
	// +optional
	BootstrapKubeconfig *string `json:"bootstrapKubeconfig,omitempty"`

	// ClusterKubeconfig is --cluster-kubeconfig.
	// +optional
	ClusterKubeconfig *string `json:"clusterKubeconfig,omitempty"`

	// ClusterContext is --cluster-context.
	// +optional
	ClusterContext *string `json:"clusterContext,omitempty"`

	// HealthProbeBindAddress is --health-probe-bind-address.
	// +optional
	HealthProbeBindAddress *string `json:"healthProbeBindAddress,omitempty"`

	// MetricsBindAddress is --metrics-bind-address.
	// +optional
	MetricsBindAddress *string `json:"metricsBindAddress,omitempty"`

	// PProfBindAddress is --pprof-bind-address.
	// +optional
	PProfBindAddress *string `json:"pprofBindAddress,omitempty"`

	// LeaderElect is --leader-elect.
	// +optional
	LeaderElect *bool `json:"leaderElect,omitempty"`

	// ClusterLeaseDuration is --cluster-lease-duration.
	// +optional
	ClusterLeaseDuration *metav1.Duration `json:"clusterLeaseDuration,omitempty"`

	// ClusterProbePeriod is --cluster-probe-period.
	// +optional
	ClusterProbePeriod *metav1.Duration `json:"clusterProbePeriod,omitempty"`

	// ClusterFailureThreshold is --cluster-failure-threshold.
	// +optional
	ClusterFailureThreshold *metav1.Duration `json:"clusterFailureThreshold,omitempty"`

	// ClusterSuccessThreshold is --cluster-success-threshold.
	// +optional
	ClusterSuccessThreshold *metav1.Duration `json:"clusterSuccessThreshold,omitempty"`

	// DegradedAfter is --degraded-after.
	// +optional
	DegradedAfter *metav1.Duration `json:"degradedAfter,omitempty"`

	// TracingEndpoint is --tracing-endpoint.
	// +optional
	TracingEndpoint *string `json:"tracingEndpoint,omitempty"`

	// TracingSamplingRatePerMillion is --tracing-sampling-rate-per-million.
	// +optional
	TracingSamplingRatePerMillion *int32 `json:"tracingSamplingRatePerMillion,omitempty"`

	// AllowLoopbackWebhooks is --allow-loopback-webhooks.
	// +optional
	AllowLoopbackWebhooks *bool `json:"allowLoopbackWebhooks,omitempty"`

	// NoMemberEvents is --no-member-events.
	// +optional
	NoMemberEvents *bool `json:"noMemberEvents,omitempty"`

	// BrakeShare is --brake-share.
	// +optional
	BrakeShare *float64 `json:"brakeShare,omitempty"` //nolint:kubeapilinter // a share or a rate, as in the configuration of kube-controller-manager

	// BrakeWindow is --brake-window.
	// +optional
	BrakeWindow *metav1.Duration `json:"brakeWindow,omitempty"`

	// BrakeMinimum is --brake-minimum.
	// +optional
	BrakeMinimum *int32 `json:"brakeMinimum,omitempty"`
}
