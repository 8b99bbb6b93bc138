package pipeline_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// engineKind is a kind that no interpreter supports before a test adds a customization.
var engineKind = schema.GroupVersionKind{Group: "interpret.example.io", Version: "v1", Kind: "Engine"}

func engineDefinition() *apiextensionsv1.CustomResourceDefinition {
	d := widgetDefinition()
	d.Name = "engines." + engineKind.Group
	d.Spec.Group = engineKind.Group
	d.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "engines", Singular: "engine", Kind: "Engine", ListKind: "EngineList"}
	return d
}

func engine(namespace, name string, pistons int64) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"pistons": pistons, "fuel": "tank"}}}
	u.SetGroupVersionKind(engineKind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func teach(scripts configv1alpha1.CustomizationRules) *configv1alpha1.ResourceInterpreterCustomization {
	return &configv1alpha1.ResourceInterpreterCustomization{
		ObjectMeta: metav1.ObjectMeta{Name: "pipeline-engine"},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target:         configv1alpha1.CustomizationTarget{APIVersion: engineKind.GroupVersion().String(), Kind: engineKind.Kind},
			Customizations: scripts,
		},
	}
}

// knowledge counts pistons as replicas, needs its tank, is healthy when it runs, and sums up the speed.
func knowledge(healthy string) configv1alpha1.CustomizationRules {
	return configv1alpha1.CustomizationRules{
		ReplicaResource: &configv1alpha1.ReplicaResourceRequirement{
			LuaScript: "function GetReplicas(obj) return obj.spec.pistons, {} end",
		},
		ReplicaRevision: &configv1alpha1.ReplicaRevision{
			LuaScript: "function ReviseReplica(obj, n) obj.spec.pistons = n; obj.spec.revised = true; return obj end",
		},
		DependencyInterpretation: &configv1alpha1.DependencyInterpretation{
			LuaScript: "function GetDependencies(obj) return {{apiVersion = 'v1', kind = 'ConfigMap', namespace = obj.metadata.namespace, name = obj.spec.fuel}} end",
		},
		StatusReflection: &configv1alpha1.StatusReflection{
			LuaScript: "function ReflectStatus(obj) return {speed = obj.status and obj.status.speed or 0, reported = true} end",
		},
		HealthInterpretation: &configv1alpha1.HealthInterpretation{
			LuaScript: "function InterpretHealth(obj) return " + healthy + " end",
		},
		StatusAggregation: &configv1alpha1.StatusAggregation{LuaScript: `function AggregateStatus(obj, items)
			local sum = 0
			for i = 1, #items do sum = sum + (items[i].status and items[i].status.speed or 0) end
			obj.status = {total = sum}
			return obj
		end`},
	}
}

// What a user says about a kind counts at once, for all its objects on the control plane and in members, and for no other object.
func TestACustomizationTakesEffectAtOnce(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m := fleet.Member("member1")
	definition := engineDefinition()
	for _, c := range []*fleettest.Cluster{fleet.Hub, m} {
		fleettest.Create(t, c, definition.DeepCopy())
		fleettest.ExpectEventually(t, c, definition, established)
	}
	v8, tank, other := engine(ns, "v8", 8), fleettest.ConfigMap(ns, "tank", map[string]string{"litres": "50"}), fleettest.ConfigMap(ns, "other", nil)
	policy := fleettest.Policy(ns, "engines", fleettest.To("member1"), v8, other)
	policy.Spec.PropagateDeps = true
	fleettest.Create(t, fleet.Hub, policy, v8.DeepCopy(), tank, other)
	fleettest.UpdateStatus(t, m, fleettest.ExpectEventually(t, m, v8, fleettest.Exists), func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, int64(120), "status", "speed"); err != nil {
			t.Fatal(err)
		}
	})
	engineBinding, engineWork := binding(ns, "Engine", "v8"), work("member1", "Engine", ns, "v8")
	fleettest.ExpectEventually(t, fleet.Hub, engineBinding, func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Status.AggregatedStatus) != 1 || b.Status.AggregatedStatus[0].Health != workv1alpha2.ResourceHealthy {
			return fmt.Errorf("aggregated: %+v", b.Status.AggregatedStatus)
		}
		return bindingIs("FullyApplied", metav1.ConditionTrue, "")(b)
	})
	fleettest.ExpectAbsent(t, m, tank)
	bystanders := []client.Object{binding(ns, "ConfigMap", "other"), work("member1", "ConfigMap", ns, "other")}
	expectSettled(t, fleet, ns, "other", "member1")
	before := versions(t, fleet.Hub, bystanders)

	lesson := teach(knowledge("obj.status ~= nil and obj.status.speed > 200"))
	fleettest.Create(t, fleet.Hub, lesson)

	fleettest.ExpectEventually(t, fleet.Hub, engineBinding, func(b *workv1alpha2.ResourceBinding) error {
		if b.Spec.Replicas != 8 {
			return fmt.Errorf("replicas: %d", b.Spec.Replicas)
		}
		return nil
	})
	fleettest.ExpectEventually(t, m, v8, field("true", "spec", "revised"))
	fleettest.ExpectEventually(t, m, tank, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, engineWork, healthIs(workv1alpha1.ResourceUnhealthy))
	fleettest.ExpectEventually(t, fleet.Hub, v8, field("120", "status", "total"))

	// A change of one script alone.
	fleettest.Update(t, fleet.Hub, lesson, func(c *configv1alpha1.ResourceInterpreterCustomization) {
		c.Spec.Customizations = knowledge("obj.status ~= nil and obj.status.speed > 100")
		c.Spec.Customizations.StatusAggregation.LuaScript = "function AggregateStatus(obj, items) obj.status = {copies = #items}; return obj end"
	})
	fleettest.ExpectEventually(t, fleet.Hub, engineWork, healthIs(workv1alpha1.ResourceHealthy))
	fleettest.ExpectEventually(t, fleet.Hub, v8, field("1", "status", "copies"))

	// Removed again.
	fleettest.Delete(t, fleet.Hub, lesson)
	fleettest.ExpectEventually(t, fleet.Hub, engineBinding, func(b *workv1alpha2.ResourceBinding) error {
		if b.Spec.Replicas != 0 {
			return fmt.Errorf("replicas: %d", b.Spec.Replicas)
		}
		return nil
	})
	fleettest.ExpectGone(t, m, tank)
	fleettest.Delete(t, fleet.Hub, v8.DeepCopy())
	fleettest.ExpectGone(t, m, v8) // a definition is not deleted while members have objects of its kind
	for key, version := range versions(t, fleet.Hub, bystanders) {
		if before[key] != version {
			t.Errorf("%s was written because of a kind that it is not", key)
		}
	}
}

