package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// IssuedWith returns the request by which a certificate of karmadactl or its agent was issued with a bootstrap token, and the Cluster
// that the token registers. Both are "" if there is no such request any more: karmadactl deletes its own, and the control plane deletes
// others an hour after their approval; or if the token has ended.
func IssuedWith(ctx context.Context, live client.Reader, credential string) (request, cluster string, err error) {
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := live.List(ctx, requests); err != nil {
		return "", "", fmt.Errorf("listing the requests of certificates: %w", err)
	}
	for i := range requests.Items {
		r := &requests.Items[i]
		if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName ||
			!slices.Contains(r.Spec.Groups, clusterv1alpha1.AgentBootstrappersGroup) || credentialOf(r) != credential {
			continue
		}
		cluster, err := TokenCluster(ctx, live, r.Spec.Username)
		if err != nil || cluster == "" {
			return "", "", err
		}
		return r.Name, cluster, nil
	}
	return "", "", nil
}

// credentialOf returns the certificate that was issued, as the API server identifies the credential of who uses it; "" without one.
func credentialOf(request *certificatesv1.CertificateSigningRequest) string {
	block, _ := pem.Decode(request.Status.Certificate)
	if block == nil {
		return ""
	}
	sum := sha256.Sum256(block.Bytes)
	return "X509SHA256=" + hex.EncodeToString(sum[:])
}

// checkKarmada is check for karmadactl and its agent. The Cluster is nil if it does not exist.
func (a *approver) checkKarmada(ctx context.Context, request *certificatesv1.CertificateSigningRequest, s subject, cluster *clusterv1alpha1.Cluster) (refusal, err error) {
	if !slices.Equal(s.parsed.Subject.Organization, []string{clusterv1alpha1.AgentsGroup}) {
		return fmt.Errorf("the organization of a karmada-agent is %q", clusterv1alpha1.AgentsGroup), nil
	}
	if refusal := checkContent(request, s); refusal != nil {
		return refusal, nil
	}
	if !slices.Contains(request.Spec.Groups, clusterv1alpha1.AgentBootstrappersGroup) {
		if cluster == nil || cluster.DeletionTimestamp != nil || cluster.Spec.SyncMode != clusterv1alpha1.Pull ||
			request.Spec.Username != clusterv1alpha1.AgentUser(s.cluster) || !clusterv1alpha1.HasAgentCredential(cluster, requester(request)) {
			return fmt.Errorf("%q may not request the certificate of the agent of cluster %q", request.Spec.Username, s.cluster), nil
		}
		return nil, nil
	}
	bound, err := TokenCluster(ctx, a.Live, request.Spec.Username)
	switch {
	case err != nil:
		return nil, err
	case bound == "":
		return errors.New("the bootstrap token registers no cluster: create one with 'flagship token create NAME'"), nil
	case s.cluster == clusterv1alpha1.KarmadaRegistrar:
		return nil, nil
	case s.cluster != bound:
		return fmt.Errorf("the bootstrap token registers cluster %q only", bound), nil
	case cluster != nil:
		return fmt.Errorf("cluster %q exists: karmadactl registers new clusters only; use 'flagship register'", s.cluster), nil
	}
	return nil, nil
}

// requester is the certificate with which a request was made.
func requester(request *certificatesv1.CertificateSigningRequest) string {
	if ids := request.Spec.Extra[user.CredentialIDKey]; len(ids) == 1 {
		return ids[0]
	}
	return ""
}

// renewed returns whether a request has renewed the certificate of a karmada-agent.
func renewed(request *certificatesv1.CertificateSigningRequest) bool {
	_, agent := clusterv1alpha1.ClusterOfKarmadaAgent(request.Spec.Username, request.Spec.Groups)
	return agent && len(request.Status.Certificate) > 0
}

// recordRenewal adds a renewed certificate to those of the Cluster. The one with which it was requested stays, since the agent may go on
// with it; earlier ones go.
func (a *approver) recordRenewal(ctx context.Context, request *certificatesv1.CertificateSigningRequest) error {
	name, _ := clusterv1alpha1.ClusterOfKarmadaAgent(request.Spec.Username, request.Spec.Groups)
	before, after := requester(request), credentialOf(request)
	cluster, err := a.cluster(ctx, name)
	s, ok := subjectOf(request)
	if err != nil || cluster == nil || !ok || !s.karmada || s.cluster != name ||
		!clusterv1alpha1.HasAgentCredential(cluster, before) || clusterv1alpha1.HasAgentCredential(cluster, after) {
		return err
	}
	changed := cluster.DeepCopy()
	changed.Annotations[clusterv1alpha1.AgentCredentialsAnnotation] = before + "," + after
	if err := a.client.Patch(ctx, changed, client.MergeFromWithOptions(cluster, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording the renewed certificate of the agent of cluster %s: %w", name, err)
	}
	return nil
}
