package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// AgentsName is the name of Agents in the admission chain.
const AgentsName = "FlagshipAgents"

// Agents restricts what agents, and clients that register one, write, as far as the authorizer of package authorization cannot: it
// does not see the content of a request. It is to agents what NodeRestriction is to kubelets.
type Agents struct {
	// tokenCluster returns the name of the Cluster that the user of a bootstrap token may register.
	tokenCluster func(ctx context.Context, user string) (string, error)
}

var _ admission.ValidationInterface = &Agents{}

// NewAgents makes the plugin. tokenCluster is a function because the Secrets of tokens are read with a client of the API server that
// this plugin is part of.
func NewAgents(tokenCluster func(ctx context.Context, user string) (string, error)) *Agents {
	return &Agents{tokenCluster: tokenCluster}
}

// Handles implements admission.Interface.
func (p *Agents) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update
}

// Validate implements admission.ValidationInterface.
func (p *Agents) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	who := a.GetUserInfo()
	if who == nil {
		return nil
	}
	var err error
	if slices.Contains(who.GetGroups(), clusterv1alpha1.AgentBootstrappersGroup) {
		err = p.checkRegistration(ctx, a)
	} else if cluster, _, ok := clusterv1alpha1.ClusterOfAgent(who.GetName(), who.GetGroups()); ok {
		err = checkAgent(a, cluster)
	}
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// checkRegistration checks the Cluster that a client with a bootstrap token creates: the token is for one name, and a token gives no
// right to point the control plane at an address or a Secret.
func (p *Agents) checkRegistration(ctx context.Context, a admission.Attributes) error {
	cluster, ok := a.GetObject().(*clusterv1alpha1.Cluster)
	if !ok || a.GetOperation() != admission.Create {
		return nil
	}
	name, err := p.tokenCluster(ctx, a.GetUserInfo().GetName())
	switch spec := cluster.Spec; {
	case err != nil:
		return fmt.Errorf("the bootstrap token cannot be read: %w", err)
	case cluster.Name != name:
		return fmt.Errorf("the bootstrap token registers cluster %q only", name)
	case spec.SyncMode != clusterv1alpha1.Pull:
		return errors.New("spec.syncMode: a bootstrap token registers clusters in Pull mode only")
	case spec.SecretRef != nil || spec.ImpersonatorSecretRef != nil || spec.APIEndpoint != "" || spec.ProxyURL != "" || len(spec.ProxyHeader) > 0:
		return errors.New("spec: a Cluster that is created with a bootstrap token has no address and no credentials")
	case len(spec.Taints) > 0 || len(cluster.Annotations) > 0 || len(cluster.OwnerReferences) > 0:
		return errors.New("a Cluster that is created with a bootstrap token has no taints, annotations or owners")
	}
	return nil
}

// checkAgent checks what the agent of a cluster writes.
func checkAgent(a admission.Attributes, cluster string) error {
	switch object := a.GetObject().(type) {
	case *core.Event:
		about := object.InvolvedObject
		if a.GetNamespace() == metav1.NamespaceDefault && (about.Kind != "Cluster" || about.Name != cluster || about.Namespace != "") {
			return fmt.Errorf("involvedObject: the agent of cluster %q publishes events in this namespace about its Cluster only", cluster)
		}
	case *workv1alpha1.Work:
		before, ok := a.GetOldObject().(*workv1alpha1.Work)
		if ok && a.GetSubresource() == "" && (!equality.Semantic.DeepEqual(before.Spec, object.Spec) ||
			!equality.Semantic.DeepEqual(before.Labels, object.Labels) || !equality.Semantic.DeepEqual(before.Annotations, object.Annotations)) {
			return errors.New("an agent changes the finalizers and the status of a Work only")
		}
	default:
		own := map[string]string{clusterv1alpha1.ClusterNamespace: cluster, clusterv1alpha1.SystemNamespace: clusterv1alpha1.EpochLease(cluster)}
		if name := own[a.GetNamespace()]; a.GetResource().Resource == "leases" && a.GetName() != name {
			return fmt.Errorf("the agent of cluster %q has the Lease %q of this namespace only", cluster, name)
		}
	}
	return nil
}
