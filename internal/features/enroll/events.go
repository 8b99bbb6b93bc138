package enroll

import (
	"fmt"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

func reference(cluster *clusterv1alpha1.Cluster) corev1.ObjectReference {
	return events.Reference(clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"), cluster)
}

func spaceCreated(cluster *clusterv1alpha1.Cluster) events.Event {
	return events.Normal(reference(cluster), events.CreateExecutionSpaceSucceed,
		fmt.Sprintf("Created the execution namespace %s", workv1alpha1.ExecutionNamespace(cluster.Name)))
}

func spaceNotCreated(cluster *clusterv1alpha1.Cluster, err error) events.Event {
	return events.Warning(reference(cluster), events.CreateExecutionSpaceFailed, err.Error())
}

func spaceRemoved(cluster *clusterv1alpha1.Cluster) events.Event {
	return events.Normal(reference(cluster), events.RemoveExecutionSpaceSucceed,
		fmt.Sprintf("Removed the execution namespace %s", workv1alpha1.ExecutionNamespace(cluster.Name)))
}

func spaceNotRemoved(cluster *clusterv1alpha1.Cluster, err error) events.Event {
	return events.Warning(reference(cluster), events.RemoveExecutionSpaceFailed, err.Error())
}

// notRenewed is published long before the token expires: the old token has a third of its life left when the first attempt is made.
func notRenewed(cluster *clusterv1alpha1.Cluster, err error) events.Event {
	return events.Warning(reference(cluster), events.RenewCredentialsFailed, err.Error())
}

func notLeft(cluster *clusterv1alpha1.Cluster, err error) events.Event {
	return events.Warning(reference(cluster), events.LeaveMemberFailed, fmt.Sprintf("Left our service accounts in the cluster: %v. "+
		"Remove there the ClusterRole and the ClusterRoleBinding %s, and, if no other control plane uses them, those named %s and the namespace %s",
		err, memberaccount.ControllerRole(cluster.Name), memberaccount.Impersonator, clusterv1alpha1.ClusterNamespace))
}

// removalBegun reports how many objects stay in a cluster that is being removed, and how many are deleted there.
func removalBegun(cluster *clusterv1alpha1.Cluster, contents []membership.Contents) events.Event {
	kept, deleted := membership.Count(contents)
	if !isReady(cluster) {
		return events.Warning(reference(cluster), events.KeepObjects,
			fmt.Sprintf("The cluster is not ready: its %d objects stay there with the labels of the control plane", kept+deleted))
	}
	if clusterv1alpha1.DeletesObjects(cluster) {
		return events.Normal(reference(cluster), events.DeleteObjects, fmt.Sprintf(
			"Deleting %d objects in the cluster, as the annotation %s orders; %d objects stay", deleted, clusterv1alpha1.OnRemovalAnnotation, kept))
	}
	return events.Normal(reference(cluster), events.KeepObjects, fmt.Sprintf(
		"Keeping %d objects in the cluster without the labels of the control plane; the annotation %s=%s deletes them instead",
		kept, clusterv1alpha1.OnRemovalAnnotation, clusterv1alpha1.OnRemovalDeleteObjects))
}
