package resourceclaims

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	// Whole numbers are int64 in objects read from an API server.
	raw, err := (&unstructured.Unstructured{Object: object}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return obj
}

// serving is a cluster that serves versions of resource.k8s.io, in full, and has said so.
func serving(versions ...string) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}
	c.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionCompleteAPIEnablements, Status: metav1.ConditionTrue}}
	for _, version := range versions {
		kinds := []string{"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"}
		if version == "v1alpha2" {
			kinds = []string{"ResourceClaim", "ResourceClaimTemplate", "ResourceClass", "PodSchedulingContext"}
		}
		enablement := clusterv1alpha1.APIEnablement{GroupVersion: "resource.k8s.io/" + version}
		for _, kind := range kinds {
			enablement.Resources = append(enablement.Resources, clusterv1alpha1.APIResource{Kind: kind})
		}
		c.Status.APIEnablements = append(c.Status.APIEnablements, enablement)
	}
	return c
}

const (
	plainClaim = `
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaim
metadata: {name: gpu, namespace: default, labels: {a: b}, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", keep: me}}
spec: {resourceClassName: gpu.example.com, allocationMode: WaitForFirstConsumer}
`
	immediateClaim = `
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaim
metadata: {name: gpu, namespace: default}
spec: {resourceClassName: gpu.example.com, allocationMode: Immediate, parametersRef: {apiGroup: gpu.example.com, kind: Params, name: big}}
status: {driverName: gpu.example.com}
`
	claimTemplate = `
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: default}
spec:
  metadata: {labels: {made: by-template}}
  spec: {resourceClassName: gpu.example.com, allocationMode: Immediate}
`
	class = `
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClass
metadata: {name: gpu.example.com}
driverName: gpu.example.com
parametersRef: {kind: ConfigMap, name: defaults, namespace: drivers}
structuredParameters: true
`
	podsWithClaims = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {template: {spec: {resourceClaims: [{name: a, resourceClaimName: c}, {name: b, resourceClaimTemplateName: t}]}}}
`
	pickyClass = `
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClass
metadata: {name: gpu.example.com}
driverName: gpu.example.com
suitableNodes: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}]}
`
)

func TestWhatAnObjectBecomesInAMember(t *testing.T) {
	cases := map[string]struct {
		object, want string
		versions     []string
	}{
		"a member that serves v1alpha2 gets the object as it is, whatever else it serves": {
			object: plainClaim, want: plainClaim, versions: []string{"v1", "v1alpha2"},
		},
		"an object of another version is not translated": {
			object:   "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: a}}",
			want:     "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: a}}",
			versions: nil,
		},
		"a claim requests one device of its class": {
			object: plainClaim, versions: []string{"v1beta1", "v1beta2", "v1"},
			want: `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: default, labels: {a: b}, annotations: {keep: me, flagship.io/translated-from: resource.k8s.io/v1alpha2}}
spec: {devices: {requests: [{name: claim, exactly: {deviceClassName: gpu.example.com, allocationMode: ExactCount, count: 1}}]}}
`,
		},
		"pods of an old member name their claims where it looks for them": {
			object: podsWithClaims, versions: []string{"v1alpha2"},
			want: `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {template: {spec: {resourceClaims: [{name: a, source: {resourceClaimName: c}}, {name: b, source: {resourceClaimTemplateName: t}}]}}}
`,
		},
		"pods of a later one stay as they are":   {object: podsWithClaims, want: podsWithClaims, versions: []string{"v1alpha2", "v1beta1"}},
		"pods that claim nothing stay so anyway": {object: "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}", want: "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}", versions: []string{"v1alpha2"}},
		"what has no field is noted": {
			object: immediateClaim, versions: []string{"v1beta2"},
			want: `
apiVersion: resource.k8s.io/v1beta2
kind: ResourceClaim
metadata:
  name: gpu
  namespace: default
  annotations:
    flagship.io/translated-from: resource.k8s.io/v1alpha2
    flagship.io/v1alpha2-allocation-mode: Immediate
    flagship.io/v1alpha2-parameters-ref: '{"apiGroup":"gpu.example.com","kind":"Params","name":"big"}'
spec: {devices: {requests: [{name: claim, exactly: {deviceClassName: gpu.example.com, allocationMode: ExactCount, count: 1}}]}}
`,
		},
		"v1beta1 has requests without alternatives": {
			object: claimTemplate, versions: []string{"v1beta1"},
			want: `
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: default, annotations: {flagship.io/translated-from: resource.k8s.io/v1alpha2, flagship.io/v1alpha2-allocation-mode: Immediate}}
spec:
  metadata:
    labels: {made: by-template}
    annotations: {flagship.io/translated-from: resource.k8s.io/v1alpha2, flagship.io/v1alpha2-allocation-mode: Immediate}
  spec: {devices: {requests: [{name: claim, deviceClassName: gpu.example.com, allocationMode: ExactCount, count: 1}]}}
