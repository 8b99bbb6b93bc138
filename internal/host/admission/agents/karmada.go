package agents

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/authentication"
	"k8s.io/kubernetes/pkg/apis/authorization"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/rbac"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Admit bounds the reports of agents. It also removes from what karmadactl and its agent write what would be more than they need: the rules of roles and the subjects of
// bindings, since the authorizer gives the agent its rights; addresses and credentials of the member, since the control plane does not
// connect to a member in Pull mode. They would not go on if it was refused.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	who := a.GetUserInfo()
	if who == nil || a.GetOperation() == admission.Delete {
		return nil
	}
	if slices.Contains(who.GetGroups(), clusterv1alpha1.AgentsGroup) {
		boundReport(a, time.Now())
	}
	if a.GetSubresource() != "" {
		return nil
	}
	if _, ok := clusterv1alpha1.ClusterOfKarmadaAgent(who.GetName(), who.GetGroups()); !ok {
		return nil
	}
	switch object := a.GetObject().(type) {
	case *rbac.ClusterRole:
		object.Rules = nil
	case *rbac.Role:
		object.Rules = nil
	case *rbac.ClusterRoleBinding:
		object.Subjects = nil
	case *rbac.RoleBinding:
		object.Subjects = nil
	case *core.Secret:
		object.Data = nil
		if before, ok := a.GetOldObject().(*core.Secret); ok {
			object.Data = before.Data
		}
	case *clusterv1alpha1.Cluster:
		if before, ok := a.GetOldObject().(*clusterv1alpha1.Cluster); ok {
			before.ObjectMeta.DeepCopyInto(&object.ObjectMeta)
			before.Spec.DeepCopyInto(&object.Spec)
			return nil
		}
		spec := &object.Spec
		spec.APIEndpoint, spec.ProxyURL, spec.ProxyHeader, spec.SecretRef, spec.ImpersonatorSecretRef, spec.InsecureSkipTLSVerification = "", "", nil, nil, nil, false
		object.Annotations = map[string]string{clusterv1alpha1.AgentCredentialsAnnotation: credential(who)}
		warning.AddWarning(ctx, "", "spec: the address and the credentials of a member in Pull mode are not stored: the control plane does not connect to it")
	}
	return nil
}

// credential is the certificate of a user, as the API server identifies it.
func credential(who user.Info) string {
	return strings.Join(who.GetExtra()[user.CredentialIDKey], "") // it has one
}

// checkKarmada checks what karmadactl and the agent of a cluster write, after Admit.
func (p *Plugin) checkKarmada(ctx context.Context, a admission.Attributes, cluster string) error {
	if cluster == clusterv1alpha1.KarmadaRegistrar {
		_, bound, err := p.issuedWith(ctx, credential(a.GetUserInfo()))
		if err != nil {
			return fmt.Errorf("the certificate cannot be checked: %w", err)
		}
		return checkRegistrar(a, bound)
	}
	switch object := a.GetObject().(type) {
	case *clusterv1alpha1.Cluster:
		if a.GetOperation() != admission.Create {
			return nil
		}
		own := object.Annotations[clusterv1alpha1.AgentCredentialsAnnotation]
		if len(object.Annotations) != 1 || own == "" || own != credential(a.GetUserInfo()) {
			return errors.New("metadata.annotations: a Cluster that its agent creates has that of its certificate only")
		}
		return checkNewCluster(object, cluster)
	case *core.Secret:
		return checkReportedSecret(object, cluster)
	}
	return checkAgent(a, cluster, clusterv1alpha1.KarmadaElectionLease(cluster))
}

// checkReportedSecret checks a Secret in which an agent reports a credential of its member. The data is dropped.
func checkReportedSecret(secret *core.Secret, cluster string) error {
	switch {
	case !slices.Contains(clusterv1alpha1.KarmadaAgentSecrets(cluster), secret.Name):
		return fmt.Errorf("the agent of cluster %q writes the Secrets %q only", cluster, clusterv1alpha1.KarmadaAgentSecrets(cluster))
	case secret.Type != core.SecretTypeOpaque || secret.Immutable != nil || len(secret.Annotations)+len(secret.Finalizers) > 0 || !onlySystemLabel(secret.Labels):
		return fmt.Errorf("metadata: a Secret of an agent is Opaque, can be changed, and has no annotations, finalizers, or labels but %s", clusterv1alpha1.SystemLabel)
	}
	for _, owner := range secret.OwnerReferences {
		if owner.Kind != "Cluster" || owner.Name != cluster {
			return errors.New("metadata.ownerReferences: the owner of a Secret of an agent is its Cluster")
		}
	}
	return nil
}

