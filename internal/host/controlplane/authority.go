package controlplane

import "github.com/flagship-k8s/flagship/internal/host/apiserver/credentials"

// AuthorityStep is a step in the replacement of the certificate authorities.
type AuthorityStep = credentials.AuthorityStep

// AuthoritySteps are all steps, in their order.
func AuthoritySteps() []AuthorityStep { return credentials.AuthoritySteps() }

// RotateAuthority takes a step in the replacement of the certificate authorities of the control plane with this data
// directory, which must not run.
func RotateAuthority(dataDir string, step AuthorityStep) error {
	return credentials.RotateAuthority(dataDir, step)
}
