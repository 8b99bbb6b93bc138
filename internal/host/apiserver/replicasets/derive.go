package replicasets

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/apps"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/controller"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// Annotations that the controller of Deployments sets.
const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas"
	causeAnnotation    = "kubernetes.io/change-cause"
)

// derive returns the ReplicaSet that stands for the newest ones of a Deployment, nil if the Deployment is being deleted: then the
// garbage collector finds no dependents that it would wait for. It shares memory with the Deployment.
func derive(d *apps.Deployment) (*apps.ReplicaSet, error) {
	if d.DeletionTimestamp != nil {
		return nil, nil
	}
	var template corev1.PodTemplateSpec
	if err := corev1conversion.Convert_core_PodTemplateSpec_To_v1_PodTemplateSpec(&d.Spec.Template, &template, nil); err != nil {
		return nil, fmt.Errorf("converting the template of Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	hash := controller.ComputeHash(&template, d.Status.CollisionCount)
	rs := &apps.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-" + hash, UID: uidOf(d, hash),
			ResourceVersion: d.ResourceVersion, Generation: d.Generation, CreationTimestamp: d.CreationTimestamp,
			Labels:          with(with(d.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash), workv1alpha1.DerivedLabel, "true"),
			Annotations:     map[string]string{revisionAnnotation: revision(d), desiredAnnotation: strconv.Itoa(int(d.Spec.Replicas))},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec:   apps.ReplicaSetSpec{Replicas: d.Spec.Replicas, MinReadySeconds: d.Spec.MinReadySeconds, Template: d.Spec.Template},
		Status: status(d),
	}
	if cause, ok := d.Annotations[causeAnnotation]; ok {
		rs.Annotations[causeAnnotation] = cause
	}
	rs.Spec.Template.Labels = with(d.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	if d.Spec.Selector != nil {
		rs.Spec.Selector = &metav1.LabelSelector{
			MatchLabels:      with(d.Spec.Selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey, hash),
			MatchExpressions: d.Spec.Selector.MatchExpressions,
		}
	}
	return rs, nil
}

// status is that of the newest ReplicaSets. The Deployment's status does not say which of the ready replicas are old, so all old ones
// count as ready: the result may be too low during a rollout, never too high. Before the members report about the current generation
// there are none.
func status(d *apps.Deployment) apps.ReplicaSetStatus {
	reported := d.Status
	if reported.ObservedGeneration < d.Generation {
		return apps.ReplicaSetStatus{ObservedGeneration: reported.ObservedGeneration}
	}
	old := max(0, reported.Replicas-reported.UpdatedReplicas)
	return apps.ReplicaSetStatus{
		Replicas: reported.UpdatedReplicas, FullyLabeledReplicas: reported.UpdatedReplicas,
		ReadyReplicas: max(0, reported.ReadyReplicas-old), AvailableReplicas: max(0, reported.AvailableReplicas-old),
		ObservedGeneration: reported.ObservedGeneration,
	}
}

// revision is the number that the Deployment has in its annotation, or its generation, which grows with each change of its spec. It grows
// once more when a policy selects the Deployment: the control plane annotates it. That is no revision, so that the first one is 1.
func revision(d *apps.Deployment) string {
	if value := d.Annotations[revisionAnnotation]; value != "" {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > 0 {
			return value
		}
	}
	generation := d.Generation
	if policy.IsClaimed(d) {
		generation--
	}
	return strconv.FormatInt(max(1, generation), 10)
}

// uidOf is the same for the same template of a Deployment.
func uidOf(d *apps.Deployment, hash string) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceOID, []byte(string(d.UID)+"/"+hash)).String())
}

func with(labels map[string]string, key, value string) map[string]string {
	all := make(map[string]string, len(labels)+1)
	maps.Copy(all, labels)
	all[key] = value
	return all
}
