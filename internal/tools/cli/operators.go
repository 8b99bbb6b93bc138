package cli

import (
	"fmt"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// OperatorsHint says what gives operators of the control plane rights in a new member. Who joins a cluster decides that, and no command
// does it by itself.
func OperatorsHint(kubeconfig string) string {
	return fmt.Sprintf("operators have no rights in it yet. For clusters/NAME/proxy, the search API and dashboards, bind their group there, such as to read:\n"+
		"  kubectl --kubeconfig %s create clusterrolebinding flagship-operators --clusterrole=view --group=%s\n", kubeconfig, clusterv1alpha1.OperatorsGroup)
}
