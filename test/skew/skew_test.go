// Package skew_test has a member of an older version of Kubernetes, beside one of the control plane's own: the real API server and the real
// controllers of that version, which the modules in the folders here build.
package skew_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// older is the name of the member of the older version, and newer that of the other one.
const older, newer = "older", "newer"

// fleet is a control plane with a member of each of two versions.
type fleet struct {
	version
	// is the version of Kubernetes in the older member, such as 1.30.
	is           string
	hub          *fleettest.Part
	older, newer *fleettest.Cluster
	audit        audit
	// ns is the namespace of everything that stays until the end.
	ns string
}

// TestOlderMember goes through what the control plane does in a member. The steps share the member, and the last ones are about everything
// that the others have left there.
func TestOlderMember(t *testing.T) {
	name, programs := wanted()
	v, known := versions[name]
	switch {
	case name == "":
		t.Skip("needs the API server of an older version: make test-skew KUBERNETES=1.30")
	case !known || programs == "":
		t.Fatalf("%s is %q and %s is %q: make test-skew KUBERNETES=1.30", versionVar, name, programsVar, programs)
	}
	f := &fleet{version: v, is: name, ns: "skew"}
	f.older, f.audit = startCluster(t, older, v, programs)
	f.hub = fleettest.StartHub(t)
	f.newer = fleettest.StartMember(t, newer, "--nodes=1", "--pod-cidr=10.122.0.0/16").Cluster
	for _, step := range []struct {
		name string
		run  func(*fleet, *testing.T)
	}{
		{"Joins", (*fleet).joins},
		{"API", (*fleet).api},
		{"Deployment", (*fleet).deployment},
		{"CustomResource", (*fleet).customResource},
		{"KindIsNotServed", (*fleet).kindIsNotServed},
		{"FieldIsNotKnown", (*fleet).fieldIsNotKnown},
		{"FieldIsDropped", (*fleet).fieldIsDropped},
		{"ValueIsRefused", (*fleet).valueIsRefused},
		{"Services", (*fleet).services},
		{"Token", (*fleet).token},
		{"Claims", (*fleet).oldClaims},
		{"Encryption", (*fleet).encryption},
		{"Doctor", (*fleet).doctor},
		{"NothingIsWrittenAtRest", (*fleet).nothingIsWrittenAtRest},
		{"ARestartWritesNothing", (*fleet).restart},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(f, t) }) && step.name == "Joins" {
			return
		}
	}
}

func (f *fleet) joins(t *testing.T) {
	f.hub.Join(t, older, f.older.Kubeconfig)
	f.hub.Join(t, newer, f.newer.Kubeconfig)
	for _, name := range []string{older, newer} {
		c := fleettest.ExpectEventually(t, f.hub.Cluster, cluster(name), func(c *clusterv1alpha1.Cluster) error {
			return errors.Join(fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady),
				fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionCompleteAPIEnablements))
		})
		if name == older && !strings.HasPrefix(c.Status.KubernetesVersion, "v"+f.is+".") {
			t.Errorf("its version is %q, want %s", c.Status.KubernetesVersion, f.is)
		}
	}
	// The administrator of the control plane is one of both members, for flagship doctor and the like.
	for _, c := range []*fleettest.Cluster{f.older, f.newer} {
		fleettest.Eventually(t, "the administrator has rights in "+c.Name, func() bool {
			return c.Create(t.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "operators"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterv1alpha1.OperatorsGroup}},
			}) == nil
		})
	}
	// Not by fleettest.Create: it is to stay when this step ends.
	if err := f.hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.ns}}); err != nil {
		t.Fatal(err)
	}
	fleettest.ExpectEventually(t, f.older, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.ns}}, fleettest.Exists)
}

// api is what the control plane relies on in an API server.
func (f *fleet) api(t *testing.T) { fleettest.MemberAPI(t, f.older.Config) }

func cluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func binding(kind, namespace, name string) *workv1alpha2.ResourceBinding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: workv1alpha2.BindingName(kind, name)}}
}

func work(kind, namespace, name string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace(older), Name: workv1alpha1.WorkName(kind, namespace, name)}}
}

// condition returns an error unless a condition has a status, and a message with the text.
func condition(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, text string) error {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil || c.Status != status || !strings.Contains(c.Message, text) {
		return fmt.Errorf("condition %s is %+v, want %s with %q", kind, c, status, text)
	}
	return nil
}

