package pipeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// What `kubectl rollout status` and `kubectl wait --for=condition=Available` read on the control plane is about every member,
// and what `kubectl describe` shows of the way there is one event for each step.
func TestARolloutWaitsForEveryMember(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	// In member2 no node is fit, from the beginning: what a Deployment's controller says of a later version may speak of the
	// one before, for which no deadline counts.
	nowhere := &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "nowhere"},
		Spec: policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{
			TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member2"}},
			Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{
				{Path: "/spec/template/spec/nodeSelector", Operator: policyv1alpha1.OverriderOpAdd, Value: apiextensionsv1.JSON{Raw: []byte(`{"no":"where"}`)}},
				{Path: "/spec/progressDeadlineSeconds", Operator: policyv1alpha1.OverriderOpReplace, Value: apiextensionsv1.JSON{Raw: []byte(`2`)}},
			}},
		}}},
	}
	web := fleettest.Deployment(ns, "web", 2)
	fleettest.Create(t, fleet.Hub, nowhere, web, fleettest.Policy(ns, "web", fleettest.Divided(
		fleettest.Weight{Cluster: "member1", Weight: 1}, fleettest.Weight{Cluster: "member2", Weight: 1}), web))
	stuck := fleettest.ExpectEventually(t, fleet.Hub, web, func(d *appsv1.Deployment) error {
		return errors.Join(
			deploymentIs(d, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", "member2"),
			deploymentIs(d, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "member2"),
			isWell(d, "member1"), // which may be later than the deadline of member2
		)
	})
	if err := rolledOut(stuck); err == nil {
		t.Errorf("kubectl would call it rolled out: %+v", stuck.Status)
	}

	fleettest.Delete(t, fleet.Hub, nowhere)
	fleettest.ExpectEventually(t, fleet.Hub, web, rolledOut)
	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "nginx:next" })
	fleettest.ExpectEventually(t, fleet.Hub, web, rolledOut)
	for _, m := range fleet.Members {
		d := fleettest.ExpectEventually(t, m, web, fleettest.Exists)
		if d.Spec.Template.Spec.Containers[0].Image != "nginx:next" || d.Status.AvailableReplicas != 1 {
			t.Errorf("%s: the control plane spoke too early: %+v", m.Name, d.Status)
		}
	}
	expectNewest(t, fleet, web, "nginx:next")

	var list corev1.EventList
	if err := fleet.Hub.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var published, reasons []string
	for _, e := range list.Items {
		if e.InvolvedObject.Namespace == ns && e.InvolvedObject.Name == "web" && e.Type == corev1.EventTypeNormal {
			published, reasons = append(published, e.Reason+": "+e.Message), append(reasons, e.Reason)
		}
	}
	if !slices.ContainsFunc(published, func(s string) bool { return strings.Contains(s, "Result: {member1:1, member2:1}") }) {
		t.Errorf("no event says where it went: %q", published)
	}
	// It has had two contents, and each success is one event: the latest of its reason.
	if slices.Sort(reasons); len(slices.Compact(slices.Clone(reasons))) != len(reasons) {
		t.Errorf("success is published too often: %q", published)
	}
}

// expectNewest checks the ReplicaSet on the control plane that stands for the newest ones in the members: Helm waits until it is ready.
func expectNewest(t *testing.T, fleet *fleettest.Fleet, d *appsv1.Deployment, image string) {
	t.Helper()
	var list appsv1.ReplicaSetList
	if err := fleet.Hub.List(t.Context(), &list, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("the control plane has %d ReplicaSets of Deployment %s", len(list.Items), d.Name)
	}
	newest := &list.Items[0]
	if newest.Spec.Template.Spec.Containers[0].Image != image || newest.Status.ReadyReplicas != *d.Spec.Replicas ||
		newest.Annotations["deployment.kubernetes.io/revision"] == "" || !metav1.IsControlledBy(newest, fleettest.ExpectEventually(t, fleet.Hub, d, fleettest.Exists)) {
		t.Errorf("it reads %+v", newest)
	}
	for _, m := range fleet.Members {
		copied := fleettest.ExpectEventually(t, m, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: newest.Namespace, Name: newest.Name}}, fleettest.Exists)
		if copied.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != newest.Labels[appsv1.DefaultDeploymentUniqueLabelKey] {
			t.Errorf("%s has the labels %v, the control plane %v", m.Name, copied.Labels, newest.Labels)
		}
	}
}

// isWell is nil if no condition names a member.
func isWell(d *appsv1.Deployment, member string) error {
	if strings.Contains(fmt.Sprint(d.Status.Conditions), member) {
		return fmt.Errorf("%s is named: %+v", member, d.Status.Conditions)
	}
	return nil
}

// rolledOut is when `kubectl rollout status` ends well.
func rolledOut(d *appsv1.Deployment) error {
	s, want := d.Status, *d.Spec.Replicas
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas < want || s.Replicas > s.UpdatedReplicas || s.AvailableReplicas < s.UpdatedReplicas {
		return fmt.Errorf("of generation %d: %+v", d.Generation, s)
	}
	return deploymentIs(d, appsv1.DeploymentAvailable, corev1.ConditionTrue, "", "")
}

func deploymentIs(d *appsv1.Deployment, kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) error {
	for _, c := range d.Status.Conditions {
		if c.Type == kind && c.Status == status && (reason == "" || c.Reason == reason) && strings.Contains(c.Message, message) {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s (%s, about %s): %+v", kind, status, reason, message, d.Status.Conditions)
}
