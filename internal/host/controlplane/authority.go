package controlplane

import "github.com/flagship-k8s/flagship/internal/host/apiserver"

// AuthorityStep is a step in the replacement of the certificate authorities.
type AuthorityStep = apiserver.AuthorityStep

// AuthoritySteps are all steps, in their order.
func AuthoritySteps() []AuthorityStep { return apiserver.AuthoritySteps() }

// RotateAuthority takes a step in the replacement of the certificate authorities of the control plane with this data
// directory, which must not run.
func RotateAuthority(dataDir string, step AuthorityStep) error {
	return apiserver.RotateAuthority(dataDir, step)
}