// applied is the condition of a Work whose latest generation is applied, without differences.
func applied(w *workv1alpha1.Work) error {
	if c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied); c != nil && c.ObservedGeneration != w.Generation {
		return fmt.Errorf("applied is generation %d of %d", c.ObservedGeneration, w.Generation)
	}
	if c := meta.FindStatusCondition(w.Status.Conditions, "Drifted"); c != nil && c.Status == metav1.ConditionTrue {
		return fmt.Errorf("it differs: %s", c.Message)
	}
	return condition(w.Status.Conditions, workv1alpha1.WorkApplied, metav1.ConditionTrue, "")
}

// expectEvent waits for an event about an object whose message has the text.
func (f *fleet) expectEvent(t *testing.T, about client.Object, text string) {
	t.Helper()
	fleettest.ExpectListed(t, f.hub.Cluster, &corev1.EventList{}, about.GetNamespace(), func(list *corev1.EventList) error {
		for i := range list.Items {
			if e := &list.Items[i]; e.InvolvedObject.Name == about.GetName() && strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("none of %d events says %q", len(list.Items), text)
	})
}

// create makes objects that stay.
func (f *fleet) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := f.hub.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

// ready is the condition of a Deployment all of whose n replicas are as they should be.
func ready(n int32) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.Replicas != n || s.ReadyReplicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n {
			return fmt.Errorf("status of generation %d is %+v, want %d replicas", d.Generation, s, n)
		}
		return nil
	}
}

func image(want string) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		if is := d.Spec.Template.Spec.Containers[0].Image; is != want {
			return fmt.Errorf("the image is %s, want %s", is, want)
		}
		return nil
	}
}

// deployment follows one from its creation to its deletion; another one stays.
func (f *fleet) deployment(t *testing.T) {
	web, gone := fleettest.Deployment(f.ns, "web", 2), fleettest.Deployment(f.ns, "gone", 1)
	f.create(t, web, gone, fleettest.Policy(f.ns, "web", fleettest.To(older), web, gone))
	fleettest.ExpectEventually(t, f.older, web, fleettest.Available)
	fleettest.ExpectEventually(t, f.hub.Cluster, web, ready(2))
	fleettest.ExpectEventually(t, f.hub.Cluster, gone, ready(1))

	fleettest.Update(t, f.hub.Cluster, web, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) })
	fleettest.ExpectEventually(t, f.hub.Cluster, web, ready(3))
	fleettest.Update(t, f.hub.Cluster, web, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "nginx:1.2" })
	fleettest.ExpectEventually(t, f.older, web, image("nginx:1.2"))
	fleettest.ExpectEventually(t, f.hub.Cluster, web, ready(3))

	f.create(t, &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "web"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{
				TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{older}},
				Overriders: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{
					{Component: policyv1alpha1.Registry, Operator: policyv1alpha1.OverriderOpAdd, Value: "registry.example.com"},
				}},
			}},
		},
	})
	const overridden = "registry.example.com/nginx:1.2"
	fleettest.ExpectEventually(t, f.older, web, image(overridden))
	fleettest.ExpectEventually(t, f.hub.Cluster, web, ready(3))

	there := web.DeepCopy()
	fleettest.Update(t, f.older, there, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image, d.Spec.Replicas = "someone-elses", new(int32(1))
	})
	repaired := fleettest.ExpectEventually(t, f.older, web, func(d *appsv1.Deployment) error { return errors.Join(image(overridden)(d), fleettest.Replicas(3)(d)) })
	fleettest.ExpectEventually(t, f.hub.Cluster, web, ready(3))
	fleettest.Delete(t, f.older, repaired)
	fleettest.ExpectEventually(t, f.older, web, func(d *appsv1.Deployment) error {
		if d.UID == repaired.UID {
			return errors.New("it is the one that is deleted")
		}
		return fleettest.Available(d)
	})
	fleettest.ExpectEventually(t, f.hub.Cluster, web, ready(3))

	fleettest.Delete(t, f.hub.Cluster, gone)
	fleettest.ExpectGone(t, f.older, gone)
}

