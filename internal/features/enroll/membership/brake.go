package membership

import (
	"context"
	"errors"
	"fmt"
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
	names := o.Clusters
	if len(names) == 0 {
		if names, err = clustersWith(ctx, c, clusterv1alpha1.ClusterConditionBrakeEngaged); err != nil {
			return nil, err
		}
	}
	key, value := clusterv1alpha1.BrakeReleasedUntilAnnotation, o.Until
	if !o.KeepBefore.IsZero() {
		key, value = clusterv1alpha1.BrakeKeepBeforeAnnotation, o.KeepBefore
	}
	return annotateAll(ctx, c, names, key, value)
}

// ResumeDispatching lets a control plane that was restored from a backup write to clusters again: to all that wait, if none
// is named. It returns the names of those for which that was written.
func ResumeDispatching(ctx context.Context, hub *rest.Config, clusters []string, now time.Time) ([]string, error) {
	c, err := newHubClient(hub)
	if err != nil {
		return nil, err
	}
	if len(clusters) == 0 {
		if clusters, err = clustersWith(ctx, c, clusterv1alpha1.ClusterConditionDispatchingHeld); err != nil {
			return nil, err
		}
	}
	return annotateAll(ctx, c, clusters, clusterv1alpha1.ResumeDispatchingAnnotation, now)
}

func annotateAll(ctx context.Context, c client.Client, clusters []string, key string, value time.Time) ([]string, error) {
	var done []string
	var faults []error
	for _, name := range clusters {
		if err := annotate(ctx, c, name, key, value.UTC().Format(time.RFC3339)); err != nil {
			faults = append(faults, err)
			continue
		}
		done = append(done, name)
	}
	return done, errors.Join(faults...)
}

// clustersWith names the Clusters of which a condition is True.
func clustersWith(ctx context.Context, c client.Client, condition string) ([]string, error) {
	var clusters clusterv1alpha1.ClusterList
	if err := c.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("listing the clusters: %w", err)
	}
	var names []string
	for i := range clusters.Items {
		if meta.IsStatusConditionTrue(clusters.Items[i].Status.Conditions, condition) {
			names = append(names, clusters.Items[i].Name)
		}
	}
	return names, nil
}

// annotate sets one annotation of a Cluster.
func annotate(ctx context.Context, c client.Client, name, key, value string) error {
	cluster := &clusterv1alpha1.Cluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return fmt.Errorf("reading cluster %q: %w", name, err)
	}
	before := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, key, value)
	if _, err := hubclient.Patch(ctx, c, before, cluster, client.FieldOwner(memberaccount.FieldManager)); err != nil {
		return fmt.Errorf("writing the annotation %s of cluster %q: %w", key, name, err)
	}
	return nil
}
