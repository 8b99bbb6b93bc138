package pipeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAnIndexedJobRunsEachIndexOnce: a policy that divides gives it to one cluster as a whole, and the status counts indexes.
func TestAnIndexedJobRunsEachIndexOnce(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	shards := onceJob(ns, "shards")
	shards.Spec.CompletionMode, shards.Spec.Completions, shards.Spec.Parallelism = new(batchv1.IndexedCompletion), new(int32(6)), new(int32(6))
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "shards", fleettest.Divided(divided()), shards), shards)
	done := fleettest.ExpectEventually(t, fleet.Hub, shards.DeepCopy(), jobIs(batchv1.JobComplete))
	if done.Status.Succeeded != 6 || done.Status.CompletedIndexes != "0-5" {
		t.Errorf("its status is %+v", done.Status)
	}
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Job", "shards"), bindingIs("FullyApplied", metav1.ConditionTrue, ""))
	if len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Replicas != 6 {
		t.Fatalf("it is in %+v", b.Spec.Clusters)
	}
	for _, name := range []string{"member1", "member2"} {
		if name != b.Spec.Clusters[0].Name {
			fleettest.ExpectAbsent(t, fleet.Member(name), shards.DeepCopy())
			continue
		}
		copied := fleettest.ExpectEventually(t, fleet.Member(name), shards.DeepCopy(), jobIs(batchv1.JobComplete))
		if *copied.Spec.Completions != 6 || copied.Status.CompletedIndexes != "0-5" {
			t.Errorf("%s has %d completions, and ran %s", name, *copied.Spec.Completions, copied.Status.CompletedIndexes)
		}
	}
}

// TestADividedStatefulSetWarns until the policy says that the sets are independent.
func TestADividedStatefulSetWarns(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	labels := map[string]string{"app": "db"}
	db := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(4)), ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "db"}}}},
		},
	}
	policy := fleettest.Policy(ns, "db", fleettest.Divided(divided()), db)
	fleettest.Create(t, fleet.Hub, policy, db)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "StatefulSet", "db"), bindingIs("DivisionWarning", metav1.ConditionTrue, "NamesRepeat"))
	expectWarning(t, fleet.Hub, db, "DivisionWarning", ".*pods named from db-0 on.*")
	fleettest.Update(t, fleet.Hub, policy.DeepCopy(), func(p *policyv1alpha1.PropagationPolicy) {
		p.Annotations = map[string]string{policyv1alpha1.MembersIndependentAnnotation: "true"}
	})
	fleettest.Update(t, fleet.Hub, db.DeepCopy(), func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(6)) })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "StatefulSet", "db"), withoutWarning)
}

func withoutWarning(b *workv1alpha2.ResourceBinding) error {
	if err := conditionIs(b.Status.Conditions, "FullyApplied", metav1.ConditionTrue, ""); err != nil {
		return err
	}
	if c := meta.FindStatusCondition(b.Status.Conditions, "DivisionWarning"); c != nil {
		return fmt.Errorf("it warns: %s", c.Message)
	}
	return nil
}

// warningsOf are the warnings that a client gets who creates a policy, which is not stored.
func warningsOf(t *testing.T, hub *fleettest.Cluster, policy *policyv1alpha1.PropagationPolicy) string {
	t.Helper()
	web, err := rest.HTTPClientFor(hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	policy.APIVersion, policy.Kind = policyv1alpha1.SchemeGroupVersion.String(), policyv1alpha1.KindPropagationPolicy
	body, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	url := hub.Config.Host + "/apis/policy.karmada.io/v1alpha1/namespaces/" + policy.Namespace + "/propagationpolicies?dryRun=All"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := web.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("the answer is %s", response.Status)
	}
	return strings.Join(response.Header.Values("Warning"), "\n")
}

// TestADividedKindOfADefinition: its subresource scale says which its replicas are. Without it all clusters have all, and the binding says so.
func TestADividedKindOfADefinition(t *testing.T) {
	fleet := shared.Start(t)
	for name, test := range map[string]struct {
		kind  string
		scale *apiextensionsv1.CustomResourceSubresourceScale
	}{
		"scale":   {"Fleet", &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size"}},
		"unknown": {"Herd", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ns := fleet.Namespace(t)
			group, plural := "divided.example.io", map[string]string{"Fleet": "fleets", "Herd": "herds"}[test.kind]
			open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
			open.Properties = map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"}, "replicas": {Type: "integer"}}
			definition := &apiextensionsv1.CustomResourceDefinition{
				TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
				ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, Annotations: map[string]string{workv1alpha1.AllowDeletionAnnotation: "true"}},
				Spec: apiextensionsv1.CustomResourceDefinitionSpec{
					Group: group, Scope: apiextensionsv1.NamespaceScoped,
					Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: test.kind, Plural: plural},
					Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
						Name: "v1", Served: true, Storage: true,
						Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}, Scale: test.scale},
						Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
							Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": open, "status": open},
						}},
					}},
				},
			}
			set := func() *unstructured.Unstructured {
				return &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": group + "/v1", "kind": test.kind, "metadata": map[string]any{"namespace": ns, "name": "web"},
					"spec": map[string]any{"size": int64(6), "replicas": int64(6)},
				}}
			}
			fleettest.Create(t, fleet.Hub, definition, fleettest.ClusterPolicy(plural, fleettest.Everywhere(), definition))
			fleettest.ExpectEventually(t, fleet.Hub, definition.DeepCopy(), func(d *apiextensionsv1.CustomResourceDefinition) error {
				for _, c := range d.Status.Conditions {
					if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
						return nil
					}
				}
				return errors.New("it is not established")
			})
			fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "web", fleettest.Divided(divided()), set()), set())
			b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, test.kind, "web"), bindingIs("FullyApplied", metav1.ConditionTrue, ""))
			if test.scale == nil {
				if err := conditionIs(b.Status.Conditions, "DivisionWarning", metav1.ConditionTrue, "ReplicasUnknown"); err != nil {
					t.Error(err)
				}
			}
			again := fleettest.Policy(ns, "again", fleettest.Divided(divided()), set())
			if warns := strings.Contains(warningsOf(t, fleet.Hub, again), "whose replicas are not known"); warns != (test.scale == nil) {
				t.Errorf("the write of a policy warns: %v", warns)
			}
			if test.scale == nil {
				return
			}
			var sum int64
			for _, member := range []string{"member1", "member2"} {
				copied := set()
				if err := fleet.Member(member).Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil {
					t.Fatal(err)
				}
				size, _, _ := unstructured.NestedInt64(copied.Object, "spec", "size")
				if sum += size; size == 0 || size == 6 {
					t.Errorf("%s has %d replicas", member, size)
				}
			}
			if sum != 6 {
				t.Errorf("the members have %d replicas in all", sum)
			}
		})
	}
}
