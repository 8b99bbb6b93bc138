package fleetmetrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// collector counts what conditions of Clusters and Works report when metrics are read, so that it is as the objects are.
type collector struct {
	reader client.Reader
	// synced returns nil once the caches are complete. Reads do not wait then.
	synced                         func() error
	ready, notApplied, agentExpiry *prometheus.Desc
}

var _ prometheus.Collector = &collector{}

// New returns a collector on the caches of a control plane. Synced returns nil once they are complete.
func New(reader client.Reader, synced func() error) prometheus.Collector {
	return &collector{
		reader: reader, synced: synced,
		ready: prometheus.NewDesc("flagship_cluster_ready", "1 while the condition Ready of a Cluster is True, else 0.", []string{"cluster"}, nil),
		notApplied: prometheus.NewDesc("flagship_works_not_applied",
			"Works whose condition Applied is False, by cluster and by the reason of the condition.", []string{"cluster", "reason"}, nil),
		agentExpiry: prometheus.NewDesc("flagship_agent_certificate_expiry_timestamp_seconds",
			"When the certificate of the agent of a cluster expires, as the agent reports it, in seconds since 1970.", []string{"cluster"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.ready
	out <- c.notApplied
	out <- c.agentExpiry
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	if c.synced() != nil {
		return
	}
	ctx := context.Background() // a Collector gets none
	var clusters clusterv1alpha1.ClusterList
	if err := c.reader.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(c.ready, err)
		return
	}
	for i := range clusters.Items {
		name, value := clusters.Items[i].Name, 0.0
		if meta.IsStatusConditionTrue(clusters.Items[i].Status.Conditions, clusterv1alpha1.ClusterConditionReady) {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(c.ready, prometheus.GaugeValue, value, name)
		c.works(ctx, name, out)
		if clusters.Items[i].Spec.SyncMode == clusterv1alpha1.Pull {
			c.agent(ctx, name, out)
		}
	}
}

// leasePatience bounds the first read of a Lease, which waits until the cache has them.
const leasePatience = 2 * time.Second

// agent reads from the Lease of a cluster when the certificate of its agent expires. There is no sample of an agent that has not reported it,
// and of a Lease that cannot be read.
func (c *collector) agent(ctx context.Context, cluster string, out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	var lease coordinationv1.Lease
	if err := c.reader.Get(ctx, client.ObjectKey{Namespace: clusterv1alpha1.ClusterNamespace, Name: cluster}, &lease); err != nil {
		return
	}
	if end, err := time.Parse(time.RFC3339, lease.Annotations[clusterv1alpha1.AgentCertificateExpiryAnnotation]); err == nil {
		out <- prometheus.MustNewConstMetric(c.agentExpiry, prometheus.GaugeValue, float64(end.Unix()), cluster)
	}
}

// works counts the Works of one cluster, so that no list has those of all.
func (c *collector) works(ctx context.Context, cluster string, out chan<- prometheus.Metric) {
	var works workv1alpha1.WorkList
	if err := c.reader.List(ctx, &works, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster)), client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(c.notApplied, err)
		return
	}
	counts := map[string]int{}
	for i := range works.Items {
		if applied := meta.FindStatusCondition(works.Items[i].Status.Conditions, workv1alpha1.WorkApplied); applied != nil && applied.Status == metav1.ConditionFalse {
			counts[reasonOf(applied.Reason)]++
		}
	}
	for reason, n := range counts {
		out <- prometheus.MustNewConstMetric(c.notApplied, prometheus.GaugeValue, float64(n), cluster, reason)
	}
}

// reasonOf bounds the values of the label: agents write the condition, too.
func reasonOf(reason string) string {
	switch reason {
	case workv1alpha1.AppliedFailedReason, workv1alpha1.AppliedHeldReason, workv1alpha1.AppliedBrakedReason, workv1alpha1.AppliedForbiddenReason,
		workv1alpha1.AppliedFamilyUnsupportedReason, workv1alpha1.AppliedNodePortTakenReason:
		return reason
	default:
		return "Other"
	}
}
