package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/apis/core"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// Name is the name of Plugin in the admission chain.
const Name = "FlagshipAgents"

// Plugin restricts what agents, and clients that register one, write, as far as the authorizer of package authorization cannot: it
// does not receive the content of a request. It is to agents what NodeRestriction is to kubelets.
type Plugin struct {
	// tokenCluster returns the name of the Cluster that the user of a bootstrap token may register.
	tokenCluster func(ctx context.Context, user string) (string, error)
	// issuedWith returns the cluster that the bootstrap token registers with which a certificate was issued.
	issuedWith func(ctx context.Context, credential string) (request, cluster string, err error)
	requests   requests
}

var (
	_ admission.MutationInterface   = &Plugin{}
	_ admission.ValidationInterface = &Plugin{}
)

// New makes the plugin. Its arguments are functions because the Secrets of tokens, and requests of certificates, are read with a
// client of the API server that this plugin is part of.
func New(tokenCluster func(ctx context.Context, user string) (string, error), issuedWith func(ctx context.Context, credential string) (request, cluster string, err error)) *Plugin {
	return &Plugin{tokenCluster: tokenCluster, issuedWith: issuedWith}
}

// Handles implements admission.Interface.
func (p *Plugin) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update || operation == admission.Delete
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	who := a.GetUserInfo()
	if who == nil {
		return nil
	}
	registers := slices.Contains(who.GetGroups(), clusterv1alpha1.AgentBootstrappersGroup)
	if request, ok := a.GetObject().(*certificates.CertificateSigningRequest); ok && a.GetOperation() == admission.Create &&
		(registers || slices.Contains(who.GetGroups(), clusterv1alpha1.AgentsGroup)) {
		if err := checkBytes(request, bounds.MaxRequestBytes); err != nil {
			return admission.NewForbidden(a, err)
		}
		if len(request.OwnerReferences)+len(request.Finalizers) > 0 {
			return admission.NewForbidden(a, errors.New("metadata: a request of an agent has no owners and no finalizers"))
		}
		if !p.requests.allows(who.GetName()) {
			return apierrors.NewTooManyRequests("this client has made too many requests of certificates", int(bounds.RequestPeriod.Seconds()))
		}
	}
	var err error
	if registers {
		err = p.checkRegistration(ctx, a)
	} else if cluster, ok := clusterv1alpha1.ClusterOfKarmadaAgent(who.GetName(), who.GetGroups()); ok {
		err = p.checkKarmada(ctx, a, cluster)
	} else if cluster, _, ok := clusterv1alpha1.ClusterOfAgent(who.GetName(), who.GetGroups()); ok {
		err = checkAgent(a, cluster, clusterv1alpha1.EpochLease(cluster))
	}
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// checkRegistration checks the Cluster that a client with a bootstrap token creates: the token is for one name, and a token gives no
// right to point the control plane at an address or a Secret.
func (p *Plugin) checkRegistration(ctx context.Context, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return nil
	}
	name, err := p.tokenCluster(ctx, a.GetUserInfo().GetName())
	if err != nil {
		return fmt.Errorf("the bootstrap token cannot be read: %w", err)
	}
	switch object := a.GetObject().(type) {
	case *certificates.CertificateSigningRequest:
		return checkCertificateRequest(object, name)
	case *clusterv1alpha1.Cluster:
		if len(object.Annotations) > 0 {
			return errors.New("metadata.annotations: a Cluster that is created with a bootstrap token has none")
		}
		return checkNewCluster(object, name)
	}
	return nil
}

