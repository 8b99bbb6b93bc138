package pipeline_test

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// A member that serves a kind in another version than the hub's gets objects of it in a version that it serves. It takes a minute beside other
// tests, for a fleet of its own.
func TestAMemberThatServesAnotherVersion(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t)
	member := fleettest.StartMember(t, "behind", "--bare", "--runtime-config=autoscaling/v2=false")
	hub.Join(t, "behind", member.Kubeconfig)
	for name, test := range map[string]func(*testing.T, *fleettest.Cluster, *fleettest.Cluster){
		"OfADefinitionWithoutConversion": anotherVersionByName,
		"OfADefinitionWithAWebhook":      anotherVersionByWebhook,
		"OfADefinitionThatIsExtended":    anotherVersionAdded,
		"OfABuiltInKind":                 anotherVersionOfABuiltInKind,
	} {
		t.Run(name, func(t *testing.T) { test(t, hub.Cluster, member.Cluster) })
	}
}

// only makes a namespace that goes to the member, and an object in it, with a policy.
func only(t *testing.T, hub *fleettest.Cluster, namespace string, obj *unstructured.Unstructured) {
	t.Helper()
	fleettest.Create(t, hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		fleettest.Policy(namespace, obj.GetName(), fleettest.To("behind"), obj), obj.DeepCopy())
}

func in(obj *unstructured.Unstructured, version string) *unstructured.Unstructured {
	other := obj.DeepCopy()
	other.SetAPIVersion(obj.GroupVersionKind().Group + "/" + version)
	return other
}

func has(text string, path ...string) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		if value, _, _ := unstructured.NestedString(u.Object, path...); value != text {
			return fmt.Errorf("%s is %q, want %q", strings.Join(path, "."), value, text)
		}
		return nil
	}
}

// report has the member say something in an object's status, and waits until it is known on the hub.
func report(t *testing.T, hub, member *fleettest.Cluster, there, template *unstructured.Unstructured, field, text, onHub string) {
	t.Helper()
	fleettest.UpdateStatus(t, member, there, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, text, "status", field)
	})
	fleettest.ExpectEventually(t, hub, binding(template.GetNamespace(), template.GetKind(), template.GetName()), func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Status.AggregatedStatus) != 1 || b.Status.AggregatedStatus[0].Status == nil ||
			!strings.Contains(string(b.Status.AggregatedStatus[0].Status.Raw), fmt.Sprintf("%q:%q", onHub, text)) {
			return fmt.Errorf("the status is %+v", b.Status.AggregatedStatus)
		}
		return nil
	})
}

