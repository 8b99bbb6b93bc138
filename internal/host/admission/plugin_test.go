package admission_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/admission"
)

const policyID = "propagationpolicy.karmada.io/permanent-id"

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// request is a write as the API server describes it to plugins. An old object makes it an update.
func request(o, old *unstructured.Unstructured, subresource string) kadmission.Attributes {
	operation, before := kadmission.Create, runtime.Object(nil)
	if old != nil {
		operation, before = kadmission.Update, old
	}
	return kadmission.NewAttributesRecord(o, before, o.GroupVersionKind(), o.GetNamespace(), o.GetName(),
		schema.GroupVersionResource{}, subresource, operation, nil, false, nil)
}

func newPlugin() *admission.Plugin {
	return admission.New(admission.Config{NewID: func() string { return "new-id" }, Never: func(kind schema.GroupVersionKind, namespace, _ string) bool {
		return kind.Group == "own.io" || namespace == "reserved" || namespace == "kube-system"
	}, ReplicasUnknown: func(kind schema.GroupVersionKind) bool { return kind.Kind == "Rollout" }})
}

const policy = `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
`

const selector = "{apiVersion: apps/v1, kind: Deployment"

func TestAdmit(t *testing.T) {
	tests := map[string]struct {
		reason      string
		object, old string
		subresource string
		want        string
	}{
		"NewPolicyGetsID": {
			reason: "claims refer to a policy by its id, so it has one from the beginning",
			object: policy + `spec: {resourceSelectors: [` + selector + `, namespace: shop}]}`,
			want: `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop, finalizers: [karmada.io/propagation-policy-controller], labels: {` + policyID + `: new-id}}
spec: {resourceSelectors: [` + selector + `, namespace: shop}]}`,
		},
		"DroppedIDComesBack": {
			reason: "kubectl replace sends the file as the user wrote it",
			object: policy + `spec: {resourceSelectors: [` + selector + `, namespace: shop}]}`,
			old: `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop, labels: {` + policyID + `: first}}
spec: {resourceSelectors: [` + selector + `, namespace: shop}]}`,
			want: `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop, finalizers: [karmada.io/propagation-policy-controller], labels: {` + policyID + `: first}}
spec: {resourceSelectors: [` + selector + `, namespace: shop}]}`,
		},
		"LeavingPolicyGetsNoFinalizer": {
			reason: "whoever removes it last lets the policy go",
			object: `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop, deletionTimestamp: "2026-01-02T03:04:05Z", labels: {` + policyID + `: first}}
spec: {resourceSelectors: [` + selector + `, namespace: shop}]}`,
			old: `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop, deletionTimestamp: "2026-01-02T03:04:05Z", labels: {` + policyID + `: first}}
spec: {resourceSelectors: []}`,
			want: `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop, deletionTimestamp: "2026-01-02T03:04:05Z", labels: {` + policyID + `: first}}
spec: {resourceSelectors: [` + selector + `, namespace: shop}]}`,
		},
		"SelectorsStayInTheNamespace": {
			reason: "a namespaced policy has no say about objects of other namespaces",
			object: policy + `spec: {resourceSelectors: [` + selector + `, namespace: other}, ` + selector + `, name: a}]}`,
			want: `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop, finalizers: [karmada.io/propagation-policy-controller], labels: {` + policyID + `: new-id}}
spec: {resourceSelectors: [` + selector + `, namespace: shop}, ` + selector + `, name: a, namespace: shop}]}`,
		},
		"DividedIsWeighted": {
			reason: "dividing needs a way to divide",
			object: `
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: web}
spec:
  resourceSelectors: [` + selector + `}]
  placement: {replicaScheduling: {replicaSchedulingType: Divided}}`,
			want: `
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: web, finalizers: [karmada.io/cluster-propagation-policy-controller], labels: {clusterpropagationpolicy.karmada.io/permanent-id: new-id}}
spec:
  resourceSelectors: [` + selector + `}]
  placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}`,
		},
		"ServiceImportBringsDependencies": {
			reason: "who imports a service needs what stands behind it",
			object: policy + `spec: {resourceSelectors: [{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, namespace: shop}]}`,
			want: `
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop, finalizers: [karmada.io/propagation-policy-controller], labels: {` + policyID + `: new-id}}
spec:
  resourceSelectors: [{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, namespace: shop}]
  propagateDeps: true`,
		},
		"OverrideSelectorsStayInTheNamespace": {
			reason: "as for propagation",
			object: `
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: web, namespace: shop}
spec: {resourceSelectors: [` + selector + `}], overrideRules: []}`,
			want: `
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: web, namespace: shop}
spec: {resourceSelectors: [` + selector + `, namespace: shop}], overrideRules: []}`,
		},
		"StatusIsLeftAlone": {
			reason:      "the status endpoint changes neither labels nor spec",
			object:      policy + `spec: {resourceSelectors: []}`,
			subresource: "status",
			want:        policy + `spec: {resourceSelectors: []}`,
		},
		"OtherKindsAreLeftAlone": {
			reason: "templates are their users'",
			object: "apiVersion: example.com/v1\nkind: Anything\nmetadata: {name: a}\nspec: {x: 1}",
			want:   "apiVersion: example.com/v1\nkind: Anything\nmetadata: {name: a}\nspec: {x: 1}",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := object(t, test.object)
			var old *unstructured.Unstructured
			if test.old != "" {
				old = object(t, test.old)
			}
			if err := newPlugin().Admit(t.Context(), request(got, old, test.subresource), nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, test.want).Object, withoutStatus(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

func withoutStatus(o *unstructured.Unstructured) map[string]any {
	delete(o.Object, "status")
	return o.Object
}

func TestAdmitChangesNothingTwice(t *testing.T) {
	o := object(t, policy+`spec: {resourceSelectors: [`+selector+`}], placement: {spreadConstraints: [{maxGroups: 2}]}}`)
	if err := newPlugin().Admit(t.Context(), request(o, nil, ""), nil); err != nil {
		t.Fatal(err)
	}
	again := o.DeepCopy()
	if err := newPlugin().Admit(t.Context(), request(again, nil, ""), nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o.Object, again.Object); diff != "" {
		t.Errorf("a second write of the same object would not be a no-op (-first +second):\n%s", diff)
	}
}

const work = `
apiVersion: work.karmada.io/v1alpha1
kind: Work
metadata: {name: w, namespace: karmada-es-member1, labels: {work.karmada.io/permanent-id: first}}
`

func webhook(address, versions, rule string) string {
	return `{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterWebhookConfiguration, metadata: {name: c}, webhooks: [
		{name: things.example.com, clientConfig: ` + address + `, interpreterContextVersions: ` + versions + `, rules: [` + rule + `]}]}`
}

func TestValidate(t *testing.T) {
	configMap := "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
	large := func(name string) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `}, data: {x: "` + strings.Repeat("x", 800_000) + `"}}`
	}
	tests := map[string]struct {
		reason      string
		object, old string
		want        []string
	}{
		"Work": {
			reason: "a named object in an execution namespace is what a Work is for",
			object: work + `spec: {workload: {manifests: [` + configMap + `]}}`,
		},
		"WorkElsewhere": {
			reason: "the namespace says which cluster",
			object: `{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: w, namespace: default}, spec: {workload: {manifests: []}}}`,
			want:   []string{"metadata.namespace"},
		},
		"WorkWithoutTheThreeNames": {
			reason: "an object without them cannot be applied",
			object: work + `spec: {workload: {manifests: [` + configMap + `, {data: {}}]}}`,
			want: []string{
				"spec.workload.manifests[1].apiVersion", "spec.workload.manifests[1].kind", "spec.workload.manifests[1].metadata.name",
			},
		},
		"WorkWithList": {
			reason: "status is kept per object",
			object: work + `spec: {workload: {manifests: [{apiVersion: v1, kind: List, items: []}]}}`,
			want:   []string{"spec.workload.manifests[0].kind"},
		},
		"WorkWithTheSameObjectTwice": {
			reason: "the second would undo the first, for ever",
			object: work + `spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]}}`,
			want:   []string{"spec.workload.manifests[1]"},
		},
		"WorkTooLarge": {
			reason: "storage would refuse it without saying which object",
			object: work + `spec: {workload: {manifests: [` + large("a") + `, ` + large("b") + `]}}`,
			want:   []string{"spec.workload.manifests[1]"},
		},
		"OptionOfAPolicy": {
			reason: "a policy has options that its spec has no field for, and they change without it",
			object: strings.Replace(policy, "namespace: shop", "namespace: shop, annotations: {flagship.io/drift: Ignore}", 1) + "spec: {resourceSelectors: []}",
			old:    policy + "spec: {resourceSelectors: []}",
			want:   []string{"metadata.annotations[flagship.io/drift]"},
		},
		"OtherAnnotationOfAPolicy": {
			reason: "what was stored before a rule existed is not checked for other changes",
			object: strings.Replace(policy, "namespace: shop", "namespace: shop, annotations: {flagship.io/drift: Ignore, team: a}", 1) + "spec: {resourceSelectors: []}",
			old:    strings.Replace(policy, "namespace: shop", "namespace: shop, annotations: {flagship.io/drift: Ignore}", 1) + "spec: {resourceSelectors: []}",
		},
		"UnchangedSpecIsNotCheckedAgain": {
			reason: "a finalizer must come off whatever the spec says",
			object: work + `spec: {workload: {manifests: [{}]}}`,
			old:    work + `spec: {workload: {manifests: [{}]}}`,
		},
		"ChangedID": {
			reason: "objects in members carry the id",
			object: strings.Replace(work, "first", "second", 1) + `spec: {}`,
			old:    work + `spec: {}`,
			want:   []string{"metadata.labels[work.karmada.io/permanent-id]"},
		},
		"ScriptThatDoesNotCompile": {
			reason: "a wrong script is found when it is written, not when an object needs it",
			object: `{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterCustomization, metadata: {name: c}, spec: {
				target: {apiVersion: example.io/v1, kind: Thing}, customizations: {healthInterpretation: {luaScript: "function InterpretHealth("}}}}`,
			want: []string{"spec.customizations.healthInterpretation.luaScript"},
		},
		"Webhook": {
			reason: "a webhook that can be asked is fine",
			object: webhook("{url: 'https://hooks.example.com:8443/lua'}", "[v2, v1alpha1]", "{operations: ['*'], apiGroups: [''], apiVersions: ['*'], kinds: [Thing]}"),
		},
		"WebhookThatCannotBeCalled": {
			reason: "it would fail whenever an object of the kind comes along",
			object: strings.Replace(webhook("{url: 'https://hooks.example.com?a=b', caBundle: eHh4}", "[v2]",
				"{operations: [Guess, '*'], apiGroups: ['*', a], apiVersions: [], kinds: [things/status]}"), "things.example.com", "things", 1),
			want: []string{
				"webhooks[0].name", "webhooks[0].clientConfig.url", "webhooks[0].clientConfig.caBundle", "webhooks[0].interpreterContextVersions",
				"webhooks[0].rules[0].operations[0]", "webhooks[0].rules[0].operations", "webhooks[0].rules[0].apiGroups",
				"webhooks[0].rules[0].apiVersions", "webhooks[0].rules[0].kinds[0]",
			},
		},
		"WebhookOfServiceWithoutName": {
			reason: "a service has a name",
			object: webhook("{service: {namespace: a}}", "[v1alpha1]", ""),
			old:    webhook("{service: {namespace: a, name: b}}", "[v1alpha1]", ""),
			want:   []string{"webhooks[0].clientConfig.service.name"},
		},
		"TaintPolicyThatEvicts": {
			reason: "a wrong condition would empty clusters",
			object: taintPolicy,
			want:   []string{"spec.taints[1].effect"},
		},
		"StateByPathsThatTakeLong": {
			reason: "what a tenant writes must not cost the control plane much time",
			object: policy + `spec: {resourceSelectors: [` + selector + `}], propagateDeps: true, failover: {application: {decisionConditions: {}, statePreservation: {rules: [
				{aliasLabelName: a, jsonPath: "{.a[?(@.b==1)].c}"}, {aliasLabelName: b, jsonPath: "{..a}"}]}}, cluster: {statePreservation: {rules: [{aliasLabelName: a, jsonPath: "{.a"}]}}}}`,
			want: []string{"spec.failover.application.statePreservation.rules[1].jsonPath", "spec.failover.cluster.statePreservation.rules[0].jsonPath"},
		},
		"BadLabelSelector": {
			reason: "CEL cannot check label selectors",
			object: policy + `spec: {resourceSelectors: [` + selector + `, labelSelector: {matchExpressions: [{key: a, operator: Wrong}]}}]}`,
			want:   []string{"spec.resourceSelectors[0].labelSelector.matchExpressions[0].operator"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var old *unstructured.Unstructured
			if test.old != "" {
				old = object(t, test.old)
			}
			err := newPlugin().Validate(t.Context(), request(object(t, test.object), old, ""), nil)
			if diff := cmp.Diff(test.want, causes(err)); diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", test.reason, err, diff)
			}
		})
	}
}

// causes are the field paths an error speaks of.
func causes(err error) []string {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return nil
	}
	var fields []string
	for _, cause := range status.ErrStatus.Details.Causes {
		fields = append(fields, cause.Field)
	}
	return fields
}

func TestDeletionProtection(t *testing.T) {
	labels := map[string]string{"resourcetemplate.karmada.io/deletion-protected": "Always"}
	tests := map[string]struct {
		reason      string
		object      runtime.Object
		subresource string
		refused     bool
	}{
		"Template":    {reason: "any kind can be protected", object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: labels}}, refused: true},
		"Cluster":     {reason: "so can a member", object: &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: labels}}, refused: true},
		"Unprotected": {reason: "most are not", object: &corev1.ConfigMap{}},
		"OtherValue": {
			reason: "Always is the only value that counts",
			object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"resourcetemplate.karmada.io/deletion-protected": "never"}}},
		},
		"Unknown": {reason: "some requests come without the object", object: nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := kadmission.NewAttributesRecord(nil, test.object, schema.GroupVersionKind{}, "", "a",
				schema.GroupVersionResource{}, test.subresource, kadmission.Delete, nil, false, nil)
			err := newPlugin().Validate(t.Context(), a, nil)
			if apierrors.IsForbidden(err) != test.refused {
				t.Errorf("%s: got %v", test.reason, err)
			}
			const sentence = "This resource is protected, please make sure to remove the label: resourcetemplate.karmada.io/deletion-protected"
			if test.refused && !strings.Contains(err.Error(), sentence) {
				t.Errorf("%s: clients match %q, got %v", test.reason, sentence, err)
			}
		})
	}
}

