package agents

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// reason is that of the condition on a request that was approved or denied.
const reason = "AgentCertificate"

// usages are what the certificate of an agent may be for; the first one it must be for.
var usages = []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}

// Deps is what Setup needs. All fields are required.
type Deps struct {
	// Live reads past the cache: Clusters that were created a moment before the request, and Secrets of tokens.
	Live client.Reader
	// Kube writes approvals.
	Kube kubernetes.Interface
}

// Setup adds the loop that approves and denies requests for certificates of agents.
func Setup(mgr ctrl.Manager, deps Deps) error {
	undecided := predicate.NewPredicateFuncs(func(o client.Object) bool {
		request, ok := o.(*certificatesv1.CertificateSigningRequest)
		return ok && request.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName && (len(request.Status.Conditions) == 0 || renewed(request))
	})
	a := &approver{Deps: deps, client: mgr.GetClient()}
	err := ctrl.NewControllerManagedBy(mgr).Named("agent-certificates").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(undecided)).
		Complete(controlloop.Track(mgr, a))
	if err != nil {
		return fmt.Errorf("building the controller of agents' certificates: %w", err)
	}
	return nil
}

type approver struct {
	Deps
	client client.Client
}

// Reconcile decides about one request.
func (a *approver) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	request := &certificatesv1.CertificateSigningRequest{}
	if err := a.client.Get(ctx, q.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if renewed(request) {
		return reconcile.Result{}, a.recordRenewal(ctx, request)
	}
	if len(request.Status.Conditions) > 0 {
		return reconcile.Result{}, nil
	}
	subject, ok := subjectOf(request)
	if !ok {
		return reconcile.Result{}, nil // it is for no agent
	}
	refusal, err := a.check(ctx, request, subject)
	if err != nil {
		return reconcile.Result{}, err
	}
	condition := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: reason,
		Message: "The certificate is for the agent of cluster " + subject.cluster,
	}
	if refusal != nil {
		condition.Type, condition.Message = certificatesv1.CertificateDenied, refusal.Error()
	}
	log.FromContext(ctx).Info("Decided about the certificate of an agent", "cluster", subject.cluster, "user", request.Spec.Username,
		"decision", condition.Type, "reason", condition.Message)
	request = request.DeepCopy()
	request.Status.Conditions = append(request.Status.Conditions, condition)
	_, err = a.Kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, request.Name, request, metav1.UpdateOptions{})
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("writing the approval: %w", err)
	}
	return reconcile.Result{}, nil
}

// subject is for whom a certificate is requested.
type subject struct {
	cluster string
	parsed  *x509.CertificateRequest
	// karmada is set for karmadactl and its agent, whose certificates name no Cluster object.
	karmada bool
}

// subjectOf returns false if a request is not for an agent, or is for a karmada-agent and made by others than a bootstrap token or an agent.
func subjectOf(request *certificatesv1.CertificateSigningRequest) (subject, bool) {
	block, _ := pem.Decode(request.Spec.Request)
	if block == nil {
		return subject{}, false
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return subject{}, false
	}
	if cluster, ok := clusterv1alpha1.ClusterOfKarmadaAgent(parsed.Subject.CommonName, parsed.Subject.Organization); ok {
		_, agent := clusterv1alpha1.ClusterOfKarmadaAgent(request.Spec.Username, request.Spec.Groups)
		return subject{cluster: cluster, parsed: parsed, karmada: true}, agent || slices.Contains(request.Spec.Groups, clusterv1alpha1.AgentBootstrappersGroup)
	}
	cluster, _, ok := clusterv1alpha1.ClusterOfAgent(parsed.Subject.CommonName, parsed.Subject.Organization)
	return subject{cluster: cluster, parsed: parsed}, ok
}

// check returns why a request is denied, nil if it is approved. The error means that it cannot be decided yet.
func (a *approver) check(ctx context.Context, request *certificatesv1.CertificateSigningRequest, s subject) (refusal, err error) {
	cluster, err := a.cluster(ctx, s.cluster)
	if err != nil {
		return nil, err
	}
	if s.karmada {
		return a.checkKarmada(ctx, request, s, cluster)
	}
	if cluster == nil || cluster.DeletionTimestamp != nil || cluster.Spec.SyncMode != clusterv1alpha1.Pull {
		return fmt.Errorf("there is no Cluster %q in Pull mode", s.cluster), nil
	}
	organizations := slices.Sorted(slices.Values(s.parsed.Subject.Organization))
	if !slices.Equal(organizations, slices.Sorted(slices.Values(clusterv1alpha1.AgentGroups(cluster.UID)))) {
		return fmt.Errorf("the organizations are not those of the agent of Cluster %q with the UID %s", cluster.Name, cluster.UID), nil
	}
	if refusal := checkContent(request, s); refusal != nil {
		return refusal, nil
	}
	if slices.Contains(request.Spec.Groups, clusterv1alpha1.AgentBootstrappersGroup) {
		bound, err := TokenCluster(ctx, a.Live, request.Spec.Username)
		if err != nil {
			return nil, err
		}
		if bound != s.cluster {
			return fmt.Errorf("the bootstrap token registers cluster %q only", bound), nil
		}
		return nil, nil
	}
	name, uid, ok := clusterv1alpha1.ClusterOfAgent(request.Spec.Username, request.Spec.Groups)
	if !ok || name != s.cluster || uid != cluster.UID {
		return fmt.Errorf("%q may not request the certificate of the agent of cluster %q", request.Spec.Username, s.cluster), nil
	}
	return nil, nil
}

// cluster reads a Cluster, nil if there is none.
func (a *approver) cluster(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := a.Live.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading cluster %s: %w", name, err)
	}
	return cluster, nil
}

// checkContent returns what is wrong with the certificate that is requested, besides its organizations.
func checkContent(request *certificatesv1.CertificateSigningRequest, s subject) error {
	if names := s.parsed; len(names.DNSNames)+len(names.EmailAddresses)+len(names.IPAddresses)+len(names.URIs) > 0 {
		return errors.New("the certificate of an agent has no alternative names")
	}
	for _, usage := range request.Spec.Usages {
		if !slices.Contains(usages, usage) {
			return fmt.Errorf("the certificate of an agent is not for %q", usage)
		}
	}
	if !slices.Contains(request.Spec.Usages, usages[0]) {
		return fmt.Errorf("the certificate of an agent is for %q", usages[0])
	}
	return nil
}
