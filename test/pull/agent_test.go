package pull_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// beat is how often an agent renews its Lease here.
const beat = 250 * time.Millisecond

// agent writes to the control plane what an agent writes that was made for another one: no conditions but Applied, no
// observedGeneration, and nothing a second time. There is no cluster behind it.
type agent struct {
	t       *testing.T
	hub     *fleettest.Cluster
	cluster string

	stop  context.CancelFunc
	beats sync.WaitGroup
}

// register makes the Cluster known and begins to live.
func register(t *testing.T, hub *fleettest.Cluster, name string) *agent {
	t.Helper()
	a := &agent{t: t, hub: hub, cluster: name}
	cluster := a.object()
	cluster.Spec = clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull, ID: name}
	if err := hub.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	lease := a.lease()
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1alpha1.SchemeGroupVersion.String(), Kind: "Cluster", Name: name, UID: cluster.UID}}
	lease.Spec.HolderIdentity = &name
	if err := hub.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.fallSilent() })
	a.live()
	return a
}

func (a *agent) object() *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: a.cluster}}
}

func (a *agent) lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: a.cluster}}
}

// live renews the Lease until fallSilent, and reports the cluster's status whenever it is not what it should be.
func (a *agent) live() {
	ctx, stop := context.WithCancel(a.t.Context())
	a.stop = stop
	a.beats.Go(func() {
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := errors.Join(a.renew(ctx), a.report(ctx)); err != nil && ctx.Err() == nil {
				a.t.Logf("the agent of %s: %v", a.cluster, err) // the hub may be away, or have written in between
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
}

func (a *agent) fallSilent() {
	a.stop()
	a.beats.Wait()
}

func (a *agent) renew(ctx context.Context) error {
	lease := a.lease()
	if err := a.hub.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
		return client.IgnoreNotFound(err)
	}
	now := metav1.NowMicro()
	lease.Spec.RenewTime = &now
	return a.hub.Update(ctx, lease)
}

func (a *agent) report(ctx context.Context) error {
	cluster := a.object()
	if err := a.hub.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
		return client.IgnoreNotFound(err)
	}
	if meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady) {
		return nil
	}
	meta.SetStatusCondition(&cluster.Status.Conditions, clusterv1alpha1.Ready())
	meta.SetStatusCondition(&cluster.Status.Conditions, clusterv1alpha1.APIEnablementsComplete())
	cluster.Status.KubernetesVersion = "v1.30.0"
	cluster.Status.APIEnablements = []clusterv1alpha1.APIEnablement{
		{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}},
		{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "namespaces", Kind: "Namespace"}}},
	}
	return a.hub.Status().Update(ctx, cluster)
}

func (a *agent) work(namespace, deployment string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(a.cluster), Name: workv1alpha1.WorkName("Deployment", namespace, deployment),
	}}
}

// run reports that a Deployment was applied and has its replicas.
func (a *agent) run(work *workv1alpha1.Work, replicas int) {
	a.t.Helper()
	fleettest.UpdateStatus(a.t, a.hub, work, func(w *workv1alpha1.Work) {
		var applied struct{ Metadata metav1.ObjectMeta }
		if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &applied); err != nil {
			a.t.Fatal(err)
		}
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue, Reason: "AppliedSuccessful", Message: "Manifest has been successfully applied",
		})
		w.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
			Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments",
				Namespace: applied.Metadata.Namespace, Name: applied.Metadata.Name},
			Health: workv1alpha1.ResourceHealthy,
			Status: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"replicas":%[1]d,"updatedReplicas":%[1]d,"readyReplicas":%[1]d,"availableReplicas":%[1]d,`+
				`"observedGeneration":1,"generation":1,"resourceTemplateGeneration":1}`, replicas)},
		}}
	})
}

// releaseAll waits until every Work is deleted, and reports so for each. If the agent was slow to renew its Lease, the control plane may
// have removed some itself.
func (a *agent) releaseAll() {
	a.t.Helper()
	namespace := workv1alpha1.ExecutionNamespace(a.cluster)
	works := &workv1alpha1.WorkList{}
	fleettest.ExpectListed(a.t, a.hub, works, namespace, func(list *workv1alpha1.WorkList) error {
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp == nil {
				return fmt.Errorf("Work %s is not deleted", list.Items[i].Name)
			}
		}
		return nil
	})
	for i := range works.Items {
		err := a.hub.Patch(a.t.Context(), &works.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		if client.IgnoreNotFound(err) != nil {
			a.t.Fatal(err)
		}
	}
}
