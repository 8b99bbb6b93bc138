package migration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// stillness is how long Leases are watched for a renewal: controllers and agents renew theirs every ten seconds at the latest.
const stillness = 25 * time.Second

// Running returns what of a control plane still writes to its members, or may. An empty list means that its members can be taken over.
//
// Clocks of two machines differ, so a renewal is seen by a Lease that changes, and not by its time. A control plane that holds the
// dispatching to all of its clusters writes nothing, whatever runs.
func Running(ctx context.Context, source *ControlPlane, clk clock.Clock) ([]string, error) {
	free, err := source.dispatched(ctx)
	if err != nil || len(free) == 0 {
		return nil, err
	}
	before, err := source.renewals(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-clk.After(stillness):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	after, err := source.renewals(ctx)
	if err != nil {
		return nil, err
	}
	var running []string
	for lease, renewed := range after {
		if was, known := before[lease]; !known || was != renewed {
			running = append(running, "Lease "+lease+" is renewed")
		}
	}
	slices.Sort(running)
	if len(after) == 0 {
		running = append(running, fmt.Sprintf("there is no Lease of controllers to see whether they run, and the clusters %s have no condition %s",
			strings.Join(free, ", "), clusterv1alpha1.ClusterConditionDispatchingHeld))
	}
	return running, nil
}

// dispatched are the Clusters to which a control plane may write.
func (c *ControlPlane) dispatched(ctx context.Context) ([]string, error) {
	var free []string
	err := c.each(ctx, clusterv1alpha1.SchemeGroupVersion.WithResource("clusters"), "", func(cluster *unstructured.Unstructured) error {
		if !isTrue(cluster, clusterv1alpha1.ClusterConditionDispatchingHeld) {
			free = append(free, cluster.GetName())
		}
		return nil
	})
	return free, err
}

// AwaitHeld waits until a control plane writes nothing more to Clusters, which have the annotation for that.
func AwaitHeld(ctx context.Context, source *ControlPlane, names []string) error {
	var free []string
	err := wait.PollUntilContextTimeout(ctx, poll, readyPatience, true, func(ctx context.Context) (bool, error) {
		all, err := source.dispatched(ctx)
		free = slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(names, name) })
		return len(free) == 0, err
	})
	if err != nil {
		return fmt.Errorf("the clusters %s do not get the condition %s (%w): does its control plane, or its agent, run?",
			strings.Join(free, ", "), clusterv1alpha1.ClusterConditionDispatchingHeld, err)
	}
	return nil
}

// Clusters names the Clusters of the plan.
func (p *Plan) Clusters() []string {
	var names []string
	for _, i := range p.Items {
		if i.stage == clusters {
			names = append(names, i.object.GetName())
		}
	}
	return names
}

// Give copies the credentials of a Cluster, which was copied without: from then on the target writes to it. A Cluster in Pull mode may have
// none, as its agent writes.
func (c *Copier) Give(ctx context.Context, p *Plan, name string) error {
	i := slices.IndexFunc(p.Items, func(i Item) bool { return i.stage == clusters && i.object.GetName() == name })
	if i < 0 {
		return fmt.Errorf("there is no cluster %s", name)
	}
	item := p.Items[i]
	objects := c.Target.objects.Resource(item.resource.GroupVersionResource)
	cluster, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the copy of cluster %s: %w", name, err)
	}
	for _, field := range credentialFields {
		if value, found, _ := unstructured.NestedMap(item.object.Object, "spec", field); found {
			if err := unstructured.SetNestedMap(cluster.Object, value, "spec", field); err != nil {
				return fmt.Errorf("cluster %s: %w", name, err)
			}
		}
	}
	if err := c.credentials(ctx, p, cluster, &Outcome{}); err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	if _, err := objects.Update(ctx, cluster, metav1.UpdateOptions{FieldManager: c.Manager}); err != nil {
		return fmt.Errorf("giving cluster %s its credentials: %w", name, err)
	}
	return nil
}

// renewals are the times in the Leases of controllers, and of agents of clusters. Flags of the controllers choose the namespace of theirs.
func (c *ControlPlane) renewals(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	for _, namespace := range []string{clusterv1alpha1.SystemNamespace, clusterv1alpha1.ClusterNamespace, metav1.NamespaceSystem} {
		err := c.each(ctx, leases, namespace, func(lease *unstructured.Unstructured) error {
			name := lease.GetName()
			if namespace == clusterv1alpha1.ClusterNamespace || writes(name) {
				all[namespace+"/"+name] = text(lease, "spec", "renewTime")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// writes returns whether the holder of a Lease decides about, or writes to, members.
func writes(lease string) bool {
	switch lease {
	case "karmada-controller-manager", "karmada-scheduler", "karmada-descheduler", leader.Name:
		return true
	}
	return strings.HasPrefix(lease, clusterv1alpha1.KarmadaElectionLease(""))
}