`,
		},
		"a class selects the devices of its driver": {
			object: class, versions: []string{"v1"},
			want: `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu.example.com
  annotations:
    flagship.io/translated-from: resource.k8s.io/v1alpha2
    flagship.io/v1alpha2-parameters-ref: '{"kind":"ConfigMap","name":"defaults","namespace":"drivers"}'
    flagship.io/v1alpha2-structured-parameters: "true"
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := fromYAML(t, c.object)
			got, err := Adviser{}.To(t.Context(), object, serving(c.versions...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fromYAML(t, c.want).Object, got.Object); diff != "" {
				t.Errorf("not as wanted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(fromYAML(t, c.object).Object, object.Object); diff != "" {
				t.Errorf("the argument was changed:\n%s", diff)
			}
		})
	}
}

// TestTranslatedObjectsAreOfTheirVersion: the types of each version have every field, so its API server serves it.
func TestTranslatedObjectsAreOfTheirVersion(t *testing.T) {
	types := map[string]map[string]any{
		"v1":      {class: &resourcev1.DeviceClass{}, immediateClaim: &resourcev1.ResourceClaim{}, claimTemplate: &resourcev1.ResourceClaimTemplate{}},
		"v1beta2": {class: &resourcev1beta2.DeviceClass{}, immediateClaim: &resourcev1beta2.ResourceClaim{}, claimTemplate: &resourcev1beta2.ResourceClaimTemplate{}},
		"v1beta1": {class: &resourcev1beta1.DeviceClass{}, immediateClaim: &resourcev1beta1.ResourceClaim{}, claimTemplate: &resourcev1beta1.ResourceClaimTemplate{}},
	}
	for version, objects := range types {
		for text, into := range objects {
			got, err := Adviser{}.To(t.Context(), fromYAML(t, text), serving(version))
			if err != nil {
				t.Fatal(err)
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(got.Object, into, true); err != nil {
				t.Errorf("%s %s: %v", version, got.GetKind(), err)
			}
		}
	}
}

func TestWhatHasNoCounterpartIsRefused(t *testing.T) {
	silent := serving()
	silent.Status.Conditions = nil
	context := "{apiVersion: resource.k8s.io/v1alpha2, kind: PodSchedulingContext, metadata: {name: a, namespace: b}}"
	cases := map[string]struct {
		object  string
		cluster *clusterv1alpha1.Cluster
		want    string
	}{
		"nodes that a class restricts":       {pickyClass, serving("v1"), "suitableNodes has no counterpart: remove it"},
		"a member without any such kinds":    {plainClaim, serving(), "serves no version of resource.k8s.io"},
		"a member that has said nothing yet": {plainClaim, silent, "has not said yet which versions"},
		"a member with v1alpha3 only":        {plainClaim, serving("v1alpha3"), "serves no version of resource.k8s.io"},
		"a scheduling context":               {context, serving("v1"), "PodSchedulingContext has no counterpart"},
		"a claim that an override broke": {
			"{apiVersion: resource.k8s.io/v1alpha2, kind: ResourceClaim, metadata: {name: a, namespace: b}, spec: {resourceClassName: 7}}",
			serving("v1"), "ResourceClaim a cannot become a ResourceClaim of v1: it cannot be read",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Adviser{}.To(t.Context(), fromYAML(t, c.object), c.cluster)
			if err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
				t.Errorf("To() = %v, %v, want an error with %q", got, err, c.want)
			}
		})
	}
}

func TestAClusterThatChangesWhatItServesGetsOtherObjects(t *testing.T) {
	cases := map[string]struct {
		before, after *clusterv1alpha1.Cluster
		want          int
	}{
		"nothing new":                 {serving("v1"), serving("v1"), 0},
		"another group version":       {serving("v1"), serving("v1", "v1beta1"), 0},
		"a better one":                {serving("v1beta1"), serving("v1beta1", "v1"), 3},
		"the old model is gone":       {serving("v1alpha2"), serving("v1"), 10},
		"it says for the first time":  {&clusterv1alpha1.Cluster{}, serving("v1"), 3},
		"it says that it serves none": {&clusterv1alpha1.Cluster{}, serving(), 3},
	}
	for name, c := range cases {
		if got := (Adviser{}).Affected(c.before, c.after); len(got) != c.want {
			t.Errorf("%s: Affected() = %v, want %d kinds", name, got, c.want)
		}
	}
}
