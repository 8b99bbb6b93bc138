package replicasets

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

func deployment(name string, edits ...func(*apps.Deployment)) *apps.Deployment {
	d := &apps.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "d", Generation: 4, ResourceVersion: "9"},
		Spec: apps.DeploymentSpec{
			Replicas: 3, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: core.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
				Spec:       core.PodSpec{Containers: []core.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

func derived(t *testing.T, d *apps.Deployment) *apps.ReplicaSet {
	t.Helper()
	rs, err := derive(d)
	if err != nil || rs == nil {
		t.Fatalf("nothing is derived: %v", err)
	}
	return rs
}

func TestWhatIsDerived(t *testing.T) {
	d := deployment("web", func(d *apps.Deployment) { d.Annotations = map[string]string{causeAnnotation: "because"} })
	rs := derived(t, d)
	hash := rs.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if hash == "" || rs.Name != "web-"+hash || rs.Namespace != "default" || rs.ResourceVersion != "9" || rs.UID == "" {
		t.Errorf("its metadata is %+v", rs.ObjectMeta)
	}
	if owner := metav1.GetControllerOf(rs); owner == nil || owner.UID != d.UID || owner.Kind != "Deployment" || owner.APIVersion != "apps/v1" {
		t.Errorf("its controller is %v", owner)
	}
	want := map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: hash}
	if diff := cmp.Diff(want, rs.Spec.Template.Labels) + cmp.Diff(want, rs.Spec.Selector.MatchLabels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{revisionAnnotation: "4", desiredAnnotation: "3", causeAnnotation: "because"}, rs.Annotations); diff != "" {
		t.Error(diff)
	}
	if len(d.Spec.Template.Labels) != 1 || len(d.Spec.Selector.MatchLabels) != 1 {
		t.Errorf("the Deployment was changed: %+v", d)
	}
	scaled := derived(t, deployment("web", func(d *apps.Deployment) { d.Spec.Replicas, d.Generation = 5, 5 }))
	if scaled.Name != rs.Name || scaled.UID != rs.UID {
		t.Errorf("after scaling it is another one: %s, %s", rs.Name, scaled.Name)
	}
	next := derived(t, deployment("web", func(d *apps.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "nginx:2" }))
	if next.Name == rs.Name || next.UID == rs.UID {
		t.Errorf("with another template it is the same")
	}
	now := metav1.Now()
	if gone, err := derive(deployment("web", func(d *apps.Deployment) { d.DeletionTimestamp = &now })); gone != nil || err != nil {
		t.Errorf("a Deployment that is deleted has %v, %v", gone, err)
	}
	for annotation, want := range map[string]string{"7": "7", "0": "4", "x": "4"} {
		rs := derived(t, deployment("web", func(d *apps.Deployment) { d.Annotations = map[string]string{revisionAnnotation: annotation} }))
		if rs.Annotations[revisionAnnotation] != want {
			t.Errorf("with revision %s it has %s, want %s", annotation, rs.Annotations[revisionAnnotation], want)
		}
	}
}

func TestTheFirstRevisionIsOne(t *testing.T) {
	claim := map[string]string{policyv1alpha1.PropagationPolicyNamespaceAnnotation: "default", policyv1alpha1.PropagationPolicyNameAnnotation: "all"}
	for name, tc := range map[string]struct {
		reason      string
		generation  int64
		annotations map[string]string
		want        string
	}{
		"New":      {"nothing has happened to it", 1, nil, "1"},
		"Claimed":  {"a policy has selected it", 2, claim, "1"},
		"Changed":  {"its spec has changed since", 3, claim, "2"},
		"Kept":     {"its spec has changed and no policy selects it", 2, nil, "2"},
		"Imported": {"it had the annotations when it was created", 1, claim, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			rs := derived(t, deployment("web", func(d *apps.Deployment) { d.Generation, d.Annotations = tc.generation, tc.annotations }))
			if got := rs.Annotations[revisionAnnotation]; got != tc.want {
				t.Errorf("%s: the revision is %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestStatusIsNeverTooHigh(t *testing.T) {
	tests := map[string]struct {
		reported apps.DeploymentStatus
		want     apps.ReplicaSetStatus
	}{
		"NeverReported":      {apps.DeploymentStatus{}, apps.ReplicaSetStatus{}},
		"OfAnEarlierVersion": {apps.DeploymentStatus{ObservedGeneration: 3, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3}, apps.ReplicaSetStatus{ObservedGeneration: 3}},
		"RolledOut": {
			apps.DeploymentStatus{ObservedGeneration: 4, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 2},
			apps.ReplicaSetStatus{ObservedGeneration: 4, Replicas: 3, FullyLabeledReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 2},
		},
		"Rolling": {
			apps.DeploymentStatus{ObservedGeneration: 4, Replicas: 4, UpdatedReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 1},
			apps.ReplicaSetStatus{ObservedGeneration: 4, Replicas: 2, FullyLabeledReplicas: 2, ReadyReplicas: 1},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, status(deployment("web", func(d *apps.Deployment) { d.Status = tc.reported }))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
