package access

import (
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

const (
	// auditDir is where the audit log is, in the data directory.
	auditDir = "audit"
	// auditPolicyFile is the built-in audit policy in a data directory.
	auditPolicyFile = "audit-policy.yaml"
	// Together these bound the audit log to one gigabyte: the current file and nine before it.
	auditMaxSize    = 100 // megabytes
	auditMaxBackups = 9
	auditMaxAge     = 90 // days
)

// NoAuditLog as Audit.LogPath keeps no audit log.
const NoAuditLog = "none"

// Audit configures what is recorded of requests to a hub, and where.
type Audit struct {
	// PolicyFile is the path of an audit policy; empty means the built-in one, which records the metadata of writes that users
	// make, and of every request that reads or writes something in a member.
	PolicyFile string
	// LogPath is the log file, "-" for standard output, NoAuditLog for none; empty means audit/audit.log in DataDir.
	LogPath string
	// MaxAge is for how many days an old log file is kept; 0 means 90.
	MaxAge int
	// MaxBackups is how many old log files are kept; 0 means 9.
	MaxBackups int
	// MaxSize is how large a log file becomes, in megabytes; 0 means 100.
	MaxSize int
	// WebhookConfigFile is the path of a kubeconfig that leads to a webhook for audit events; empty means none.
	WebhookConfigFile string
}

// Complete checks the values and fills in defaults.
func (a Audit) Complete(dataDir string) (Audit, error) {
	if a.MaxAge < 0 || a.MaxBackups < 0 || a.MaxSize < 0 {
		return a, errors.New("age, number and size of audit log files cannot be negative")
	}
	for value, unset := range map[*int]int{&a.MaxAge: auditMaxAge, &a.MaxBackups: auditMaxBackups, &a.MaxSize: auditMaxSize} {
		if *value == 0 {
			*value = unset
		}
	}
	if a.LogPath == "" {
		a.LogPath = filepath.Join(dataDir, auditDir, "audit.log")
	}
	return a, nil
}

// auditPolicy is the built-in policy. What the control plane does itself is left out: it is in conditions and events, and is
// most of all requests. What it does for a user is not: it does that as the user. Of questions whose answers may have something of members the
// spec is recorded, which has nothing but names; a Preview may have Secrets in it. Left out are reads, and writes that only report: events,
// leases, statuses, and questions about rights.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver"]
- level: Metadata
  resources:
  - group: cluster.karmada.io
    resources: [clusters/proxy]
  - group: search.karmada.io
    resources: ["proxying/*", "search/*"]
- level: Metadata
  nonResourceURLs: ["/flagship/*"]
- level: Request
  resources:
  - group: fleet.flagship.io
    resources: [explanations, driftreports, timelines, histories, undeletions]
- level: None
  verbs: [get, list, watch]
- level: None
  resources:
  - group: ""
    resources: [events, "*/status"]
  - group: events.k8s.io
  - group: coordination.k8s.io
  - group: authorization.k8s.io
  - group: authentication.k8s.io
    resources: [tokenreviews, selfsubjectreviews]
  - group: "*"
    resources: ["*/status"]
- level: Metadata
`

// Apply sets the options of the API server.
func (a Audit) Apply(o *options.ServerRunOptions, dataDir string) error {
	o.Audit.PolicyFile = a.PolicyFile
	if o.Audit.PolicyFile == "" {
		o.Audit.PolicyFile = filepath.Join(dataDir, auditPolicyFile)
		if err := atomicfile.Write(o.Audit.PolicyFile, []byte(auditPolicy), 0o600); err != nil {
			return fmt.Errorf("writing the audit policy: %w", err)
		}
	}
	if a.LogPath != NoAuditLog {
		o.Audit.LogOptions.Path = a.LogPath
	}
	o.Audit.LogOptions.MaxAge = a.MaxAge
	o.Audit.LogOptions.MaxBackups = a.MaxBackups
	o.Audit.LogOptions.MaxSize = a.MaxSize
	o.Audit.WebhookOptions.ConfigFile = a.WebhookConfigFile
	return nil
}
