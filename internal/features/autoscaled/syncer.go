package autoscaled

import (
	"context"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
)

// syncer sets the replicas of templates to what their members have. It reconciles one binding at a time.
type syncer struct {
	client    client.Client
	templates Templates
}

// follows returns whether the template of a binding is of those whose replicas follow the members', if it has the label.
func follows(binding *workv1alpha2.ResourceBinding) bool {
	of, placement := binding.Spec.Resource, binding.Spec.Placement
	return of.APIVersion == appsv1.SchemeGroupVersion.String() && of.Kind == "Deployment" && placement != nil && placement.ReplicaScheduling != nil &&
		placement.ReplicaScheduling.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDivided
}

// Reconcile implements reconcile.TypedReconciler.
func (s *syncer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	binding := &workv1alpha2.ResourceBinding{}
	if err := s.client.Get(ctx, request.NamespacedName, binding, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ref := hubstore.TemplateOf(&binding.Spec)
	meta, ok := s.templates.Meta(ref)
	if !ok || !follows(binding) || meta.DeletionTimestamp != nil || meta.UID != binding.Spec.Resource.UID || meta.Labels[policyv1alpha1.RetainReplicasLabel] != "true" {
		return reconcile.Result{}, nil
	}
	total, settled := observed(binding, meta.Generation)
	if !settled || total == binding.Spec.Replicas {
		return reconcile.Result{}, nil
	}
	err := s.templates.Scale(ctx, ref, meta, total)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// report is what of a member's status counts.
type report struct {
	appsv1.DeploymentStatus    `json:",inline"`
	Generation                 int64 `json:"generation"`
	ResourceTemplateGeneration int64 `json:"resourceTemplateGeneration"`
}

// observed returns how many replicas the members have together. It is settled if the scheduler and every member have followed the
// generation of the template, nothing moves, and no member is rolling out or scaling: then an autoscaler alone changes it. None at all
// is no number that an autoscaler chooses, so it does not count.
func observed(binding *workv1alpha2.ResourceBinding, generation int64) (total int32, settled bool) {
	if binding.Status.SchedulerObservedGeneration != binding.Generation || len(binding.Spec.GracefulEvictionTasks) > 0 || len(binding.Spec.Clusters) == 0 {
		return 0, false
	}
	items := map[string]*workv1alpha2.AggregatedStatusItem{}
	for i := range binding.Status.AggregatedStatus {
		items[binding.Status.AggregatedStatus[i].ClusterName] = &binding.Status.AggregatedStatus[i]
	}
	var divided int32
	for _, target := range binding.Spec.Clusters {
		divided += target.Replicas
		item := items[target.Name]
		var r report
		if item == nil || !item.Applied || item.Status == nil || json.Unmarshal(item.Status.Raw, &r) != nil {
			return 0, false
		}
		// Available and unavailable together are what the member's controller aims at, as soon as it has seen the generation.
		wanted := r.AvailableReplicas + r.UnavailableReplicas
		if r.ResourceTemplateGeneration < generation || r.ObservedGeneration < r.Generation || wanted == 0 || r.Replicas != wanted || r.UpdatedReplicas != wanted {
			return 0, false
		}
		total += wanted
	}
	return total, divided == binding.Spec.Replicas
}
