package enroll

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/event"
)

func reference(cluster *clusterv1alpha1.Cluster) corev1.ObjectReference {
	return event.Reference(clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"), cluster)
}

func spaceCreated(cluster *clusterv1alpha1.Cluster) event.Event {
	return event.Normal(reference(cluster), event.CreateExecutionSpaceSucceed,
		fmt.Sprintf("Created the execution namespace %s", workv1alpha1.ExecutionNamespace(cluster.Name)))
}

func spaceNotCreated(cluster *clusterv1alpha1.Cluster, err error) event.Event {
	return event.Warning(reference(cluster), event.CreateExecutionSpaceFailed, err.Error())
}

func spaceRemoved(cluster *clusterv1alpha1.Cluster) event.Event {
	return event.Normal(reference(cluster), event.RemoveExecutionSpaceSucceed,
		fmt.Sprintf("Removed the execution namespace %s", workv1alpha1.ExecutionNamespace(cluster.Name)))
}

func spaceNotRemoved(cluster *clusterv1alpha1.Cluster, err error) event.Event {
	return event.Warning(reference(cluster), event.RemoveExecutionSpaceFailed, err.Error())
}

// notRenewed is told long before it hurts: the old token has a third of its life left when the first attempt is made.
func notRenewed(cluster *clusterv1alpha1.Cluster, err error) event.Event {
	return event.Warning(reference(cluster), event.RenewCredentialsFailed, err.Error())
}

func notLeft(cluster *clusterv1alpha1.Cluster, err error) event.Event {
	return event.Warning(reference(cluster), event.LeaveMemberFailed, "Left our service accounts in the cluster: "+err.Error())
}
