package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
)

const (
	// bootstrapKey is the key of the kubeconfig with the token, in its Secret.
	bootstrapKey = "kubeconfig"
	// Directories of the agent's container.
	bootstrapDir = "/etc/flagship"
	dataDir      = "/var/lib/flagship"
	healthPort   = 10357
	// user is that of the container: any but root.
	user = 65532
)

// manifest describes the agents of a cluster that run in it.
type manifest struct {
	cluster, image string
	replicas       int32
	// bootstrap is the kubeconfig with the token.
	bootstrap []byte
	// account is the one that the agents work as, with its rights, controlPlane the id of the control plane that it carries.
	account      memberaccount.Account
	controlPlane string
}

// name is that of the Deployment and of the Secret with the credential.
func (m manifest) name() string { return "flagship-agent-" + m.cluster }

func (m manifest) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: clusterv1alpha1.ClusterNamespace, Name: name,
		Labels:      map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue},
		Annotations: map[string]string{workv1alpha1.ControlPlaneAnnotation: m.controlPlane},
	}
}

func (m manifest) clusterMeta(name string) metav1.ObjectMeta {
	meta := m.meta(name)
	meta.Namespace = ""
	return meta
}

// objects are in the order in which they are created.
func (m manifest) objects() []client.Object {
	account, namespace := m.account, clusterv1alpha1.ClusterNamespace
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}}
	kind := func(version schema.GroupVersion, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: version.String(), Kind: kind}
	}
	own := []string{m.name()}
	// The Secret with the credential is part of the manifest, so that the agent needs no right to create Secrets.
	home := account.Home.Merged(memberaccount.Rights{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: own, Verbs: []string{"get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"list"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}, // of leader election
	})
	return []client.Object{
		&corev1.Namespace{TypeMeta: kind(corev1.SchemeGroupVersion, "Namespace"), ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue},
		}},
		&corev1.ServiceAccount{TypeMeta: kind(corev1.SchemeGroupVersion, "ServiceAccount"), ObjectMeta: m.meta(account.Name)},
		&rbacv1.ClusterRole{TypeMeta: kind(rbacv1.SchemeGroupVersion, "ClusterRole"), ObjectMeta: m.clusterMeta(account.Role), Rules: account.Rules},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: kind(rbacv1.SchemeGroupVersion, "ClusterRoleBinding"), ObjectMeta: m.clusterMeta(account.Role), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account.Role},
		},
		&rbacv1.Role{TypeMeta: kind(rbacv1.SchemeGroupVersion, "Role"), ObjectMeta: m.meta(account.Name), Rules: home},
		&rbacv1.RoleBinding{
			TypeMeta: kind(rbacv1.SchemeGroupVersion, "RoleBinding"), ObjectMeta: m.meta(account.Name), Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account.Name},
		},
		&corev1.Secret{
			TypeMeta: kind(corev1.SchemeGroupVersion, "Secret"), ObjectMeta: m.meta(m.name() + "-bootstrap"),
			Data: map[string][]byte{bootstrapKey: m.bootstrap},
		},
		&corev1.Secret{TypeMeta: kind(corev1.SchemeGroupVersion, "Secret"), ObjectMeta: m.meta(m.name())},
		&appsv1.Deployment{TypeMeta: kind(appsv1.SchemeGroupVersion, "Deployment"), ObjectMeta: m.meta(m.name()), Spec: m.deployment()},
	}
}

func (m manifest) deployment() appsv1.DeploymentSpec {
	labels := map[string]string{"app.kubernetes.io/name": "flagship-agent", "app.kubernetes.io/instance": m.cluster}
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(healthPort)}}, PeriodSeconds: 10}
	}
	return appsv1.DeploymentSpec{
		Replicas: &m.replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				ServiceAccountName: m.account.Name,
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)), FSGroup: new(int64(user)),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{{
					Name: "agent", Image: m.image,
					Args: []string{
						"agent", m.cluster, "--leader-elect", "--bootstrap-kubeconfig=" + bootstrapDir + "/" + bootstrapKey,
						"--credential-secret=" + m.name(), "--data-dir=" + dataDir, "--health-probe-bind-address=:" + strconv.Itoa(healthPort),
					},
					LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
						Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
					},
					SecurityContext: &corev1.SecurityContext{
						AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
						Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					},
					VolumeMounts: []corev1.VolumeMount{{Name: "bootstrap", MountPath: bootstrapDir, ReadOnly: true}, {Name: "data", MountPath: dataDir}},
				}},
				Volumes: []corev1.Volume{
					{Name: "bootstrap", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: m.name() + "-bootstrap", Optional: new(true)}}},
					{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
				},
			},
		},
	}
}

// yaml encodes the objects as one file.
func (m manifest) yaml() ([]byte, error) {
	var text bytes.Buffer
	for _, object := range m.objects() {
		document, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", object.GetName(), err)
		}
		text.WriteString("---\n")
		text.Write(document)
	}
	return text.Bytes(), nil
}

// apply writes the objects to the cluster. Those that exist are changed.
func (m manifest) apply(ctx context.Context, member *rest.Config) error {
	c, err := client.New(member, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return fmt.Errorf("building a client for the cluster: %w", err)
	}
	for _, object := range m.objects() {
		text, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", object.GetName(), err)
		}
		err = c.Patch(ctx, object, client.RawPatch(types.ApplyPatchType, text), client.FieldOwner(memberaccount.FieldManager), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
		}
	}
	return nil
}
