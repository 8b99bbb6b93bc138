package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// DeletionsName is the name of Deletions in the admission chain.
const DeletionsName = "FlagshipDeletions"

// Deletions refuses everybody but the control plane itself to delete what empties a member: the namespaces that the
// control plane keeps for its clusters, and the Works that an agent acts on. It warns who deletes a template whose copies will wait.
type Deletions struct {
	// cluster returns a Cluster, nil if there is none. It must not be changed.
	cluster func(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error)
	// keeps returns whether a Work is created again once it is gone.
	keeps func(ctx context.Context, work *workv1alpha1.Work) (bool, error)
	// waits returns the clusters in which the removal of the copies of an object will wait for a person. A request that is only tried counts
	// for no later one.
	waits func(ctx context.Context, kind schema.GroupKind, namespace, name string, tried bool) []string
}

var _ admission.ValidationInterface = &Deletions{}

// NewDeletions makes the plugin. All functions read from memory. They are functions because the loops of the control plane have the
// caches, which start after the API server.
func NewDeletions(
	cluster func(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error),
	keeps func(ctx context.Context, work *workv1alpha1.Work) (bool, error),
	waits func(ctx context.Context, kind schema.GroupKind, namespace, name string, tried bool) []string,
) *Deletions {
	return &Deletions{cluster: cluster, keeps: keeps, waits: waits}
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
		if err := d.namespace(ctx, a); err != nil {
			return err
		}
	case schema.GroupKind{Group: workv1alpha1.GroupName, Kind: workv1alpha1.KindWork}:
		return d.work(ctx, a)
	}
	d.warn(ctx, a)
	return nil
}

// warn adds a warning about copies that will wait. It names no object, so that clients show it once for thousands of deletions.
func (d *Deletions) warn(ctx context.Context, a admission.Attributes) {
	name := a.GetName()
	if old, err := meta.Accessor(a.GetOldObject()); err == nil {
		name = old.GetName() // also of one of a collection
	}
	for _, cluster := range d.waits(ctx, a.GetKind().GroupKind(), a.GetNamespace(), name, a.IsDryRun()) {
		warning.AddWarning(ctx, "", fmt.Sprintf("cluster %[1]s: too many objects are to be removed there at once. The removal of this and further copies waits: "+
			"'flagship release-brake %[1]s' lets it pass, and a copy whose template is applied again stays. See the condition %[2]s of the Cluster",
			cluster, clusterv1alpha1.ClusterConditionBrakeEngaged))
	}
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
