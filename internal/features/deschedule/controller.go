package deschedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// hold is for how long a cluster takes no more replicas than could run there.
const hold = 10 * time.Minute

// Config defines when replicas move. A zero value means the default of each field.
type Config struct {
	// Interval is how often the pods are read. Default 1 min.
	Interval time.Duration
	// Threshold is for how long a pod must have been unschedulable, by the clock of this process. Default 5 min.
	Threshold time.Duration
}

// Deps is what Setup needs. All fields are required.
type Deps struct {
	// Config is called before every check: what it returns may change.
	Config func() Config
	// Client is that of package hubclient.
	Client client.Client
	Events events.Recorder
	Clock  clock.WithTicker
	// Unplaced calls visit for every pod of a Deployment that no node of its member takes. It is a function because package
	// clusterstatus, which is not imported here, watches the pods. It has none of clusters in Pull mode, whose agents report them in the
	// ClusterCapacity.
	Unplaced func(visit func(cluster string, deployment types.NamespacedName, pod types.UID))
}

// Setup adds the loop.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Config == nil || deps.Client == nil || deps.Events == nil || deps.Clock == nil || deps.Unplaced == nil {
		return errors.New("deschedule needs all of Deps")
	}
	d := newDescheduler(deps)
	d.loop = controlloop.Of(mgr)
	if err := mgr.Add(manager.RunnableFunc(d.run)); err != nil {
		return fmt.Errorf("adding the loop deschedule: %w", err)
	}
	return nil
}

// descheduler reads the pods of all members once an interval.
type descheduler struct {
	Deps
	loop *controlloop.Loop
	// Threshold is that of the last check.
	Threshold time.Duration
	// since is when a pod of a Deployment of the control plane was first seen to be unschedulable. It is in memory because the clock of
	// a member may be wrong; it has the pods of the last interval only.
	since map[types.UID]time.Time
}

func newDescheduler(deps Deps) *descheduler {
	return &descheduler{Deps: deps, since: map[types.UID]time.Time{}}
}

// run implements manager.RunnableFunc.
func (d *descheduler) run(ctx context.Context) error {
	for {
		timer := d.Clock.NewTimer(cmp.Or(d.Config().Interval, time.Minute))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
		d.loop.Turn(ctx, "limiting what cannot run; the rest stays where it is until the next check", d.check)
	}
}

// check limits the Deployments of all members.
func (d *descheduler) check(ctx context.Context) error {
	d.Threshold = cmp.Or(d.Config().Threshold, 5*time.Minute)
	now, since := d.Clock.Now(), map[types.UID]time.Time{}
	pods := map[types.NamespacedName]map[string][]types.UID{}
	add := func(cluster string, deployment types.NamespacedName, pod types.UID) {
		if pods[deployment] == nil {
			pods[deployment] = map[string][]types.UID{}
		}
		pods[deployment][cluster] = append(pods[deployment][cluster], pod)
	}
	d.Unplaced(add)
	var faults []error
	if err := d.visitReported(ctx, add); err != nil {
		faults = append(faults, err)
	}
	for deployment, clusters := range pods {
		faults = append(faults, controlloop.CatchPanic(func() error { // the others are limited
			b, err := d.binding(ctx, deployment)
			if b == nil {
				return err
			}
			stuck := map[string]int32{}
			for cluster, uids := range clusters {
				for _, uid := range uids {
					first, ok := d.since[uid]
					if !ok || first.After(now) {
						first = now
					}
					if since[uid] = first; now.Sub(first) >= d.Threshold {
						stuck[cluster]++
					}
				}
			}
			return d.limit(ctx, b, stuck, now)
		}))
	}
	d.since = since
	return errors.Join(faults...)
}

// visitReported calls visit for every pod that the agent of a cluster reports, but not while the cluster is not ready: the report may be old.
func (d *descheduler) visitReported(ctx context.Context, visit func(cluster string, deployment types.NamespacedName, pod types.UID)) error {
	reports := &fleetv1alpha1.ClusterCapacityList{}
	if err := d.Client.List(ctx, reports, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("reading which pods agents report: %w", err)
	}
	for _, report := range reports.Items {
		if len(report.Unplaced) == 0 {
			continue
		}
		cluster := &clusterv1alpha1.Cluster{}
		if err := d.Client.Get(ctx, client.ObjectKey{Name: report.Name}, cluster); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading cluster %s: %w", report.Name, err)
		}
		if cluster.Spec.SyncMode != clusterv1alpha1.Pull || !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady) {
			continue
		}
		for _, of := range report.Unplaced {
			for _, pod := range of.Pods {
				visit(report.Name, types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, types.UID(pod))
			}
		}
	}
	return nil
}

