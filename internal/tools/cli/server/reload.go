package server

import (
	"github.com/spf13/pflag"

	"github.com/flagship-k8s/flagship/internal/tools/cli/settings"
)

// markReloaded marks which fields of the configuration file change while a server runs: what loops read at each turn. The others are read
// once: where the server listens, where it stores and how, whom it trusts, which loops there are, and what all servers on one etcd have to
// agree on.
func markReloaded(f *pflag.FlagSet) {
	settings.Reload(f,
		"v", "namespace-object-limit", "namespace-size-limit",
		"cluster-probe-period", "cluster-failure-threshold", "cluster-success-threshold", "cluster-monitor-period", "cluster-monitor-grace-period",
		"cluster-startup-grace-period", "degraded-after", "service-grace",
		"graceful-eviction-timeout", "resource-eviction-rate", "cluster-failover-grace-period", "cluster-eviction-rate",
		"secondary-cluster-eviction-rate", "unhealthy-zone-threshold", "large-zone-size-threshold", "eviction-share", "failover-observation-period",
		"descheduling-interval", "unschedulable-threshold", "history-limit", "undelete-period",
		"brake-share", "brake-minimum",
	)
	settings.AtStart(f,
		"data-dir", "name", "bind-address", "port", "advertise-address", "tls-san", "profiling", "tracing-config-file",
		"etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-prefix", "storage-quota",
		"plain-secrets", "encryption-provider-config", "encryption-provider-config-automatic-reload",
		"audit-policy-file", "audit-log-path", "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize", "audit-webhook-config-file",
		"authentication-config", "authentication-token-webhook-config-file", "enable-bootstrap-token-auth", "authorization-webhook-config-file",
		"shard-members", "allow-loopback-members", "conversion-service", "skipped-propagating-namespaces", "no-renewal-tokens", "no-member-events",
		"allow-no-execute-taint-policy", "enable-no-execute-taint-eviction", "no-execute-taint-eviction-purge-mode",
		"brake-window", // what was counted is in parts of it
	)
}
