package evict

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

// mayMove returns how the object leaves a cluster; empty if it must not for now. What has persistent volumes moves only if the policy
// has the annotation, and leaves one cluster at a time. An exclusive object leaves only a cluster that can confirm its end, or is fenced: until
// then its Work stays as it is, so that a cluster that is ready again has it unchanged.
func (p *pass) mayMove(ctx context.Context, cluster *clusterv1alpha1.Cluster) (policyv1alpha1.PurgeMode, error) {
	exclusive := eviction.IsExclusive(p.before)
	if !exclusive {
		stateful, err := p.isStateful(ctx)
		if err != nil {
			return "", err
		}
		if !stateful {
			return p.purgeMode(), nil
		}
		if p.before.GetAnnotations()[policyv1alpha1.HandoverAnnotation] != policyv1alpha1.HandoverOverlap {
			p.wait(workv1alpha2.HandoverNotAllowedReason,
				"The copy in cluster %s stays: the object has persistent volumes, and its policy lacks the annotation %s", cluster.Name, policyv1alpha1.HandoverAnnotation)
			return "", nil
		}
	}
	if len(p.next.BindingSpec().GracefulEvictionTasks) > 0 {
		return "", nil // one cluster at a time; the end of a task enqueues the binding
	}
	if !exclusive {
		return p.purgeMode(), nil
	}
	if !isReady(cluster) && !clusterv1alpha1.IsFenced(cluster) {
		p.wait(workv1alpha2.AwaitsEndReason,
			"The copy in cluster %s stays: the cluster cannot confirm its end. Confirm with the annotation %s on the Cluster that it is fenced",
			cluster.Name, clusterv1alpha1.FencedAnnotation)
		return "", nil
	}
	return policyv1alpha1.PurgeModeDirectly, nil
}

// isStateful returns whether the object has persistent volumes.
func (p *pass) isStateful(ctx context.Context) (bool, error) {
	return eviction.IsStateful(p.before, func() (*unstructured.Unstructured, error) {
		return p.Templates.Get(ctx, hubstore.TemplateOf(p.before.BindingSpec()))
	})
}