// binding returns the binding of a Deployment whose policy has the annotation, so that its replicas may move; nil if there is none.
func (d *descheduler) binding(ctx context.Context, deployment types.NamespacedName) (*workv1alpha2.ResourceBinding, error) {
	b := &workv1alpha2.ResourceBinding{}
	key := types.NamespacedName{Namespace: deployment.Namespace, Name: workv1alpha2.BindingName("Deployment", deployment.Name)}
	if err := d.Client.Get(ctx, key, b); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	of := b.Spec.Resource
	if !policyv1alpha1.IsOn(b.Annotations, policyv1alpha1.DescheduleAnnotation) || b.DeletionTimestamp != nil || of.APIVersion != appsv1.SchemeGroupVersion.String() || of.Kind != "Deployment" || of.Name != deployment.Name ||
		!isDynamic(b.Spec.Placement) || b.Status.SchedulerObservedGeneration < b.Generation || len(b.Spec.GracefulEvictionTasks) > 0 ||
		b.Spec.Suspension != nil && ptr.Deref(b.Spec.Suspension.Scheduling, false) {
		return nil, nil
	}
	return b, nil
}

// isDynamic returns whether replicas are divided by what is available.
func isDynamic(p *policyv1alpha1.Placement) bool {
	if p == nil || p.ReplicaScheduling == nil || p.ReplicaScheduling.ReplicaSchedulingType != policyv1alpha1.ReplicaSchedulingTypeDivided {
		return false
	}
	weights := p.ReplicaScheduling.WeightPreference
	return p.ReplicaScheduling.ReplicaDivisionPreference == policyv1alpha1.ReplicaDivisionPreferenceAggregated || weights != nil && weights.DynamicWeight != ""
}

// limit writes the limits of a binding for the clusters in which pods cannot be scheduled.
func (d *descheduler) limit(ctx context.Context, b *workv1alpha2.ResourceBinding, stuck map[string]int32, now time.Time) error {
	limits := workv1alpha2.ReplicaLimits(b, now)
	if limits == nil {
		limits = map[string]workv1alpha2.ReplicaLimit{}
	}
	var messages []string
	for _, target := range b.Spec.Clusters {
		_, limited := limits[target.Name]
		ready, reported := readyIn(b, target.Name)
		runs := max(ready, target.Replicas-stuck[target.Name])
		if limited || !reported || runs >= target.Replicas {
			continue
		}
		limits[target.Name] = workv1alpha2.ReplicaLimit{Replicas: runs, Until: metav1.NewTime(now.Add(hold)).Rfc3339Copy()}
		messages = append(messages, fmt.Sprintf("%d of %d replicas in cluster %s cannot be scheduled there for more than %s: they move if all fit elsewhere",
			target.Replicas-runs, target.Replicas, target.Name, d.Threshold))
	}
	if len(messages) == 0 {
		return nil
	}
	before := b.DeepCopy()
	workv1alpha2.SetReplicaLimits(b, limits)
	_, err := hubclient.PatchLocked(ctx, d.Client, before, b)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // the next check has the change
	case err != nil:
		events.PublishBinding(d.Events, b, events.Warning, events.DescheduleBindingFailed, err.Error())
		return err
	}
	for _, message := range messages {
		events.PublishBinding(d.Events, b, events.Normal, events.DescheduleBindingSucceed, message)
	}
	return nil
}

// readyIn returns how many replicas are ready in a cluster, if that is reported.
func readyIn(b *workv1alpha2.ResourceBinding, cluster string) (ready int32, reported bool) {
	at := slices.IndexFunc(b.Status.AggregatedStatus, func(i workv1alpha2.AggregatedStatusItem) bool { return i.ClusterName == cluster })
	if at < 0 || !b.Status.AggregatedStatus[at].Applied || b.Status.AggregatedStatus[at].Status == nil {
		return 0, false
	}
	var status appsv1.DeploymentStatus
	err := json.Unmarshal(b.Status.AggregatedStatus[at].Status.Raw, &status)
	return status.ReadyReplicas, err == nil
}
