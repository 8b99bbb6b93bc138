package membership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// ReleaseOptions say whose brake is released, and how.
type ReleaseOptions struct {
	// Clusters are the names of Clusters. Empty: all whose brake is engaged.
	Clusters []string
	// Until is how long removals and shrinkages pass. Required unless KeepBefore is set.
	Until time.Time
	// KeepBefore, if set, leaves the objects of Works that were deleted until then in the clusters, and releases nothing else.
	KeepBefore time.Time
}

// ReleaseBrake releases the brake of clusters and returns the names of those for which that was written.
func ReleaseBrake(ctx context.Context, hub *rest.Config, o ReleaseOptions) ([]string, error) {
	c, err := newHubClient(hub)
	if err != nil {
		return nil, err
	}
	names, err := orAllWith(ctx, c, o.Clusters, clusterv1alpha1.ClusterConditionBrakeEngaged)
	if err != nil {
		return nil, err
	}
	key, value := clusterv1alpha1.BrakeReleasedUntilAnnotation, o.Until
	if !o.KeepBefore.IsZero() {
		key, value = clusterv1alpha1.BrakeKeepBeforeAnnotation, o.KeepBefore
	}
	return annotateAll(ctx, c, names, key, value)
}

// ResumeDispatching lets a control plane write to clusters again: if none is named, to all that have the condition DispatchingHeld, or the
// annotation for it, since the condition of a cluster in Pull mode comes from its agent, which may not run yet. With operations it makes only
// these writes, and others wait, also those that were allowed before. It returns the names of those for which that was written.
func ResumeDispatching(ctx context.Context, hub *rest.Config, clusters, operations []string, now time.Time) ([]string, error) {
	c, err := newHubClient(hub)
	if err != nil {
		return nil, err
	}
	if len(clusters) == 0 {
		held := func(cluster *clusterv1alpha1.Cluster) bool {
			_, annotated := cluster.Annotations[clusterv1alpha1.HoldDispatchingAnnotation]
			return annotated || meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld)
		}
		if clusters, err = clustersThat(ctx, c, held); err != nil {
			return nil, err
		}
	}
	at := now.UTC().Format(time.RFC3339)
	return eachOf(clusters, func(name string) error {
		return edit(ctx, c, name, func(cluster *clusterv1alpha1.Cluster) {
			if len(operations) > 0 {
				metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, clusterv1alpha1.ResumeOperationsAnnotation, at+" "+strings.Join(operations, ","))
				return
			}
			delete(cluster.Annotations, clusterv1alpha1.HoldDispatchingAnnotation)
			delete(cluster.Annotations, clusterv1alpha1.ResumeOperationsAnnotation)
			metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, clusterv1alpha1.ResumeDispatchingAnnotation, at)
		})
	})
}

// orAllWith returns the clusters that are named or, if none is, all that have a condition.
func orAllWith(ctx context.Context, c client.Client, named []string, condition string) ([]string, error) {
	if len(named) > 0 {
		return named, nil
	}
	return clustersThat(ctx, c, func(cluster *clusterv1alpha1.Cluster) bool {
		return meta.IsStatusConditionTrue(cluster.Status.Conditions, condition)
	})
}

// HoldDispatching has a control plane write nothing to clusters until ResumeDispatching. Reason is for people. The condition DispatchingHeld
// confirms it.
func HoldDispatching(ctx context.Context, hub *rest.Config, clusters []string, reason string) error {
	c, err := newHubClient(hub)
	if err != nil {
		return err
	}
	_, err = eachOf(clusters, func(name string) error {
		return edit(ctx, c, name, func(cluster *clusterv1alpha1.Cluster) {
			delete(cluster.Annotations, clusterv1alpha1.ResumeDispatchingAnnotation)
			metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, clusterv1alpha1.HoldDispatchingAnnotation, reason)
		})
	})
	return err
}

func annotateAll(ctx context.Context, c client.Client, clusters []string, key string, value time.Time) ([]string, error) {
	return eachOf(clusters, func(name string) error { return annotate(ctx, c, name, key, value.UTC().Format(time.RFC3339)) })
}

// eachOf returns the names of the clusters for which write succeeds.
func eachOf(clusters []string, write func(cluster string) error) ([]string, error) {
	var done []string
	var faults []error
	for _, name := range clusters {
		if err := write(name); err != nil {
			faults = append(faults, err)
			continue
		}
		done = append(done, name)
	}
	return done, errors.Join(faults...)
}

// clustersThat names the Clusters that match.
func clustersThat(ctx context.Context, c client.Client, match func(*clusterv1alpha1.Cluster) bool) ([]string, error) {
	var clusters clusterv1alpha1.ClusterList
	if err := c.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("listing the clusters: %w", err)
	}
	var names []string
	for i := range clusters.Items {
		if match(&clusters.Items[i]) {
			names = append(names, clusters.Items[i].Name)
		}
	}
	return names, nil
}

// annotate sets one annotation of a Cluster.
func annotate(ctx context.Context, c client.Client, name, key, value string) error {
	return edit(ctx, c, name, func(cluster *clusterv1alpha1.Cluster) { metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, key, value) })
}

// edit changes the metadata of a Cluster.
func edit(ctx context.Context, c client.Client, name string, change func(*clusterv1alpha1.Cluster)) error {
	cluster := &clusterv1alpha1.Cluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return fmt.Errorf("reading cluster %q: %w", name, err)
	}
	before := cluster.DeepCopy()
	change(cluster)
	if _, err := hubclient.Patch(ctx, c, before, cluster, client.FieldOwner(memberaccount.FieldManager)); err != nil {
		return fmt.Errorf("writing the annotations of cluster %q: %w", name, err)
	}
	return nil
}