// onlySystemLabel returns whether labels are none but the one that Karmada writes on its own objects.
func onlySystemLabel(labels map[string]string) bool {
	return len(labels) == 0 || len(labels) == 1 && labels[clusterv1alpha1.SystemLabel] == clusterv1alpha1.SystemLabelValue
}

// checkRegistrar checks what karmadactl creates and deletes for the agent of a cluster.
func checkRegistrar(a admission.Attributes, cluster string) error {
	object := a.GetObject()
	if a.GetOperation() == admission.Delete {
		object = a.GetOldObject()
	}
	namespace := a.GetNamespace()
	role := clusterv1alpha1.KarmadaAgentRole(cluster, namespace)
	named := func(m metav1.ObjectMeta, name string) error {
		foreign := maps.Clone(m.Labels)
		maps.DeleteFunc(foreign, func(key, value string) bool {
			// The API server adds the second one to a namespace.
			return key == clusterv1alpha1.SystemLabel && value == clusterv1alpha1.SystemLabelValue || key == corev1.LabelMetadataName && value == name
		})
		if m.Name != name || len(foreign)+len(m.Annotations)+len(m.Finalizers)+len(m.OwnerReferences) > 0 {
			return fmt.Errorf("metadata: karmadactl creates %q here for cluster %q, without annotations, finalizers, owners, or labels but %s", name, cluster, clusterv1alpha1.SystemLabel)
		}
		return nil
	}
	switch object := object.(type) {
	case *rbac.ClusterRole:
		if len(object.Rules) > 0 || object.AggregationRule != nil {
			return errors.New("rules: a role of an agent has none, since the control plane gives the agent its rights")
		}
		return named(object.ObjectMeta, role)
	case *rbac.Role:
		if len(object.Rules) > 0 {
			return errors.New("rules: a role of an agent has none, since the control plane gives the agent its rights")
		}
		return named(object.ObjectMeta, role)
	case *rbac.ClusterRoleBinding:
		return errors.Join(checkEmptyBinding(object.Subjects, object.RoleRef, "ClusterRole", role), named(object.ObjectMeta, role))
	case *rbac.RoleBinding:
		return errors.Join(checkEmptyBinding(object.Subjects, object.RoleRef, "Role", role), named(object.ObjectMeta, role))
	case *core.Namespace:
		if object.Name == clusterv1alpha1.ClusterNamespace {
			return nil // it exists
		}
		if len(object.Spec.Finalizers) > 1 {
			return errors.New("spec.finalizers: karmadactl sets none")
		}
		return named(object.ObjectMeta, workv1alpha1.ExecutionNamespace(cluster))
	case *certificates.CertificateSigningRequest:
		return nil // The authorizer allows it to delete its own.
	case *authorization.SelfSubjectAccessReview, *authorization.SelfSubjectRulesReview, *authentication.SelfSubjectReview:
		return nil // All users may create these, and nothing is stored.
	default:
		return fmt.Errorf("karmadactl writes no %s", a.GetResource().Resource)
	}
}

func checkEmptyBinding(subjects []rbac.Subject, ref rbac.RoleRef, kind, role string) error {
	if len(subjects) > 0 {
		return errors.New("subjects: a binding of an agent has none, since the control plane gives the agent its rights")
	}
	if ref.Kind != kind || ref.Name != role {
		return fmt.Errorf("roleRef: the binding is of %s %q", kind, role)
	}
	return nil
}

// checkCertificateRequest refuses what would not be approved, since karmadactl waits for minutes otherwise.
func checkCertificateRequest(request *certificates.CertificateSigningRequest, cluster string) error {
	if cluster == "" {
		return errors.New("the bootstrap token registers no cluster: create one with 'flagship token create NAME'")
	}
	if request.Spec.SignerName != certificates.KubeAPIServerClientSignerName {
		return fmt.Errorf("spec.signerName: the certificate of an agent is from %s; karmadactl uses it since version 1.12", certificates.KubeAPIServerClientSignerName)
	}
	block, _ := pem.Decode(request.Spec.Request)
	if block == nil {
		return nil // Validation refuses it.
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil //nolint:nilerr // Validation refuses it.
	}
	if name := parsed.Subject.CommonName; name != clusterv1alpha1.AgentUser(cluster) && name != clusterv1alpha1.AgentUser(clusterv1alpha1.KarmadaRegistrar) {
		return fmt.Errorf("the bootstrap token registers cluster %q only", cluster)
	}
	return nil
}
