package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/api"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/playground"
)

// failoverMembers is how many members take turns: one that was killed has time to be ready again before its next turn.
const failoverMembers = 5

// apart is the time between two kills at least, so that three of the five members are never lost within a minute: the control plane
// evicts nothing for a while after half of the clusters are.
const apart = 31 * time.Second

// observation is longer than the control plane observes the members after its start.
const observation = 70 * time.Second

// Options choose what to measure. All fields are required.
type Options struct {
	// Binary is the flagship binary to start.
	Binary string
	// Trials is how many members are killed, one after the other.
	Trials int
	// FailureThreshold is how long a member is not healthy before it is not ready, and Toleration for how long the policies tolerate
	// that.
	FailureThreshold, Toleration time.Duration
	// Log receives the progress.
	Log io.Writer
}

// Result is how long the objects took from the death of a member to a healthy copy in another one.
type Result struct {
	FailureThreshold string `json:"failureThreshold"`
	Toleration       string `json:"toleration"`
	// Seconds are those of each trial, in the order of the trials.
	Seconds []float64 `json:"seconds"`
	P50     float64   `json:"p50"`
	P95     float64   `json:"p95"`
	Slowest float64   `json:"slowest"`
}

// Header has the columns of Row.
const Header = "THRESHOLD TOLERATION TRIALS P50 P95 SLOWEST"

// Row is the result as a row of a table.
func (r Result) Row() []string {
	seconds := func(v float64) string { return fmt.Sprintf("%.1f s", v) }
	return []string{r.FailureThreshold, r.Toleration, strconv.Itoa(len(r.Seconds)), seconds(r.P50), seconds(r.P95), seconds(r.Slowest)}
}

func newResult(o Options, seconds []float64) Result {
	sorted := slices.Sorted(slices.Values(seconds))
	return Result{
		FailureThreshold: o.FailureThreshold.String(), Toleration: o.Toleration.String(), Seconds: seconds,
		P50: quantile(sorted, .5), P95: quantile(sorted, .95), Slowest: quantile(sorted, 1),
	}
}

// Run kills the API server of one member after the other, and measures how long it takes until an object that was there is healthy
// in another member. The result has the trials until an error, if there is one.
func Run(ctx context.Context, o Options) (_ Result, err error) {
	f, err := fleet.Start(ctx, o.Binary, failoverMembers, o.Log,
		"--bare=false", "--nodes", "1", "--set", "cluster-failure-threshold="+o.FailureThreshold.String())
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	scheme := runtime.NewScheme()
	if err := errors.Join(api.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		return Result{}, err
	}
	hub, err := client.New(f.Hub, client.Options{Scheme: scheme})
	if err != nil {
		return Result{}, fmt.Errorf("building a client: %w", err)
	}
	next := time.After(observation)
	var seconds []float64
	for i := range o.Trials {
		select {
		case <-ctx.Done():
			return newResult(o, seconds), ctx.Err()
		case <-next:
		}
		next = time.After(apart)
		took, err := failOver(ctx, hub, f.Dir(), i, o.Toleration)
		if err != nil {
			return newResult(o, seconds), err
		}
		fmt.Fprintf(o.Log, "  trial %d: %.1f s\n", i+1, took.Seconds())
		seconds = append(seconds, took.Seconds())
	}
	return newResult(o, seconds), nil
}

// quantile returns that of sorted values, which is one of them.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// failOver measures one trial, and starts the member again.
func failOver(ctx context.Context, hub client.Client, dir string, trial int, toleration time.Duration) (time.Duration, error) {
	victim := fmt.Sprintf("member%d", trial%failoverMembers+1)
	d := fleet.Deployment(fmt.Sprintf("failover-%d", trial), 2)
	d.Namespace = metav1.NamespaceDefault
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name}}
	policy.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{}}
	policy.Spec.Placement = policyv1alpha1.Placement{
		ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{
			{AffinityName: "first", ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: []string{victim}}},
			{AffinityName: "others", ClusterAffinity: policyv1alpha1.ClusterAffinity{ExcludeClusters: []string{victim}}},
		},
		SpreadConstraints: []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByFieldCluster, MinGroups: 1, MaxGroups: 1}},
	}
	for _, key := range []string{clusterv1alpha1.TaintClusterNotReady, clusterv1alpha1.TaintClusterUnreachable} {
		policy.Spec.Placement.ClusterTolerations = append(policy.Spec.Placement.ClusterTolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(toleration.Seconds())),
		})
	}
	for _, object := range []client.Object{d, policy} {
		if err := hub.Create(ctx, object); err != nil {
			return 0, fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	if _, err := healthyIn(ctx, hub, d, func(cluster string) bool { return cluster == victim }); err != nil {
		return 0, err
	}
	members, err := playground.Control(ctx, dir, playground.List, "")
	if err != nil {
		return 0, err
	}
	at := slices.IndexFunc(members, func(m playground.MemberStatus) bool { return m.Name == victim })
	if at < 0 || members[at].PID == 0 {
		return 0, fmt.Errorf("%s does not run", victim)
	}
	started := time.Now()
	if err := syscall.Kill(members[at].PID, syscall.SIGKILL); err != nil {
		return 0, fmt.Errorf("killing %s: %w", victim, err)
	}
	healthy, err := healthyIn(ctx, hub, d, func(cluster string) bool { return cluster != victim })
	if err != nil {
		return 0, err
	}
	if _, err := playground.Control(ctx, dir, playground.StartMember, victim); err != nil {
		return 0, err
	}
	return healthy.Sub(started), nil
}

// healthyIn returns when the binding of a Deployment has a target with a healthy copy in a cluster that suits.
func healthyIn(ctx context.Context, hub client.Client, d *appsv1.Deployment, suits func(cluster string) bool) (time.Time, error) {
	key := client.ObjectKey{Namespace: d.Namespace, Name: workv1alpha2.BindingName("Deployment", d.Name)}
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		b := &workv1alpha2.ResourceBinding{}
		if err := hub.Get(ctx, key, b); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return slices.ContainsFunc(b.Spec.Clusters, func(t workv1alpha2.TargetCluster) bool {
			return suits(t.Name) && slices.ContainsFunc(b.Status.AggregatedStatus, func(s workv1alpha2.AggregatedStatusItem) bool {
				return s.ClusterName == t.Name && s.Health == workv1alpha2.ResourceHealthy
			})
		}), nil
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("waiting for a healthy copy of %s: %w", key, err)
	}
	return time.Now(), nil
}
