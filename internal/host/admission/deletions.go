package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// DeletionsName is the name of Deletions in the admission chain.
const DeletionsName = "FlagshipDeletions"

// Deletions refuses everybody but the control plane itself to delete what empties a member: the namespaces that the
// control plane keeps for its clusters, and the Works that an agent acts on.
type Deletions struct {
	// cluster returns a Cluster, nil if there is none. It must not be changed.
	cluster func(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error)
	// keeps returns whether a Work is created again once it is gone.
	keeps func(ctx context.Context, work *workv1alpha1.Work) (bool, error)
}

var _ admission.ValidationInterface = &Deletions{}

// NewDeletions makes the plugin. Both functions read from memory. They are functions because the loops of the control plane have the
// caches, which start after the API server.
func NewDeletions(cluster func(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error), keeps func(ctx context.Context, work *workv1alpha1.Work) (bool, error)) *Deletions {
	return &Deletions{cluster: cluster, keeps: keeps}
}

// Handles implements admission.Interface.
func (d *Deletions) Handles(operation admission.Operation) bool { return operation == admission.Delete }

// Validate refuses a deletion.
func (d *Deletions) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" || ofControlPlane(a) {
		return nil
	}
	switch a.GetKind().GroupKind() {
	case schema.GroupKind{Kind: "Namespace"}:
		return d.namespace(ctx, a)
	case schema.GroupKind{Group: workv1alpha1.GroupName, Kind: workv1alpha1.KindWork}:
		return d.work(ctx, a)
	}
	return nil
}

func (d *Deletions) namespace(ctx context.Context, a admission.Attributes) error {
	switch a.GetName() {
	case clusterv1alpha1.ClusterNamespace, clusterv1alpha1.SystemNamespace:
		return admission.NewForbidden(a, fmt.Errorf("the control plane keeps its own objects in it, credentials of clusters among them"))
	}
	name, ok := workv1alpha1.ClusterOfExecutionNamespace(a.GetName())
	if !ok {
		return nil
	}
	cluster, err := d.cluster(ctx, name)
	switch {
	case err != nil:
		return unknownYet(a, err)
	case cluster == nil, cluster.DeletionTimestamp != nil:
		return nil
	}
	return admission.NewForbidden(a, fmt.Errorf("it holds the Works of cluster %q: deleting it would delete the objects in the cluster. It goes with the Cluster: use flagship unjoin %s", name, name))
}

func (d *Deletions) work(ctx context.Context, a admission.Attributes) error {
	work, ok := a.GetOldObject().(*workv1alpha1.Work)
	if !ok || work.DeletionTimestamp != nil {
		return nil
	}
	name, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	if !ok {
		return nil
	}
	cluster, err := d.cluster(ctx, name)
	switch {
	case err != nil:
		return unknownYet(a, err)
	case cluster == nil, cluster.DeletionTimestamp != nil, cluster.Spec.SyncMode != clusterv1alpha1.Pull:
		return nil
	}
	keeps, err := d.keeps(ctx, work)
	if err != nil {
		return unknownYet(a, err)
	}
	if !keeps {
		return nil
	}
	return admission.NewForbidden(a, fmt.Errorf("the agent of cluster %q would delete its objects, which still belong there: delete the template, or change what selects it", name))
}

func unknownYet(a admission.Attributes, err error) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("it is not known yet whether %s %s is still needed: %v", a.GetKind().Kind, a.GetName(), err))
}
