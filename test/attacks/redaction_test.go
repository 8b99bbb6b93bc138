package attacks_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// expectRefused waits until a member has refused the manifest of a Work, and returns what the Work and the events say of it.
func expectRefused(t *testing.T, fleet *fleettest.Fleet, kind, namespace, name string) string {
	t.Helper()
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace("member1"), Name: workv1alpha1.WorkName(kind, namespace, name)}}
	var said strings.Builder
	fleettest.ExpectEventually(t, fleet.Hub, work, func(w *workv1alpha1.Work) error {
		applied := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied)
		if applied == nil || applied.Status != metav1.ConditionFalse || applied.ObservedGeneration != w.Generation {
			return errors.New("the member has not refused it")
		}
		said.Reset()
		said.WriteString(applied.Message)
		return nil
	})
	fleettest.ExpectListed(t, fleet.Hub, &corev1.EventList{}, work.Namespace, func(list *corev1.EventList) error {
		found := false
		for _, e := range list.Items {
			if e.InvolvedObject.Name == work.Name && e.Type == corev1.EventTypeWarning {
				found = true
				said.WriteString("\n" + e.Message)
			}
		}
		if !found {
			return fmt.Errorf("there is no warning about %s", work.Name)
		}
		return nil
	})
	log, err := os.ReadFile(filepath.Join(fleet.Dir, "logs", "hub.log"))
	if err != nil {
		t.Fatal(err)
	}
	said.Write(log)
	return said.String()
}

// TestRefusalsOfMembersCarryNoValues: who reads conditions, events and logs need not be one who may read Secrets, or the
// environment of a workload.
func TestRefusalsOfMembersCarryNoValues(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	const before, after, password = "canary-before-3319", "canary-after-7702", "canary-of-a-secret-1180"

	t.Run("ImmutableTemplate", func(t *testing.T) {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "fixed"},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "TOKEN", Value: before}}}},
			}}},
		}
		fleettest.Create(t, fleet.Hub, job, fleettest.Policy(ns, "fixed", fleettest.To("member1"), job))
		fleettest.ExpectEventually(t, fleet.Member("member1"), job.DeepCopy(), fleettest.Exists)
		fleettest.Create(t, fleet.Hub, &policyv1alpha1.OverridePolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "fixed"},
			Spec: policyv1alpha1.OverrideSpec{
				ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name}},
				OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
					Path: "/spec/template/spec/containers/0/env/0/value", Operator: policyv1alpha1.OverriderOpReplace,
					Value: apiextensionsv1.JSON{Raw: []byte(`"` + after + `"`)},
				}}}}},
			},
		})
		said := expectRefused(t, fleet, "Job", ns, job.Name)
		for _, value := range []string{before, after} {
			if strings.Contains(said, value) {
				t.Errorf("a value is disclosed: %s", said[max(0, strings.Index(said, value)-200):strings.Index(said, value)+len(value)])
			}
		}
		if !strings.Contains(said, "spec.template") || !strings.Contains(said, "field is immutable") {
			t.Errorf("neither field nor rule is named: %.500s", said)
		}
	})

	t.Run("AdmissionOfAMember", func(t *testing.T) {
		name := "quotes-" + ns
		fleettest.Create(t, fleet.Member("member1"),
			&admissionregistrationv1.ValidatingAdmissionPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
					MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
							Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
						},
					}}},
					MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "this-namespace", Expression: "object.metadata.namespace == '" + ns + "'"}},
					Validations: []admissionregistrationv1.Validation{{
						Expression:        "false",
						MessageExpression: "'the password ' + string(object.data.password) + ' is too weak'",
					}},
				},
			},
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
					PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
				},
			})
		awaitDenied(t, fleet, ns)
		secret := fleettest.Secret(ns, "weak", map[string]string{"password": password})
		fleettest.Create(t, fleet.Hub, secret, fleettest.Policy(ns, "weak", fleettest.To("member1"), secret))
		said := expectRefused(t, fleet, "Secret", ns, secret.Name)
		if strings.Contains(said, password) || strings.Contains(said, base64.StdEncoding.EncodeToString([]byte(password))) {
			t.Errorf("a Secret is disclosed: %.500s", said)
		}
		if !strings.Contains(said, "is too weak") {
			t.Errorf("the reason is missing: %.500s", said)
		}
	})
}

// awaitDenied returns when the member refuses Secrets in the namespace, which the Job before has brought there.
func awaitDenied(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	member := fleet.Member("member1")
	for i := range 10000 { // some seconds, where the policy counts after one
		probe := fleettest.Secret(ns, fmt.Sprintf("probe-%d", i), map[string]string{"password": "x"})
		if err := member.Create(t.Context(), probe); err != nil && strings.Contains(err.Error(), "too weak") {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		fleettest.Delete(t, member, probe)
	}
	t.Fatal("the member does not apply its admission policy")
}