// customResource has the definition of a kind, with fields that Kubernetes added since, and an object of it.
func (f *fleet) customResource(t *testing.T) {
	gears := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "gears.skew.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "skew.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", Kind: "Gear", ListKind: "GearList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: ".spec.metal"}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {
							Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"metal": {Type: "string", MaxLength: new(int64(16))}},
							XValidations: apiextensionsv1.ValidationRules{{Rule: "oldSelf.hasValue() || self.metal != 'lead'", Message: "no lead", OptionalOldSelf: new(true)}},
						},
						"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"state": {Type: "string"}}},
					},
				}},
			}},
		},
	}
	gear := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "skew.example.com/v1", "kind": "Gear", "metadata": map[string]any{"namespace": f.ns, "name": "large"}, "spec": map[string]any{"metal": "steel"},
	}}
	f.create(t, gears, fleettest.ClusterPolicy("gears", fleettest.To(older), gears))
	fleettest.Eventually(t, "the control plane serves the kind", func() bool { return f.hub.Create(t.Context(), gear) == nil })
	f.create(t, fleettest.Policy(f.ns, "gear", fleettest.To(older), gear))
	is := func(want string, path ...string) func(*unstructured.Unstructured) error {
		return func(u *unstructured.Unstructured) error {
			if value, _, _ := unstructured.NestedString(u.Object, path...); value != want {
				return fmt.Errorf("%s is %q, want %q", strings.Join(path, "."), value, want)
			}
			return nil
		}
	}
	there := fleettest.ExpectEventually(t, f.older, gear, is("steel", "spec", "metal"))
	fleettest.UpdateStatus(t, f.older, there, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, "turns", "status", "state")
	})
	// Without an interpreter for the kind, its status is that of the copies only.
	fleettest.ExpectEventually(t, f.hub.Cluster, binding("Gear", f.ns, "large"), func(b *workv1alpha2.ResourceBinding) error {
		items := b.Status.AggregatedStatus
		if len(items) != 1 || items[0].Status == nil || string(items[0].Status.Raw) != `{"state":"turns"}` || items[0].Health != workv1alpha2.ResourceHealthy {
			return fmt.Errorf("its statuses are %+v", items)
		}
		return nil
	})
	fleettest.Update(t, f.hub.Cluster, gear, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, "brass", "spec", "metal")
	})
	fleettest.ExpectEventually(t, f.older, gear, is("brass", "spec", "metal"))
	fleettest.ExpectEventually(t, f.hub.Cluster, work("CustomResourceDefinition", "", gears.Name), applied)
}

// kindIsNotServed: the scheduler names a kind that the member does not serve.
func (f *fleet) kindIsNotServed(t *testing.T) {
	object := f.unserved.DeepCopyObject().(client.Object)
	kind := object.GetObjectKind().GroupVersionKind().Kind // an answer to a request is without it
	f.create(t, object, fleettest.ClusterPolicy("unserved", fleettest.To(older), object))
	b := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: workv1alpha2.BindingName(kind, object.GetName())}}
	fleettest.ExpectEventually(t, f.hub.Cluster, b, func(b *workv1alpha2.ClusterResourceBinding) error {
		return condition(b.Status.Conditions, workv1alpha2.Scheduled, metav1.ConditionFalse, "lacks "+f.unservedAs)
	})
}

// fieldIsNotKnown: the object gets there without a field that the member does not serve, and an event names the field.
func (f *fleet) fieldIsNotKnown(t *testing.T) {
	if f.unknown == nil {
		t.Skip("this version serves all fields that the control plane stores")
	}
	object := f.unknown.DeepCopyObject().(client.Object)
	kind := object.GetObjectKind().GroupVersionKind().Kind
	scope := ""
	if kind != "CSIDriver" {
		object.SetNamespace(f.ns)
		scope = f.ns
	}
	f.create(t, object, fleettest.ClusterPolicy("unknown", fleettest.To(older), object))
	fleettest.ExpectEventually(t, f.older, object, func(client.Object) error { return nil })
	w := fleettest.ExpectEventually(t, f.hub.Cluster, work(kind, scope, object.GetName()), applied)
	f.expectEvent(t, w, f.unknownField)
}