// recorder keeps the warnings of a request.
type recorder []string

func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }

const taintPolicy = `{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterTaintPolicy, metadata: {name: p}, spec: {taints: [
	{key: cluster.karmada.io/not-ready, effect: NoSchedule}, {key: cluster.karmada.io/not-ready, effect: NoExecute}]}}`

func TestTaintPoliciesMayEvictWhereThatIsAllowed(t *testing.T) {
	plugin := admission.New(admission.Config{AllowNoExecuteTaintPolicy: true})
	if err := plugin.Validate(t.Context(), request(object(t, taintPolicy), nil, ""), nil); err != nil {
		t.Error(err)
	}
}

func TestTaintsOfTheReadyConditionWarn(t *testing.T) {
	var warnings recorder
	ctx := warning.WithWarningRecorder(t.Context(), &warnings)
	if err := newPlugin().Admit(ctx, request(object(t, taintPolicy), nil, ""), nil); err != nil {
		t.Fatal(err)
	}
	if err := newPlugin().Admit(ctx, request(object(t, taintPolicy), object(t, taintPolicy), ""), nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"spec.taints[0] has no effect: the control plane sets and removes it by the condition Ready"}; !cmp.Equal(want, []string(warnings)) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
}

func TestInactiveKindsWarn(t *testing.T) {
	o := object(t, "apiVersion: policy.karmada.io/v1alpha1\nkind: FederatedResourceQuota\nmetadata: {name: a}\nspec: {}")
	warned := func(old *unstructured.Unstructured) recorder {
		var got recorder
		ctx := warning.WithWarningRecorder(context.WithoutCancel(t.Context()), &got)
		if err := newPlugin().Validate(ctx, request(o, old, ""), nil); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := warned(nil); len(got) != 1 || !strings.Contains(got[0], "FederatedResourceQuota is stored, but nothing acts on it yet") {
		t.Errorf("create: got warnings %q, want one that says that nothing acts on it", got)
	}
	if got := warned(o); len(got) != 0 {
		t.Errorf("update: got warnings %q, want none: the user has the warning already", got)
	}
}
