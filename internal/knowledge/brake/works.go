package brake

import (
	"k8s.io/apimachinery/pkg/api/meta"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// ShareOf is what a Work means to the account of its member. Objects that are to stay do not count as leaving. Nil: there is none.
func ShareOf(work *workv1alpha1.Work) Work {
	if work == nil || workv1alpha1.IsRecord(work) {
		return Work{}
	}
	share := Work{Objects: len(work.Spec.Workload.Manifests)}
	if work.DeletionTimestamp != nil && !Preserves(work) {
		share.Leaving = share.Objects
		if workv1alpha1.IsLastCopy(work) {
			share.Last = share.Leaving
		}
	}
	return share
}

// Preserves returns whether the objects of a Work stay in the member when the Work is deleted.
func Preserves(work *workv1alpha1.Work) bool {
	return work.Spec.PreserveResourcesOnDeletion != nil && *work.Spec.PreserveResourcesOnDeletion
}

// Heed applies the annotations and the condition of a Cluster to its account. Own is whether this process writes to the cluster; if not,
// the process that does decides about its brake.
func (b *Brake) Heed(cluster *clusterv1alpha1.Cluster, own bool) {
	b.Exclude(cluster.Name, cluster.DeletionTimestamp != nil && !clusterv1alpha1.DeletesObjects(cluster))
	if !own {
		b.Reset(cluster.Name)
		return
	}
	b.Resume(cluster.Name, meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionBrakeEngaged))
	b.Release(cluster.Name, clusterv1alpha1.BrakeReleasedUntil(cluster))
}
