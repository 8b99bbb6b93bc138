package membership

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/client-go/kubernetes"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
)

// Holding is a control plane that gets a member, or has one.
type Holding struct {
	// Cluster is the name of the member there, ControlPlane its id.
	Cluster, ControlPlane string
	// Known means that the control plane has the member already.
	Known bool
	// Share allows that other control planes have the member, too.
	Share bool
}

// Suffix returns what the names of the control plane's accounts in the member end with. It refuses a member that others have, unless
// Share is set.
func (h Holding) Suffix(ctx context.Context, member kubernetes.Interface) (string, error) {
	accounts, err := memberaccount.AccountsIn(ctx, member)
	if err != nil {
		return "", err
	}
	others := memberaccount.Holders(accounts, h.Cluster, h.ControlPlane, h.Known)
	if len(others) > 0 && !h.Share {
		return "", fmt.Errorf("the cluster is a member of another control plane: %s; --share joins it all the same, and each control plane keeps its own objects",
			strings.Join(others, ", "))
	}
	return memberaccount.Suffix(accounts, h.Cluster, h.ControlPlane, len(others) > 0), nil
}

// Mark creates an account without rights in the member, by which other control planes recognize that it has an agent. An account that
// exists stays as it is.
func (h Holding) Mark(ctx context.Context, member kubernetes.Interface) error {
	accounts, err := memberaccount.AccountsIn(ctx, member)
	if err != nil || memberaccount.Holds(accounts, h.ControlPlane) {
		return err
	}
	suffix, err := h.Suffix(ctx, member)
	if err != nil {
		return err
	}
	return installPatiently(ctx, memberaccount.ControllerOf(h.Cluster).Suffixed(suffix).Of(h.ControlPlane), member)
}
