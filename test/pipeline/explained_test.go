package pipeline_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// expectExplained waits until an Explanation of an object has a step with the text.
func expectExplained(t *testing.T, hub *fleettest.Cluster, kind, ns, name, text string) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Logf("the steps about %s %s are:\n%s", kind, name, last)
		}
	}()
	fleettest.Eventually(t, fmt.Sprintf("%q in the explanation of %s %s", text, kind, name), func() bool {
		q := &fleetv1alpha1.Explanation{Spec: fleetv1alpha1.ExplanationSpec{Kind: kind, Namespace: ns, Name: name}}
		if err := hub.Create(t.Context(), q); err != nil {
			last = err.Error()
			return false
		}
		last = q.Status.Summary + "\n"
		for _, s := range q.Status.Steps {
			last += fmt.Sprintf("%s %s %s %s\n", s.Stage, s.Cluster, s.Outcome, s.Message)
		}
		return strings.Contains(last, text)
	})
}

// TestExplainNamesWhatAMemberRefuses: a quota refuses the pods of one Deployment and a Secret itself, and no right is missing.
func TestExplainNamesWhatAMemberRefuses(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	member := fleet.Member("member1")
	web, key := fleettest.Deployment(ns, "web", 3), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "key"}}
	fleettest.ExpectEventually(t, member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "small"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"pods": resource.MustParse("1"), "count/secrets": resource.MustParse("0")},
	}}
	fleettest.Create(t, member, quota)
	fleettest.ExpectEventually(t, member, quota, func(q *corev1.ResourceQuota) error { return equal("2", strconv.Itoa(len(q.Status.Hard))) })
	fleettest.Create(t, fleet.Hub, web, key, fleettest.Policy(ns, "one", fleettest.To("member1"), web, key))
	expectExplained(t, fleet.Hub, "Deployment", ns, "web", "1 of 3 replicas are ready; condition ReplicaFailure is True, FailedCreate: pods ")
	expectExplained(t, fleet.Hub, "Secret", ns, "key", "A ResourceQuota of the namespace in the cluster refuses it")
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "Secret", ns, "key"), func(w *workv1alpha1.Work) error {
		for _, c := range w.Status.Conditions {
			if strings.Contains(c.Message, "grant it") {
				return fmt.Errorf("the advice is %s", c.Message)
			}
		}
		return nil
	})
}

// TestAnImageOverrideOfACronJob takes effect in its init containers as well; an override without effect is named.
func TestAnImageOverrideOfACronJob(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	pod := corev1.PodSpec{
		RestartPolicy:  corev1.RestartPolicyNever,
		InitContainers: []corev1.Container{{Name: "i", Image: "ghcr.io/org/init:1"}}, Containers: []corev1.Container{{Name: "c", Image: "quay.io/org/job:2"}},
	}
	nightly := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "nightly"}, Spec: batchv1.CronJobSpec{
		Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}},
	}}
	settings := fleettest.ConfigMap(ns, "settings", nil)
	mirror := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "mirror"}}
	mirror.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{
		TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member2"}},
		Overriders: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{
			{Component: policyv1alpha1.Registry, Operator: policyv1alpha1.OverriderOpReplace, Value: "mirror.example.cn:5000"},
		}},
	}}
	fleettest.Create(t, fleet.Hub, mirror, nightly, settings, fleettest.Policy(ns, "all", fleettest.Everywhere(), nightly, settings))
	for name, want := range map[string][]string{
		"member1": {"ghcr.io/org/init:1", "quay.io/org/job:2"}, "member2": {"mirror.example.cn:5000/org/init:1", "mirror.example.cn:5000/org/job:2"},
	} {
		fleettest.ExpectEventually(t, fleet.Member(name), nightly.DeepCopy(), func(c *batchv1.CronJob) error {
			spec := c.Spec.JobTemplate.Spec.Template.Spec
			return equal(strings.Join(want, " "), spec.InitContainers[0].Image+" "+spec.Containers[0].Image)
		})
	}
	expectExplained(t, fleet.Hub, "CronJob", ns, "nightly", "Override member2 Done rule 0: applied\n")
	expectExplained(t, fleet.Hub, "ConfigMap", ns, "settings", "Override member2 Dropped rule 0: changes nothing: overriders find no containers of the kind ConfigMap")
}