func healthIs(want workv1alpha1.ResourceHealth) func(*workv1alpha1.Work) error {
	return func(w *workv1alpha1.Work) error {
		if len(w.Status.ManifestStatuses) != 1 || w.Status.ManifestStatuses[0].Health != want {
			return fmt.Errorf("manifest statuses are %+v", w.Status.ManifestStatuses)
		}
		return nil
	}
}

// field is the condition of an object with a field that is, as JSON, the value.
func field(want string, path ...string) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		value, _, err := unstructured.NestedFieldNoCopy(u.Object, path...)
		if err != nil {
			return err
		}
		got, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return equal(want, string(got))
	}
}

// versions reads the resource versions of objects.
func versions(t *testing.T, c *fleettest.Cluster, objects []client.Object) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, o := range objects {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		found[fmt.Sprintf("%T %s", o, key(o))] = o.GetResourceVersion()
	}
	return found
}

// A webhook that answers for a kind counts at once, too, and so does its end.
func TestAWebhookTakesEffectAtOnce(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m := fleet.Member("member1")
	definition := widgetDefinition()
	definition.Name, definition.Spec.Group = "widgets.webhook.example.io", "webhook.example.io"
	for _, c := range []*fleettest.Cluster{fleet.Hub, m} {
		fleettest.Create(t, c, definition.DeepCopy())
		fleettest.ExpectEventually(t, c, definition, established)
	}
	gear := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "webhook.example.io/v1", "kind": "Widget", "metadata": map[string]any{"namespace": ns, "name": "gear"},
	}}
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "gear", fleettest.To("member1"), gear), gear.DeepCopy())
	w, b := work("member1", "Widget", ns, "gear"), binding(ns, "Widget", "gear")
	fleettest.ExpectEventually(t, fleet.Hub, w, healthIs(workv1alpha1.ResourceUnknown)) // it has no status

	config := webhookFor(answering(t), "webhook.example.io", "Widget")
	fleettest.Create(t, fleet.Hub, config)
	fleettest.ExpectEventually(t, fleet.Hub, w, healthIs(workv1alpha1.ResourceUnhealthy))
	fleettest.ExpectEventually(t, fleet.Hub, b, replicasAre(5))
	fleettest.Delete(t, fleet.Hub, config)
	fleettest.ExpectEventually(t, fleet.Hub, w, healthIs(workv1alpha1.ResourceUnknown))
	fleettest.ExpectEventually(t, fleet.Hub, b, replicasAre(0))
	fleettest.Delete(t, fleet.Hub, gear.DeepCopy())
	fleettest.ExpectGone(t, m, gear)
}

func replicasAre(n int32) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		if b.Spec.Replicas != n {
			return fmt.Errorf("replicas: %d", b.Spec.Replicas)
		}
		return nil
	}
}

// answering is a webhook for which every object has five replicas and is unhealthy.
func answering(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question := configv1alpha1.ResourceInterpreterContext{}
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil || question.Request == nil {
			http.Error(w, "no question", http.StatusBadRequest)
			return
		}
		replicas, healthy := int32(5), false
		question.Response = &configv1alpha1.ResourceInterpreterResponse{
			UID: question.Request.UID, Successful: true, Replicas: &replicas, Healthy: &healthy,
		}
		question.Request = nil
		_ = json.NewEncoder(w).Encode(&question)
	}))
	t.Cleanup(s.Close)
	return s
}

func webhookFor(s *httptest.Server, group, kind string) *configv1alpha1.ResourceInterpreterWebhookConfiguration {
	address := s.URL
	return &configv1alpha1.ResourceInterpreterWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "pipeline-" + strings.ToLower(kind)},
		Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
			Name: "hook.example.io", InterpreterContextVersions: []string{"v1alpha1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &address, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
			},
			Rules: []configv1alpha1.RuleWithOperations{{
				Operations: []configv1alpha1.InterpreterOperation{
					configv1alpha1.InterpreterOperationInterpretHealth, configv1alpha1.InterpreterOperationInterpretReplica,
				},
				Rule: configv1alpha1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Kinds: []string{kind}},
			}},
		}},
	}
}
