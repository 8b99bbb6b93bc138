package pipeline_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func apiService(version, group, namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": version + "." + group},
		"spec": map[string]any{
			"group": group, "version": version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": namespace, "name": "adapter", "port": int64(443)},
		},
	}}
}

// TestAnExtensionAPIIsServedByMembers and not by the control plane, on which it disturbs neither discovery nor the deletion of a namespace.
func TestAnExtensionAPIIsServedByMembers(t *testing.T) {
	fleet := shared.Start(t)
	const group = "extension.example.com"
	ns := fleet.Namespace(t)
	service := apiService("v1beta1", group, ns)
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy("extension-api", fleettest.Everywhere(), service), service)
	for _, name := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(name), service.DeepCopy(), func(u *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedString(u.Object, "spec", "service", "namespace"); got != ns {
				return fmt.Errorf("its service is in namespace %q", got)
			}
			return nil
		})
	}

	client, err := discovery.NewDiscoveryClientForConfig(fleet.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	groups, _, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Errorf("discovery of the control plane: %v", err)
	}
	for _, g := range groups {
		if g.Name == group {
			t.Errorf("the control plane announces %v", g.Versions)
		}
	}
	short := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns + "-short"}}
	fleettest.Create(t, fleet.Hub, short)
	fleettest.Delete(t, fleet.Hub, short)
	fleettest.ExpectGone(t, fleet.Hub, short)

	definition := definitionOf(group, "v1beta1", "Gauge", "gauges")
	if err := fleet.Hub.Create(t.Context(), definition); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "APIService v1beta1."+group) {
		t.Errorf("a definition of the same version: %v", err)
	}
	fleettest.Delete(t, fleet.Hub, service)
	for _, name := range []string{"member1", "member2"} {
		fleettest.ExpectGone(t, fleet.Member(name), service)
	}
}

// TestAConversionWebhookInMembersHoldsNoNamespace: where it does not run, objects of its definition are not listed in the preferred version.
// They, and namespaces without any, go all the same.
func TestAConversionWebhookInMembersHoldsNoNamespace(t *testing.T) {
	fleet := shared.Start(t)
	hub := fleet.Hub
	definition := definitionOf("converted.example.com", "v1beta1", "Gauge", "gauges")
	preferred := *definition.Spec.Versions[0].DeepCopy()
	preferred.Name, preferred.Storage = "v1", false
	definition.Spec.Versions = append(definition.Spec.Versions, preferred)
	definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "mon", Name: "converter"}},
	}}
	fleettest.Create(t, hub, definition)
	gauge := func(version, namespace string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "converted.example.com/" + version, "kind": "Gauge",
			"metadata": map[string]any{"namespace": namespace, "name": "one"}}}
	}
	ns := fleet.Namespace(t)
	fleettest.Eventually(t, "the kind is served", func() bool { return hub.Create(t.Context(), gauge("v1beta1", ns)) == nil })
	if err := hub.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "one"}, gauge("v1", ns)); err == nil {
		t.Fatal("the object is read in a version that needs the webhook")
	}
	others := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns + "-others"}}
	fleettest.Create(t, hub, others)
	fleettest.Delete(t, hub, others)
	fleettest.ExpectGone(t, hub, others)
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	fleettest.Delete(t, hub, own)
	fleettest.ExpectGone(t, hub, own)
}

// TestAnAPIServiceTakesNothingOver that the control plane serves itself, built-in or by a definition.
func TestAnAPIServiceTakesNothingOver(t *testing.T) {
	fleet := shared.Start(t)
	hub := fleet.Hub
	definition := definitionOf("registered.example.com", "v1", "Gauge", "gauges")
	fleettest.Create(t, hub, definition)
	fleettest.ExpectEventually(t, hub, apiService("v1", "registered.example.com", "mon"), func(*unstructured.Unstructured) error { return nil })
	for _, tc := range []struct{ version, group string }{
		{"v1alpha1", "search.karmada.io"}, {"v1alpha1", "cluster.karmada.io"}, {"v1", "apps"}, {"v1", "registered.example.com"},
	} {
		service := apiService(tc.version, tc.group, "mon")
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec": {"service": {"namespace": "mon", "name": "adapter"}}}`))
		if err := hub.Patch(t.Context(), service.DeepCopy(), patch); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "put it into a Work") {
			t.Errorf("a patch of %s: %v", service.GetName(), err)
		}
		if err := hub.Create(t.Context(), service.DeepCopy()); !apierrors.IsAlreadyExists(err) {
			t.Errorf("a creation of %s: %v", service.GetName(), err)
		}
		if err := hub.Delete(t.Context(), service.DeepCopy()); !apierrors.IsForbidden(err) {
			t.Errorf("a deletion of %s: %v", service.GetName(), err)
		}
	}
	local := apiService("v1", "local.example.com", "mon")
	unstructured.RemoveNestedField(local.Object, "spec", "service")
	unstructured.RemoveNestedField(local.Object, "spec", "insecureSkipTLSVerify")
	forged := apiService("v1", "forged.example.com", "mon")
	forged.SetLabels(map[string]string{"kube-aggregator.kubernetes.io/automanaged": "onstart"})
	for _, refused := range []*unstructured.Unstructured{local, forged} {
		if err := hub.Create(t.Context(), refused); !apierrors.IsInvalid(err) {
			t.Error(errors.Join(fmt.Errorf("%s is accepted", refused.GetName()), err))
		}
	}
}

func definitionOf(group, version, kind, plural string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}},
			}},
		},
	}
}