// checkNewCluster checks a Cluster that is registered with the token of a cluster.
func checkNewCluster(cluster *clusterv1alpha1.Cluster, name string) error {
	switch spec := cluster.Spec; {
	case cluster.Name != name:
		return fmt.Errorf("the bootstrap token registers cluster %q only", name)
	case spec.SyncMode != clusterv1alpha1.Pull:
		return errors.New("spec.syncMode: a bootstrap token registers clusters in Pull mode only")
	case spec.SecretRef != nil || spec.ImpersonatorSecretRef != nil || spec.APIEndpoint != "" || spec.ProxyURL != "" || len(spec.ProxyHeader) > 0:
		return errors.New("spec: a Cluster that is created with a bootstrap token has no address and no credentials")
	case len(spec.Taints) > 0 || len(cluster.OwnerReferences) > 0:
		return errors.New("a Cluster that is created with a bootstrap token has no taints and no owners")
	}
	return checkBytes(cluster, bounds.MaxClusterBytes)
}

// checkAgent checks what the agent of a cluster writes, which has one Lease in the namespace of the system.
func checkAgent(a admission.Attributes, cluster, systemLease string) error {
	if work, ok := a.GetOldObject().(*workv1alpha1.Work); ok && a.GetOperation() == admission.Delete {
		_, err := recordOf(work)
		return err
	}
	if object, ok := a.GetObject().(metav1.Object); ok {
		before, _ := a.GetOldObject().(metav1.Object)
		if err := checkMetadata(object, before, cluster); err != nil {
			return err
		}
	}
	switch object := a.GetObject().(type) {
	case *core.Event:
		if err := checkBytes(object, bounds.MaxEventBytes); err != nil {
			return err
		}
		before, updated := a.GetOldObject().(*core.Event)
		if !ownEvent(object, cluster) || updated && !ownEvent(before, cluster) {
			return fmt.Errorf("involvedObject: the agent of cluster %q publishes events in this namespace about its own objects only", cluster)
		}
	case *workv1alpha1.Work:
		return checkWork(a, object)
	default:
		if a.GetResource().GroupResource() == fleetv1alpha1.Resource(fleetv1alpha1.ResourcePluralClusterCapacity) {
			if a.GetName() != cluster {
				return fmt.Errorf("the agent of cluster %q writes the capacity of its Cluster only", cluster)
			}
			return checkBytes(object, bounds.MaxCapacityBytes)
		}
		if a.GetResource().Resource == "leases" && object != nil {
			if err := checkBytes(object, bounds.MaxLeaseBytes); err != nil {
				return err
			}
		}
		own := map[string]string{clusterv1alpha1.ClusterNamespace: cluster, clusterv1alpha1.SystemNamespace: systemLease}
		if name := own[a.GetNamespace()]; a.GetResource().Resource == "leases" && a.GetName() != name {
			return fmt.Errorf("the agent of cluster %q has the Lease %q of this namespace only", cluster, name)
		}
	}
	return nil
}

// checkWork checks a Work that an agent writes: its own records whole, and of others its finalizer and the status.
func checkWork(a admission.Attributes, object *workv1alpha1.Work) error {
	before, updated := a.GetOldObject().(*workv1alpha1.Work)
	if a.GetSubresource() != "" {
		return nil // it keeps the rest
	}
	if updated && equality.Semantic.DeepEqual(before.Spec, object.Spec) && checkWorkMetadata(object, before) == nil {
		return nil
	}
	if !updated {
		before = &workv1alpha1.Work{}
	}
	if err := checkRecord(object, before); err != nil {
		return fmt.Errorf("of other Works than its records an agent changes its finalizer and the status only: %w", err)
	}
	return nil
}

// ownEvent returns whether the agent of a cluster may publish an event, by what it is about. In other namespaces than these, the
// authorizer bounds the agent to its execution namespace.
func ownEvent(event *core.Event, cluster string) bool {
	about := event.InvolvedObject
	switch event.Namespace {
	case metav1.NamespaceDefault:
		return about.Kind == "Cluster" && about.Name == cluster && about.Namespace == ""
	case clusterv1alpha1.SystemNamespace:
		return about.Kind == "Lease" && about.Namespace == event.Namespace && about.Name == clusterv1alpha1.KarmadaElectionLease(cluster)
	default:
		return true
	}
}
