package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
)

// ReleaseEvictions has objects evicted from clusters until a time, whatever the guard of evictions holds: from all whose evictions are
// held, if none is named. It returns the names of those for which that was written.
func ReleaseEvictions(ctx context.Context, hub *rest.Config, clusters []string, until time.Time) ([]string, error) {
	c, err := newHubClient(hub)
	if err != nil {
		return nil, err
	}
	if clusters, err = orAllWith(ctx, c, clusters, clusterv1alpha1.ClusterConditionEvictionHeld); err != nil {
		return nil, err
	}
	return annotateAll(ctx, c, clusters, clusterv1alpha1.EvictionsReleasedUntilAnnotation, until)
}

// Fence confirms for each cluster that nothing of the control plane runs there any more. The confirmation is for the present failure
// only: it has the time of the condition Ready, and so does not depend on the clock of the caller. A cluster that is ready is refused.
// Fence returns the names of those for which that was written.
func Fence(ctx context.Context, hub *rest.Config, clusters []string) ([]string, error) {
	c, err := newHubClient(hub)
	if err != nil {
		return nil, err
	}
	var done []string
	var faults []error
	for _, name := range clusters {
		failed, err := failedSince(ctx, c, name)
		if err == nil {
			err = annotate(ctx, c, name, clusterv1alpha1.FencedAnnotation, failed.UTC().Format(time.RFC3339))
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		done = append(done, name)
	}
	return done, errors.Join(faults...)
}

// failedSince is since when a cluster is not ready. It is an error if it is.
func failedSince(ctx context.Context, c client.Client, name string) (time.Time, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return time.Time{}, fmt.Errorf("there is no cluster %q", name)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading cluster %q: %w", name, err)
	}
	ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return time.Time{}, fmt.Errorf("cluster %q has not failed: only a cluster that is not ready can be fenced", name)
	}
	return ready.LastTransitionTime.Time, nil
}

// Waiting is a cluster or an object with copies that leave a cluster, or that stay though they are to leave.
type Waiting struct {
	// Clusters are those that the object leaves; empty if it stays where it is for now.
	Clusters  []string `json:"clusters,omitempty"`
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	// Reason is that of the condition EvictionHeld or StatePreserved, or Leaving if nothing is held.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// leaving is the reason of an object that leaves a cluster as intended.
const leaving = "Leaving"

// Evictions lists what leaves clusters, and what waits: clusters first, then objects by their names.
func Evictions(ctx context.Context, hub *rest.Config) ([]Waiting, error) {
	c, err := newHubClient(hub)
	if err != nil {
		return nil, err
	}
	var clusters clusterv1alpha1.ClusterList
	if err := c.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("listing the clusters: %w", err)
	}
	found := []Waiting{}
	for i := range clusters.Items {
		held := meta.FindStatusCondition(clusters.Items[i].Status.Conditions, clusterv1alpha1.ClusterConditionEvictionHeld)
		if held != nil && held.Status == metav1.ConditionTrue {
			found = append(found, Waiting{Clusters: []string{clusters.Items[i].Name}, Kind: "Cluster", Name: clusters.Items[i].Name, Reason: held.Reason, Message: held.Message})
		}
	}
	bindings, err := hubclient.Bindings(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("listing the bindings: %w", err)
	}
	var objects []Waiting
	for _, b := range bindings {
		if w := waiting(b); w != nil {
			objects = append(objects, *w)
		}
	}
	slices.SortFunc(objects, func(a, b Waiting) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	return append(found, objects...), nil
}

// waiting is what Evictions lists for a binding; nil if no copy of it is to leave.
func waiting(b workv1alpha2.Binding) *Waiting {
	spec := b.BindingSpec()
	w := &Waiting{Kind: spec.Resource.Kind, Namespace: spec.Resource.Namespace, Name: spec.Resource.Name}
	for _, task := range spec.GracefulEvictionTasks {
		w.Clusters, w.Reason, w.Message = append(w.Clusters, task.FromCluster), leaving, task.Message
	}
	conditions := b.BindingStatus().Conditions
	if held := meta.FindStatusCondition(conditions, workv1alpha2.EvictionHeld); held != nil && held.Status == metav1.ConditionTrue {
		w.Reason, w.Message = held.Reason, held.Message
	} else if state := meta.FindStatusCondition(conditions, workv1alpha2.StatePreserved); state != nil && state.Status == metav1.ConditionFalse {
		w.Reason, w.Message = state.Reason, state.Message
	}
	if w.Reason == "" {
		return nil
	}
	return w
}
