package v1alpha1

import "strings"

// ownershipDomains are the domains of label and annotation keys that only the control plane writes on objects in members.
var ownershipDomains = map[string]bool{
	"karmada.io":                          true,
	"work.karmada.io":                     true,
	"binding.karmada.io":                  true,
	"resourcebinding.karmada.io":          true,
	"clusterresourcebinding.karmada.io":   true,
	"resourcetemplate.karmada.io":         true,
	"policy.karmada.io":                   true,
	"propagationpolicy.karmada.io":        true,
	"clusterpropagationpolicy.karmada.io": true,
	"namespace.karmada.io":                true,
	"federatedresourcequota.karmada.io":   true,
	"multiclusterservice.karmada.io":      true,
	"endpointslice.karmada.io":            true,
	"serviceexport.karmada.io":            true,
	"serviceimport.karmada.io":            true,
	"flagship.io":                         true,
}

// userKeys are the keys of these domains that users write on their templates.
var userKeys = map[string]bool{
	"resourcetemplate.karmada.io/retain-replicas":    true,
	"resourcetemplate.karmada.io/deletion-protected": true,
	"namespace.karmada.io/skip-auto-propagation":     true,
	"karmada.io/bootstrapping":                       true,
	AllowBreakingAnnotation:                          true,
	AllowDeletionAnnotation:                          true,
	MemberFinalizersAnnotation:                       true,
}

// IsOwnershipKey returns whether a label or annotation key names which control plane, binding, Work or policy an object in a
// member belongs to, or how the control plane may treat it. Only the control plane writes such keys in a member. A new key
// of one of the control plane's domains is an ownership key unless it is listed as a user's.
func IsOwnershipKey(key string) bool {
	domain, name, found := strings.Cut(key, "/")
	if !found || userKeys[key] {
		return false
	}
	return ownershipDomains[domain] || name == "permanent-id" && strings.HasSuffix(domain, ".karmada.io")
}