func anotherVersionByName(t *testing.T, hub, member *fleettest.Cluster) {
	valves := define("Valve", version("v1", true, teeth), version("v1beta1", false, teeth))
	older := define("Valve", version("v1beta1", true, teeth))
	fleettest.Create(t, member, older)
	defined(t, hub, valves)
	fleettest.ExpectEventually(t, hub, valves, established)
	safety := instance(valves, "v1", "valves", "safety", map[string]any{"metal": "brass"})
	only(t, hub, "valves", safety)
	there := fleettest.ExpectEventually(t, member, in(safety, "v1beta1"), has("brass", "spec", "metal"))
	fleettest.ExpectEventually(t, hub, work("behind", "Valve", "valves", "safety"), workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, ""))
	report(t, hub, member, there, safety, "state", "open", "state")

	fleettest.Update(t, hub, safety, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, "steel", "spec", "metal")
	})
	fleettest.ExpectEventually(t, member, in(safety, "v1beta1"), has("steel", "spec", "metal"))

	// Once the member serves the hub's version, it gets that.
	carries := func(version string) func(*workv1alpha1.Work) error {
		return func(w *workv1alpha1.Work) error {
			if !strings.Contains(string(w.Spec.Workload.Manifests[0].Raw), `"apiVersion":"`+valves.Spec.Group+"/"+version+`"`) {
				return fmt.Errorf("it carries %s", w.Spec.Workload.Manifests[0].Raw)
			}
			return workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, "")(w)
		}
	}
	fleettest.Update(t, member, older, func(d *definition) { d.Spec.Versions = append(d.Spec.Versions, version("v1", false, teeth)) })
	fleettest.ExpectEventually(t, hub, work("behind", "Valve", "valves", "safety"), carries("v1"))
	report(t, hub, member, fleettest.ExpectEventually(t, member, safety, has("steel", "spec", "metal")), safety, "state", "shut", "state")

	// A version that the hub's definition lacks cannot be had, until it has it.
	fleettest.Update(t, member, older, func(d *definition) {
		d.Spec.Versions[0].Served, d.Spec.Versions[1].Served = false, false
		d.Spec.Versions = append(d.Spec.Versions, version("v1alpha7", false, teeth))
	})
	fleettest.ExpectEventually(t, hub, binding("valves", "Valve", "safety"), func(b *workv1alpha2.ResourceBinding) error {
		if err := bindingIs(workv1alpha2.Rendered, metav1.ConditionFalse, workv1alpha2.TranslationFailedReason)(b); err != nil {
			return err
		}
		return says(b.Status.Conditions, workv1alpha2.Rendered, "behind", "as v1alpha7 only", valves.Name, "v1, v1beta1")
	})
	fleettest.Update(t, hub, valves, func(d *definition) {
		unserved := version("v1alpha7", false, teeth)
		unserved.Served = false
		d.Spec.Versions = append(d.Spec.Versions, unserved)
	})
	fleettest.ExpectEventually(t, hub, work("behind", "Valve", "valves", "safety"), carries("v1alpha7"))
	fleettest.ExpectEventually(t, hub, binding("valves", "Valve", "safety"), func(b *workv1alpha2.ResourceBinding) error {
		return absent(b.Status.Conditions, workv1alpha2.Rendered)
	})
	fleettest.Delete(t, hub, safety)
	fleettest.ExpectGone(t, member, in(safety, "v1alpha7"))
}

// A cluster that could take an object in no version is considered again when the definition on the hub has one that it serves:
// the cluster itself has not changed.
func anotherVersionAdded(t *testing.T, hub, member *fleettest.Cluster) {
	pipes := define("Pipe", version("v1", true, teeth))
	fleettest.Create(t, member, define("Pipe", version("v1alpha7", true, teeth)))
	defined(t, hub, pipes)
	fleettest.ExpectEventually(t, hub, pipes, established)
	fleettest.ExpectEventually(t, hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "behind"}}, func(c *clusterv1alpha1.Cluster) error {
		for _, enabled := range c.Status.APIEnablements {
			if enabled.GroupVersion == pipes.Spec.Group+"/v1alpha7" {
				return nil
			}
		}
		return errors.New("it has not reported yet what it serves")
	})
	drain := instance(pipes, "v1", "pipes", "drain", map[string]any{"metal": "lead"})
	only(t, hub, "pipes", drain)
	fleettest.ExpectEventually(t, hub, binding("pipes", "Pipe", "drain"), func(b *workv1alpha2.ResourceBinding) error {
		if err := bindingIs(workv1alpha2.Scheduled, metav1.ConditionFalse, "")(b); err != nil {
			return err
		}
		return says(b.Status.Conditions, workv1alpha2.Scheduled, "lacks "+pipes.Spec.Group+"/v1 Pipe")
	})
	fleettest.Update(t, hub, pipes, func(d *definition) { d.Spec.Versions = append(d.Spec.Versions, version("v1alpha7", false, teeth)) })
	fleettest.ExpectEventually(t, member, in(drain, "v1alpha7"), has("lead", "spec", "metal"))
	fleettest.ExpectEventually(t, hub, binding("pipes", "Pipe", "drain"), bindingIs(workv1alpha2.Scheduled, metav1.ConditionTrue, ""))
	fleettest.Delete(t, hub, drain)
	fleettest.ExpectGone(t, member, in(drain, "v1alpha7"))
}

func absent(conditions []metav1.Condition, kind string) error {
	for _, c := range conditions {
		if c.Type == kind {
			return fmt.Errorf("%s is %s: %s", kind, c.Status, c.Message)
		}
	}
	return nil
}

// renaming is a conversion webhook: the field that v1 calls "name" is called "title" in v1beta1, in spec and status.
type renaming struct{ broken atomic.Bool }

