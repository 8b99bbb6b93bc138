package services_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/api/crds"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// ourDefinition is a definition as the control plane brings it to members.
func ourDefinition(t *testing.T, resource string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.Name == definitionOf(resource).Name {
			return d
		}
	}
	t.Fatalf("there is no definition of %s", resource)
	return nil
}

// TestMembersWithDefinitionsOfTheirOwn: a definition that a member has already is taken over if it is the same, and else
// left as it is and the condition of the Work says where it differs; exports there are imported either way, and once the two are the same it
// is taken over, too.
func TestMembersWithDefinitionsOfTheirOwn(t *testing.T) {
	hub, own := fleettest.StartHub(t), fleettest.StartMember(t, "own", "--bare")
	same := ourDefinition(t, multiclusterv1beta1.ResourcePluralServiceExport)
	differs := ourDefinition(t, multiclusterv1beta1.ResourcePluralServiceImport)
	differs.Spec.Names.ShortNames = append(differs.Spec.Names.ShortNames, "imported")
	note := apiextensionsv1.JSONSchemaProps{Type: "string"}
	for i := range differs.Spec.Versions {
		differs.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"].Properties["note"] = note
	}
	fleettest.Create(t, own.Cluster, same, differs)
	for _, d := range []*apiextensionsv1.CustomResourceDefinition{same, differs} {
		fleettest.ExpectEventually(t, own.Cluster, d, established)
	}
	hub.Join(t, "own", own.Kubeconfig)

	fleettest.ExpectEventually(t, hub.Cluster, definitionWork("own", same), workSays(metav1.ConditionTrue))
	fleettest.ExpectEventually(t, own.Cluster, same, managed(true))
	fleettest.ExpectEventually(t, hub.Cluster, definitionWork("own", differs), workSays(metav1.ConditionFalse, "spec.names.shortNames", "note"))
	left := fleettest.ExpectEventually(t, own.Cluster, differs, managed(false))
	if _, kept := left.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["note"]; !kept {
		t.Error("the member's definition of ServiceImport was changed")
	}

	service := fleettest.Service("default", "web")
	service.Spec.Selector = nil
	e := exportIn(t, own.Cluster, service)
	fleettest.Create(t, own.Cluster, handmade(service, "web", discoveryv1.AddressTypeIPv4, "192.0.2.1"))
	fleettest.ExpectEventually(t, own.Cluster, e, exportCondition(multiclusterv1beta1.ExportReady, metav1.ConditionTrue, "Exported"))
	expectImport(t, own.Cluster, service, usable("own"))
	expectImportedEndpoints(t, own.Cluster, service, []string{"192.0.2.1"})

	ours := ourDefinition(t, multiclusterv1beta1.ResourcePluralServiceImport)
	fleettest.Update(t, own.Cluster, differs, func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec = ours.Spec })
	fleettest.ExpectEventually(t, hub.Cluster, definitionWork("own", differs), workSays(metav1.ConditionTrue))
	fleettest.ExpectEventually(t, own.Cluster, differs, managed(true))
	expectImport(t, own.Cluster, service, usable("own"))

	page := metricsPage(t, hub.Config)
	for _, loop := range []string{"exports", "exported-endpoints", "imports"} {
		for _, line := range []string{
			fmt.Sprintf("\nflagship_loop_reconcile_total{loop=%q,result=\"success\"} ", loop), fmt.Sprintf("\nflagship_loop_queue_depth{loop=%q} ", loop),
		} {
			if !strings.Contains(page, line) {
				t.Errorf("the metrics lack%s", line)
			}
		}
	}
	for _, loop := range []string{"service-definitions", "service-import", "service-import-endpoints"} {
		if line := fmt.Sprintf("\ncontroller_runtime_reconcile_total{controller=%q,result=\"success\"} ", loop); !strings.Contains(page, line) {
			t.Errorf("the metrics lack%s", line)
		}
	}
}

func definitionWork(cluster string, d *apiextensionsv1.CustomResourceDefinition) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName("CustomResourceDefinition", corev1.NamespaceAll, d.Name),
	}}
}

// workSays is the condition of a Work whose application has this outcome and is explained with these words.
func workSays(status metav1.ConditionStatus, words ...string) func(*workv1alpha1.Work) error {
	return func(w *workv1alpha1.Work) error {
		c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied)
		if c == nil || c.Status != status {
			return fmt.Errorf("%s is %+v", workv1alpha1.WorkApplied, c)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return fmt.Errorf("%q is not in: %s", word, c.Message)
			}
		}
		return nil
	}
}

// managed is the condition of a definition that the control plane has taken over, or has not.
func managed(want bool) func(*apiextensionsv1.CustomResourceDefinition) error {
	return func(d *apiextensionsv1.CustomResourceDefinition) error {
		if is := d.Labels[workv1alpha1.ManagedLabel] == workv1alpha1.ManagedLabelValue; is != want {
			return fmt.Errorf("managed is %t: %v", is, d.Labels)
		}
		return nil
	}
}
