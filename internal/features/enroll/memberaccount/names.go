package memberaccount

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	// FieldManager is the name under which we write, in both API servers.
	FieldManager = "flagship-enroll"
	// Impersonator is the service account, role and binding that may only impersonate.
	Impersonator = "karmada-impersonator"
	// KubeSystem is the namespace whose uid is the identity of a cluster.
	KubeSystem = "kube-system"
)

// controllerAccount is the service account that the control plane works as in a member.
func controllerAccount(cluster string) string { return "karmada-" + cluster }

// ControllerRole is the name of that account's ClusterRole and ClusterRoleBinding.
func ControllerRole(cluster string) string {
	return "karmada-controller-manager:" + controllerAccount(cluster)
}

// ImpersonatorWorks are the names of the Works with the rights of the impersonator, in the execution namespace of each cluster: of its
// ClusterRole, its ClusterRoleBinding and its Roles. The first two are those of the contract.
func ImpersonatorWorks() []string {
	return []string{
		workv1alpha1.WorkName("ClusterRole", "", Impersonator), workv1alpha1.WorkName("ClusterRoleBinding", "", Impersonator),
		workv1alpha1.WorkName("Role", "", Impersonator),
	}
}

// CheckName refuses names that the names derived from them would make illegal.
func CheckName(cluster string) error {
	if problems := validation.IsDNS1123Label(cluster); len(problems) > 0 {
		return fmt.Errorf("cluster name %q: %s", cluster, strings.Join(problems, "; "))
	}
	if len(cluster) > clusterv1alpha1.MaxClusterNameLength {
		return fmt.Errorf("cluster name %q has more than %d characters", cluster, clusterv1alpha1.MaxClusterNameLength)
	}
	return nil
}
