package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// addition is something that others add in a member to a map or list of an object.
type addition struct {
	manifest, patch string
	patchType       types.PatchType
	// path is the field of the report, "" if the addition is no difference; at is where the addition is.
	path string
	at   []string
	// without and with are the field without the addition, and with it, as JSON.
	without, with string
}

func (a addition) object(t *testing.T, ns string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(a.manifest), &obj.Object); err != nil {
		t.Fatal(err)
	}
	obj.SetNamespace(ns)
	return obj
}

// has is the condition that the field is without the addition, or with it.
func (a addition) has(want string) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		value, _, err := unstructured.NestedFieldNoCopy(u.Object, a.at...)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return equal(want, string(raw))
	}
}

const webTemplate = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{key: a, operator: Exists}]
      containers: [{name: c, image: nginx, args: ["--one"]}]
`

// additions to maps and lists that are owned as a whole are differences; to those that are owned by key they are others' own.
var additions = map[string]addition{
	"Subjects": {
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: rb}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view},
		 subjects: [{kind: User, name: alice, apiGroup: rbac.authorization.k8s.io}]}`,
		`[{"op":"add","path":"/subjects/-","value":{"kind":"User","name":"mallory","apiGroup":"rbac.authorization.k8s.io"}}]`, types.JSONPatchType,
		"/subjects", []string{"subjects"}, `[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"alice"}]`,
		`[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"alice"},{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"mallory"}]`,
	},
	"Rules": {
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: role}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`,
		`[{"op":"add","path":"/rules/-","value":{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}}]`, types.JSONPatchType,
		"/rules", []string{"rules"}, `[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`,
		`[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]},{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]`,
	},
	"Selector": {
		`{apiVersion: v1, kind: Service, metadata: {name: sel}, spec: {selector: {app: web}, ports: [{port: 80}]}}`,
		`{"spec":{"selector":{"tier":"canary"}}}`, types.MergePatchType,
		"/spec/selector", []string{"spec", "selector"}, `{"app":"web"}`, `{"app":"web","tier":"canary"}`,
	},
	"Tolerations": {
		strings.Replace(webTemplate, "NAME", "tolerations", 1),
		`[{"op":"add","path":"/spec/template/spec/tolerations/-","value":{"key":"b","operator":"Exists"}}]`, types.JSONPatchType,
		"/spec/template/spec/tolerations", []string{"spec", "template", "spec", "tolerations"}, `[{"key":"a","operator":"Exists"}]`,
		`[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]`,
	},
	"Ingress": {
		`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: np}, spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {a: b}}}]}]}}`,
		`[{"op":"add","path":"/spec/ingress/-","value":{"from":[{"podSelector":{}}]}}]`, types.JSONPatchType,
		"/spec/ingress", []string{"spec", "ingress"}, `[{"from":[{"podSelector":{"matchLabels":{"a":"b"}}}]}]`,
		`[{"from":[{"podSelector":{"matchLabels":{"a":"b"}}}]},{"from":[{"podSelector":{}}]}]`,
	},
	"PodSelector": {
		`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: all}, spec: {podSelector: {}, policyTypes: [Ingress]}}`,
		`{"spec":{"podSelector":{"matchLabels":{"a":"b"}}}}`, types.MergePatchType,
		"/spec/podSelector", []string{"spec", "podSelector"}, `{}`, `{"matchLabels":{"a":"b"}}`,
	},
	"Labels": {
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: labelled, annotations: {ours: "1"}}}`,
		`{"metadata":{"annotations":{"theirs":"2"}}}`, types.MergePatchType,
		"", []string{"metadata", "annotations", "theirs"}, "null", `"2"`,
	},
	"Data": {
		`{apiVersion: v1, kind: Secret, metadata: {name: data}, data: {ours: eA==}}`, `{"data":{"theirs":"eQ=="}}`, types.MergePatchType,
		"", []string{"data"}, `{"ours":"eA=="}`, `{"ours":"eA==","theirs":"eQ=="}`,
	},
	"PullSecrets": {
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: app}, imagePullSecrets: [{name: registry}]}`,
		`{"imagePullSecrets":[{"name":"registry"},{"name":"injected-dockercfg"}],"secrets":[{"name":"app-token"}]}`, types.MergePatchType,
		"", []string{"imagePullSecrets"}, `[{"name":"registry"}]`, `[{"name":"registry"},{"name":"injected-dockercfg"}]`,
	},
}

// fieldsOf waits until the report about an object in member1 satisfies a condition.
func fieldsOf(t *testing.T, fleet *fleettest.Fleet, obj *unstructured.Unstructured, condition func([]fleetv1alpha1.DriftedField) error) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		q := &fleetv1alpha1.DriftReport{Spec: fleetv1alpha1.DriftReportSpec{Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}}
		if last = fleet.Hub.Create(ctx, q); last != nil {
			return false, nil //nolint:nilerr // it is requested again
		}
		var fields []fleetv1alpha1.DriftedField
		for _, o := range q.Status.Objects {
			fields = append(fields, o.Fields...)
		}
		last = condition(fields)
		return last == nil, nil
	}); err != nil {
		t.Fatalf("the report about %s %s: %v", obj.GetKind(), obj.GetName(), last)
	}
}

// oneField is the condition that one field is reported.
func oneField(path, manager string, outcome fleetv1alpha1.DriftOutcome) func([]fleetv1alpha1.DriftedField) error {
	return func(fields []fleetv1alpha1.DriftedField) error {
		if len(fields) != 1 || fields[0].Path != path || fields[0].Manager != manager || fields[0].Outcome != outcome || fields[0].Time == nil {
			return fmt.Errorf("the fields are %+v, want %s %s by %s", fields, path, outcome, manager)
		}
		return nil
	}
}

// add makes the additions in member1 as another manager, and waits until the control plane has decided about the annotation that comes with
// each of them.
func add(t *testing.T, fleet *fleettest.Fleet, objects map[string]*unstructured.Unstructured) {
	t.Helper()
	for name, a := range additions {
		obj := objects[name].DeepCopy()
		fleettest.ExpectEventually(t, fleet.Member("member1"), obj, a.has(a.without))
		if err := fleet.Member("member1").Patch(t.Context(), obj, client.RawPatch(a.patchType, []byte(a.patch)), client.FieldOwner("a-person")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// TestDriftOfAdditions: what others add to a map or list that is owned as a whole is shown, put back or left as the policy says, with who added
// it. What controllers add to a ServiceAccount stays, and so does what is owned by key.
func TestDriftOfAdditions(t *testing.T) {
	fleet := shared.Start(t)
	for mode, outcome := range map[string]fleetv1alpha1.DriftOutcome{
		policyv1alpha1.DriftRepair: fleetv1alpha1.DriftPutBack, policyv1alpha1.DriftReport: fleetv1alpha1.DriftReported, policyv1alpha1.DriftPause: fleetv1alpha1.DriftPaused,
		policyv1alpha1.DriftCreateOnly: fleetv1alpha1.DriftReported,
	} {
		t.Run(mode, func(t *testing.T) {
			ns := fleet.Namespace(t)
			objects := map[string]*unstructured.Unstructured{}
			var selected []client.Object
			for name, a := range additions {
				objects[name] = a.object(t, ns)
				selected = append(selected, objects[name])
			}
			policy := fleettest.Policy(ns, "all", fleettest.To("member1"), selected...)
			policy.Annotations = map[string]string{policyv1alpha1.DriftAnnotation: mode}
			fleettest.Create(t, fleet.Hub, append(selected, policy)...)
			add(t, fleet, objects)
			for name, a := range additions {
				after := a.with
				if a.path != "" {
					fieldsOf(t, fleet, objects[name], oneField(a.path, "a-person", outcome))
					if mode == policyv1alpha1.DriftRepair {
						after = a.without
					}
				}
				fleettest.ExpectEventually(t, fleet.Member("member1"), objects[name].DeepCopy(), a.has(after))
			}
			subjects := objects["Subjects"]
			switch mode {
			case policyv1alpha1.DriftRepair:
				expectWarning(t, fleet.Hub, subjects, "FieldPutBack", regexp.QuoteMeta(`member1: RoleBinding rb: /subjects was changed by "a-person" and is put back`))
			case policyv1alpha1.DriftReport:
				// The rest of a new version is applied, and the addition stays.
				fleettest.Update(t, fleet.Hub, subjects, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"version": "2"}) })
				fleettest.ExpectEventually(t, fleet.Member("member1"), subjects.DeepCopy(), func(u *unstructured.Unstructured) error {
					return errors.Join(equal("2", u.GetLabels()["version"]), additions["Subjects"].has(additions["Subjects"].with)(u))
				})
				fieldsOf(t, fleet, subjects, oneField("/subjects", "a-person", outcome))
			}
			for _, quiet := range []string{"Labels", "Data", "PullSecrets"} {
				fieldsOf(t, fleet, objects[quiet], func(fields []fleetv1alpha1.DriftedField) error {
					if len(fields) > 0 {
						return fmt.Errorf("%s: the fields are %+v", quiet, fields)
					}
					return nil
				})
			}
		})
	}
}

// TestDriftThatIsIgnored: fields that a policy leaves to members keep their value, also with a new version of the template, and are not reported. An item
// of a list that leaves the template leaves the copy, and what a controller added to the list stays.
func TestDriftThatIsIgnored(t *testing.T) {
	fleet := shared.Start(t)
	ns, member := fleet.Namespace(t), fleet.Member("member1")
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours", "b": "ours"})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "app"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "old"}}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}}
	for _, obj := range []client.Object{settings, account, service} {
		obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(map[client.Object]string{settings: "ConfigMap", account: "ServiceAccount", service: "Service"}[obj]))
	}
	policy := fleettest.Policy(ns, "all", fleettest.To("member1"), settings, account, service)
	policy.Annotations = map[string]string{policyv1alpha1.DriftIgnoreAnnotation: "/data/a, /spec/selector/tier\n/metadata/annotations/example.io~1theirs"}
	fleettest.Create(t, fleet.Hub, settings, account, service, policy)
	for _, obj := range []client.Object{settings, account, service} {
		fleettest.ExpectEventually(t, member, obj.DeepCopyObject().(client.Object), fleettest.Exists)
	}
	changeAs(t, member, settings, "a-person", `{"data":{"a":"theirs"}}`)
	for obj, patch := range map[client.Object]string{
		account.DeepCopy(): `{"imagePullSecrets":[{"name":"old"},{"name":"injected"}]}`, service.DeepCopy(): `{"spec":{"selector":{"tier":"canary"}}}`,
	} {
		if err := member.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("a-person")); err != nil {
			t.Fatal(err)
		}
	}
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": "next", "b": "next"} })
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "theirs", "b": "next"}))
	fleettest.Update(t, fleet.Hub, account, func(a *corev1.ServiceAccount) {
		a.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "new"}}
	})
	fleettest.ExpectEventually(t, member, account.DeepCopy(), func(a *corev1.ServiceAccount) error {
		names := []string{}
		for _, s := range a.ImagePullSecrets {
			names = append(names, s.Name)
		}
		slices.Sort(names)
		return equal("injected new", strings.Join(names, " "))
	})
	fleettest.Update(t, fleet.Hub, service, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web2"} })
	fleettest.ExpectEventually(t, member, service.DeepCopy(), func(s *corev1.Service) error {
		return equal("map[app:web2 tier:canary]", fmt.Sprint(s.Spec.Selector))
	})
	noDrift(t, fleet, ns, "settings")

	// What the policy does not leave any more is put back.
	fleettest.Update(t, fleet.Hub, policy, func(p *policyType) { delete(p.Annotations, policyv1alpha1.DriftIgnoreAnnotation) })
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "next", "b": "next"}))
	fleettest.ExpectEventually(t, member, service.DeepCopy(), func(s *corev1.Service) error {
		return equal("map[app:web2]", fmt.Sprint(s.Spec.Selector))
	})

	for pointer, want := range map[string]string{
		"spec.replicas": "must be a path from the top of the object", "/metadata/labels": "only a label or annotation can be left", "/status/phase": "is no field that a member changes",
	} {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, policyv1alpha1.DriftIgnoreAnnotation, pointer))
		if err := fleet.Hub.Patch(t.Context(), policy.DeepCopy(), patch); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pointer, err)
		}
	}
}
