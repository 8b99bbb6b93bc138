package controlplane

import (
	"fmt"

	"github.com/flagship-k8s/flagship/internal/knowledge/version"
)

// userAgent is what the audit log of a member names the control plane.
func userAgent(id string) string {
	return fmt.Sprintf("flagship/%s (control-plane %s)", version.Get().Version, id)
}
