package autoscaled

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// syncer sets the replicas of templates to what their members have. It reconciles one binding at a time.
type syncer struct {
	client    client.Client
	templates Templates
	events    events.Recorder
	// hpas lists the HPAs that scale a template.
	hpas func(context.Context, hubstore.Ref) ([]autoscalingv2.HorizontalPodAutoscaler, error)
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
	allowed, err := s.allowed(ctx, ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	total, settled, err := observed(binding, meta.Generation, allowed)
	if err != nil {
		s.events.Publish(events.Warning(events.Template(binding.Spec.Resource), events.GetReplicasFailed, err.Error()))
		return reconcile.Result{}, nil // the next report reconciles it again
	}
	if !settled || total == binding.Spec.Replicas {
		return reconcile.Result{}, nil
	}
	err = s.templates.Scale(ctx, ref, meta, total)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// extent is how many replicas the template follows in one cluster.
type extent struct {
	least, most int32
	// scaled is true if they are those of autoscalers. What a member reports beyond these is no number that an autoscaler chose.
	scaled bool
}

// allowed returns the bounds of the autoscalers that are propagated: a member reports what it wants.
func (s *syncer) allowed(ctx context.Context, ref hubstore.Ref) (extent, error) {
	list, err := s.hpas(ctx, ref)
	if err != nil {
		return extent{}, fmt.Errorf("listing the autoscalers of %s: %w", ref, err)
	}
	b := extent{least: 1, most: bounds.MaxFollowed}
	for i := range list {
		hpa := &list[i]
		if hpa.DeletionTimestamp != nil || !policy.IsClaimed(hpa) {
			continue
		}
		least, most := ptr.Deref(hpa.Spec.MinReplicas, 1), hpa.Spec.MaxReplicas
		if b.scaled {
			least, most = min(least, b.least), max(most, b.most)
		}
		b = extent{least: max(least, 1), most: most, scaled: true}
	}
	return b, nil
}

// of returns how many of the replicas that a cluster reports count, or an error if nothing is known of how many there may be.
func (b extent) of(cluster string, reported int64) (int64, error) {
	if !b.scaled && reported > int64(b.most) {
		return 0, fmt.Errorf("cluster %s reports %d replicas: of a template without a propagated HorizontalPodAutoscaler at most %d are followed", cluster, reported, b.most)
	}
	return min(max(reported, int64(b.least)), int64(b.most)), nil
}

// report is what of a member's status counts.
type report struct {
	appsv1.DeploymentStatus    `json:",inline"`
	Generation                 int64 `json:"generation"`
	ResourceTemplateGeneration int64 `json:"resourceTemplateGeneration"`
}

// reportOf reads the report of a cluster, false if it has applied nothing or reported nothing that can be read.
func reportOf(item *workv1alpha2.AggregatedStatusItem) (r report, ok bool) {
	if item == nil || !item.Applied || item.Status == nil {
		return report{}, false
	}
	err := json.Unmarshal(item.Status.Raw, &r)
	return r, err == nil
}

// observed returns how many replicas the members have together. It is settled if the scheduler and every member have followed the
// generation of the template, nothing moves, and no member is rolling out or scaling: then an autoscaler alone changes it. None at all
// is no number that an autoscaler chooses, so it does not count. A number beyond the bounds counts as the bound, or is an error.
func observed(binding *workv1alpha2.ResourceBinding, generation int64, allowed extent) (total int32, settled bool, err error) {
	if binding.Status.SchedulerObservedGeneration != binding.Generation || len(binding.Spec.GracefulEvictionTasks) > 0 || len(binding.Spec.Clusters) == 0 {
		return 0, false, nil
	}
	items := map[string]*workv1alpha2.AggregatedStatusItem{}
	for i := range binding.Status.AggregatedStatus {
		items[binding.Status.AggregatedStatus[i].ClusterName] = &binding.Status.AggregatedStatus[i]
	}
	var sum, divided int64
	for _, target := range binding.Spec.Clusters {
		divided += int64(target.Replicas)
		r, ok := reportOf(items[target.Name])
		if !ok {
			return 0, false, nil
		}
		// Available and unavailable together are what the member's controller aims at, as soon as it has seen the generation.
		wanted := int64(r.AvailableReplicas) + int64(r.UnavailableReplicas)
		if r.ResourceTemplateGeneration < generation || r.ObservedGeneration < r.Generation || wanted <= 0 || int64(r.Replicas) != wanted || int64(r.UpdatedReplicas) != wanted {
			return 0, false, nil
		}
		counted, err := allowed.of(target.Name, wanted)
		if err != nil {
			return 0, false, err
		}
		sum += counted
	}
	if sum > bounds.MaxReplicas {
		return 0, false, fmt.Errorf("the clusters report %d replicas together, more than a template may have", sum)
	}
	return int32(sum), divided == int64(binding.Spec.Replicas), nil
}