func (r *renaming) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil || r.broken.Load() {
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		from, to := "name", "title"
		if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
			from, to = to, from
		}
		for _, part := range []string{"spec", "status"} {
			if value, found, _ := unstructured.NestedString(u.Object, part, from); found {
				unstructured.RemoveNestedField(u.Object, part, from)
				_ = unstructured.SetNestedField(u.Object, value, part, to)
			}
		}
		u.SetAPIVersion(review.Request.DesiredAPIVersion)
		text, _ := u.MarshalJSON()
		review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Raw: text})
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

func anotherVersionByWebhook(t *testing.T, hub, member *fleettest.Cluster) {
	hook := &renaming{}
	server := httptest.NewUnstartedServer(hook)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	one, two := object(properties{"name": {Type: "string"}}), object(properties{"title": {Type: "string"}})
	books := define("Book", version("v1", true, one), version("v1beta1", false, two))
	books.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &server.URL, CABundle: ca}, ConversionReviewVersions: []string{"v1"},
		},
	}
	fleettest.Create(t, member, define("Book", version("v1beta1", true, two)))
	defined(t, hub, books)
	fleettest.ExpectEventually(t, hub, books, established)
	hook.broken.Store(true)
	moby := instance(books, "v1", "books", "moby", map[string]any{"name": "Moby-Dick"})
	only(t, hub, "books", moby)
	fleettest.ExpectEventually(t, hub, binding("books", "Book", "moby"), func(b *workv1alpha2.ResourceBinding) error {
		if err := bindingIs(workv1alpha2.Rendered, metav1.ConditionFalse, workv1alpha2.TranslationFailedReason)(b); err != nil {
			return err
		}
		return says(b.Status.Conditions, workv1alpha2.Rendered, "behind", books.Name, "v1beta1", "conversion webhook")
	})
	hook.broken.Store(false) // nothing else has to be changed
	there := fleettest.ExpectEventually(t, member, in(moby, "v1beta1"), has("Moby-Dick", "spec", "title"))
	report(t, hub, member, there, moby, "title", "read", "name")
	fleettest.ExpectEventually(t, hub, binding("books", "Book", "moby"), func(b *workv1alpha2.ResourceBinding) error {
		return absent(b.Status.Conditions, workv1alpha2.Rendered)
	})
	fleettest.Delete(t, hub, moby)
	fleettest.ExpectGone(t, member, in(moby, "v1beta1"))
}

func anotherVersionOfABuiltInKind(t *testing.T, hub, member *fleettest.Cluster) {
	percent := int32(70)
	scaler := &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "scalers", Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MaxReplicas: 4, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
			}}},
		},
	}
	fleettest.Create(t, hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "scalers"}},
		fleettest.Policy("scalers", "web", fleettest.To("behind"), scaler), scaler.DeepCopy())
	older := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: scaler.ObjectMeta}
	there := fleettest.ExpectEventually(t, member, older, func(h *autoscalingv1.HorizontalPodAutoscaler) error {
		if h.Spec.TargetCPUUtilizationPercentage == nil || *h.Spec.TargetCPUUtilizationPercentage != percent || h.Spec.MaxReplicas != 4 {
			return fmt.Errorf("it became %+v", h.Spec)
		}
		return nil
	})
	fleettest.UpdateStatus(t, member, there, func(h *autoscalingv1.HorizontalPodAutoscaler) {
		cpu := int32(55)
		h.Status.CurrentReplicas, h.Status.DesiredReplicas, h.Status.CurrentCPUUtilizationPercentage = 2, 3, &cpu
	})
	fleettest.ExpectEventually(t, hub, scaler, func(h *autoscalingv2.HorizontalPodAutoscaler) error {
		if h.Status.CurrentReplicas != 2 || h.Status.DesiredReplicas != 3 {
			return fmt.Errorf("its status is %+v", h.Status)
		}
		return nil
	})
	fleettest.Update(t, hub, scaler, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = 5 })
	fleettest.ExpectEventually(t, member, older, func(h *autoscalingv1.HorizontalPodAutoscaler) error {
		if h.Spec.MaxReplicas != 5 {
			return fmt.Errorf("the limit is %d", h.Spec.MaxReplicas)
		}
		return nil
	})
	fleettest.Delete(t, hub, scaler)
	fleettest.ExpectGone(t, member, older)
}
