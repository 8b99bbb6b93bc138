package fleettest

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Deployment is one of nginx with a label "app" of its own name.
func Deployment(namespace, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "nginx", Image: "nginx",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
					}},
				}}},
			},
		},
	}
}

// ConfigMap holds the data.
func ConfigMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

// Secret holds the data.
func Secret(namespace, name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
}

// Service leads port 80 to the pods of the Deployment of the same name.
func Service(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
}

// Policy is a PropagationPolicy that selects the templates by kind and name.
func Policy(namespace, name string, placement policyv1alpha1.Placement, templates ...client.Object) *policyv1alpha1.PropagationPolicy {
	return &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyv1alpha1.PropagationSpec{ResourceSelectors: selectors(templates), Placement: placement},
	}
}

// ClusterPolicy is a ClusterPropagationPolicy that selects the templates by kind, namespace and name.
func ClusterPolicy(name string, placement policyv1alpha1.Placement, templates ...client.Object) *policyv1alpha1.ClusterPropagationPolicy {
	return &policyv1alpha1.ClusterPropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1alpha1.PropagationSpec{ResourceSelectors: selectors(templates), Placement: placement},
	}
}

func selectors(templates []client.Object) []policyv1alpha1.ResourceSelector {
	out := make([]policyv1alpha1.ResourceSelector, 0, len(templates))
	for _, t := range templates {
		kind := t.GetObjectKind().GroupVersionKind()
		if kind.Empty() {
			var err error
			if kind, err = apiutil.GVKForObject(t, clientgoscheme.Scheme); err != nil {
				panic(fmt.Sprintf("selecting a %T, whose kind is not known: %v", t, err))
			}
		}
		version, name := kind.ToAPIVersionAndKind()
		out = append(out, policyv1alpha1.ResourceSelector{APIVersion: version, Kind: name, Namespace: t.GetNamespace(), Name: t.GetName()})
	}
	return out
}

// To places a full copy in each of the clusters.
func To(clusters ...string) policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: clusters}}
}

// Everywhere places a full copy in every cluster.
func Everywhere() policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{}}
}

// Weight is a cluster's share of the replicas.
type Weight struct {
	Cluster string
	Weight  int64
}

// Divided places a share of the replicas in each cluster.
func Divided(weights ...Weight) policyv1alpha1.Placement {
	p := policyv1alpha1.Placement{
		ClusterAffinity: &policyv1alpha1.ClusterAffinity{},
		ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
			ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
			ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
			WeightPreference:          &policyv1alpha1.ClusterPreferences{},
		},
	}
	for _, w := range weights {
		p.ClusterAffinity.ClusterNames = append(p.ClusterAffinity.ClusterNames, w.Cluster)
		p.ReplicaScheduling.WeightPreference.StaticWeightList = append(p.ReplicaScheduling.WeightPreference.StaticWeightList,
			policyv1alpha1.StaticClusterWeight{
				TargetCluster: policyv1alpha1.ClusterAffinity{ClusterNames: []string{w.Cluster}}, Weight: w.Weight,
			})
	}
	return p
}

// Exists is a condition that any object fulfils.
func Exists[T client.Object](T) error { return nil }

// HasRenewalToken holds of the credential of a member in Push mode that has joined entirely: the token controller of the member makes the
// token, and the control plane reads it some seconds later.
func HasRenewalToken(s *corev1.Secret) error {
	if len(s.Data[clusterv1alpha1.SecretRenewalTokenKey]) == 0 {
		return errors.New("it has no renewal token")
	}
	return nil
}

// Available is the condition of a Deployment whose replicas are all ready, as seen by its present generation.
func Available(d *appsv1.Deployment) error {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	if d.Status.ReadyReplicas != want || d.Status.ObservedGeneration < d.Generation {
		return fmt.Errorf("%d of %d replicas are ready (generation %d, observed %d)",
			d.Status.ReadyReplicas, want, d.Generation, d.Status.ObservedGeneration)
	}
	return nil
}

// Replicas is the condition of a Deployment with n replicas in its spec.
func Replicas(n int32) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		if d.Spec.Replicas == nil || *d.Spec.Replicas != n {
			return fmt.Errorf("it has spec.replicas %v, want %d", d.Spec.Replicas, n)
		}
		return nil
	}
}

// ConditionTrue returns nil if the list has the condition with status True, else what it has: for use in conditions on
// any kind.
func ConditionTrue(conditions []metav1.Condition, kind string) error {
	c := meta.FindStatusCondition(conditions, kind)
	switch {
	case c == nil:
		return fmt.Errorf("it has no condition %s", kind)
	case c.Status != metav1.ConditionTrue:
		return fmt.Errorf("%s is %s (%s): %s", kind, c.Status, c.Reason, c.Message)
	}
	return nil
}