// fieldIsDropped: a field whose feature is off in the member is in its schema, and is not stored. Nothing is said, and nothing is repaired,
// also not after a restart, which a later step is about.
func (f *fleet) fieldIsDropped(t *testing.T) {
	labels := map[string]string{"app": "ordered"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "ordered"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: "ordered",
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{
				MaxUnavailable: new(intstr.FromInt32(2)), // on by default since 1.37
			}},
			Template: fleettest.Deployment(f.ns, "ordered", 1).Spec.Template,
		},
	}
	f.create(t, set, fleettest.Policy(f.ns, "ordered", fleettest.To(older), set))
	onHub := fleettest.ExpectEventually(t, f.hub.Cluster, set, func(s *appsv1.StatefulSet) error {
		if s.Status.ReadyReplicas != 2 || s.Status.ObservedGeneration != s.Generation {
			return fmt.Errorf("status is %+v", s.Status)
		}
		return nil
	})
	if onHub.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable == nil {
		t.Error("the control plane does not have the field: this shows nothing")
	}
	there := fleettest.ExpectEventually(t, f.older, set, fleettest.Exists)
	if there.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil {
		t.Error("the member has the field: this shows nothing")
	}
	fleettest.ExpectEventually(t, f.hub.Cluster, work("StatefulSet", f.ns, "ordered"), applied)
}

// valueIsRefused: a value that is valid since is refused by the member, and the condition has what the member says.
func (f *fleet) valueIsRefused(t *testing.T) {
	scaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "to-zero"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(0)), MaxReplicas: 2, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "absent"},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "queue"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: new(amount)},
			}}},
		},
	}
	const refusal = "spec.minReplicas: Invalid value: must be greater than or equal to 1" // without the value, which may be a secret
	policy := fleettest.Policy(f.ns, "to-zero", fleettest.To(older), scaler)
	f.create(t, scaler, policy)
	fleettest.ExpectEventually(t, f.hub.Cluster, work("HorizontalPodAutoscaler", f.ns, "to-zero"), func(w *workv1alpha1.Work) error {
		return condition(w.Status.Conditions, workv1alpha1.WorkApplied, metav1.ConditionFalse, refusal)
	})
	fleettest.ExpectEventually(t, f.hub.Cluster, binding("HorizontalPodAutoscaler", f.ns, "to-zero"), func(b *workv1alpha2.ResourceBinding) error {
		return condition(b.Status.Conditions, workv1alpha2.FullyApplied, metav1.ConditionFalse, older)
	})
	r := fleettest.Flagship(t, "explain", "hpa/to-zero", "-n", f.ns, "--kubeconfig", f.hub.Kubeconfig)
	if !strings.Contains(r.Stdout, refusal) {
		t.Errorf("explain says\n%s%s", r.Stdout, r.Stderr)
	}
	// What is refused is sent again, less and less often. Without it, nothing is written.
	fleettest.Delete(t, f.hub.Cluster, scaler, policy)
	fleettest.ExpectGone(t, f.hub.Cluster, work("HorizontalPodAutoscaler", f.ns, "to-zero"))
}

// doctor reports the version and finds nothing wrong with it.
func (f *fleet) doctor(t *testing.T) {
	binary, err := fleettest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"versions": "1 members v" + f.is + ".", "permissions": "", "members": "all ready", "credentials": ""}
	fleettest.Eventually(t, "flagship doctor is content with the member", func() bool {
		cmd := exec.CommandContext(t.Context(), binary, "doctor", "--kubeconfig", f.hub.Kubeconfig, "--patience", "0s", "-o", "json")
		out, _ := cmd.Output() // the exit code has also what this test has left
		var found []struct{ Check, Status, Found string }
		if err := json.Unmarshal(out, &found); err != nil {
			t.Logf("it printed %s: %v", out, err)
			return false
		}
		for _, r := range found {
			if text, asked := want[r.Check]; asked && (r.Status != "ok" || !strings.Contains(r.Found, text)) {
				t.Logf("doctor: %+v", r)
				return false
			}
		}
		return len(found) > 0
	})
	for _, args := range [][]string{{"deployment/web", "-n", f.ns}, {"statefulset/ordered", "-n", f.ns}} {
		r := fleettest.Flagship(t, append([]string{"explain", "--kubeconfig", f.hub.Kubeconfig}, args...)...)
		if r.Code != 0 || !strings.Contains(r.Stdout, older) {
			t.Errorf("explain %v: code %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
	for _, args := range [][]string{{"get", "deployments", "-n", f.ns}, {"get", "gears.skew.example.com", "-n", f.ns, "--clusters", older}, {"describe", "deployment", "web", "-n", f.ns}} {
		r := fleettest.Flagship(t, append(args, "--kubeconfig", f.hub.Kubeconfig)...)
		if r.Code != 0 || !strings.Contains(r.Stdout, older) {
			t.Errorf("%v: code %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
}
