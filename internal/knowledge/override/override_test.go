package override_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  replicas: 2
  template:
    spec:
      initContainers:
      - {name: prepare, image: "busybox:1", args: [wait]}
      containers:
      - {name: web, image: "nginx:1.27", command: [nginx], args: [-g, daemon off]}
      - {name: side, image: "r.io/side@sha256:0123456789abcdef0123456789abcdef"}
`

const cronJob = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop}
spec:
  jobTemplate:
    spec:
      template:
        spec:
          initContainers: [{name: prepare, image: "busybox:1"}]
          containers: [{name: main, image: "quay.io/org/job:1"}]
`

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: shop}
spec:
  initContainers: [{name: prepare, image: "busybox:1"}]
  containers: [{name: main, image: "nginx:1"}]
  ephemeralContainers: [{name: debug, image: "debug:1"}]
`

const configMap = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data:
  app.json: '{"limit": 12345678901234567890, "tags": ["a"]}'
  app.yaml: |
    # how the shop behaves
    limit: 10000000 # per day
    mode: 0750
    regions: {eu: {on: yes}}
    steps:
    - a
  many.yaml: |
    a: 1
    ---
    b: 2
  alias.yaml: |
    base: &b {a: 1}
    eu: *b
  plain: just text
`

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	converted, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(converted); err != nil {
		t.Fatal(err)
	}
	return u
}

func raw(text string) apiextensionsv1.JSON { return apiextensionsv1.JSON{Raw: []byte(text)} }

func member(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "gold"}},
		Spec:       clusterv1alpha1.ClusterSpec{Provider: "acme", Region: "eu", Zones: []string{"eu-1", "eu-2"}},
	}
}

// everywhere is a ClusterOverridePolicy with one rule for every object and cluster.
func everywhere(name string, o policyv1alpha1.Overriders) *policyv1alpha1.ClusterOverridePolicy {
	return &policyv1alpha1.ClusterOverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: o}}},
	}
}

func inNamespace(namespace, name string, o policyv1alpha1.Overriders) *policyv1alpha1.OverridePolicy {
	return &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       everywhere(name, o).Spec,
	}
}

func plaintext(path string, operator policyv1alpha1.OverriderOperator, value string) policyv1alpha1.Overriders {
	return policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{Path: path, Operator: operator, Value: raw(value)}}}
}

const (
	add     = policyv1alpha1.OverriderOpAdd
	remove  = policyv1alpha1.OverriderOpRemove
	replace = policyv1alpha1.OverriderOpReplace
)

func TestOverriders(t *testing.T) {
	cases := map[string]struct {
		reason string
		object string
		edits  policyv1alpha1.Overriders
		want   map[string]any // Values by JSON-like path, nil for "not there".
	}{
		"ImageOfAllContainers": {
			reason: "without a predicate the image of every container and init container changes",
			object: deployment,
			edits: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{
				{Component: policyv1alpha1.Registry, Operator: replace, Value: "mirror.example:5000"},
			}},
			want: map[string]any{
				"spec.template.spec.containers.0.image":     "mirror.example:5000/nginx:1.27",
				"spec.template.spec.containers.1.image":     "mirror.example:5000/side@sha256:0123456789abcdef0123456789abcdef",
				"spec.template.spec.initContainers.0.image": "mirror.example:5000/busybox:1",
			},
		},
		"ImageOfCronJob": {
			reason: "the pod of a CronJob is that of its Jobs",
			object: cronJob,
			edits: policyv1alpha1.Overriders{
				ImageOverrider: []policyv1alpha1.ImageOverrider{{Component: policyv1alpha1.Tag, Operator: replace, Value: "2"}},
				ArgsOverrider:  []policyv1alpha1.CommandArgsOverrider{{ContainerName: "main", Operator: add, Value: []string{"-q"}}},
			},
			want: map[string]any{
				"spec.jobTemplate.spec.template.spec.containers.0.image":     "quay.io/org/job:2",
				"spec.jobTemplate.spec.template.spec.containers.0.args":      []any{"-q"},
				"spec.jobTemplate.spec.template.spec.initContainers.0.image": "busybox:2",
			},
		},
		"ImageOfPod": {
			reason: "the container that a person debugs with is not of the template",
			object: pod,
			edits: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{
				{Component: policyv1alpha1.Tag, Operator: replace, Value: "2"},
			}},
			want: map[string]any{
				"spec.containers.0.image": "nginx:2", "spec.initContainers.0.image": "busybox:2", "spec.ephemeralContainers.0.image": "debug:1",
			},
		},
		"ImageAtPredicate": {
			reason: "a predicate reaches init containers and leaves the others alone",
			object: deployment,
			edits: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
				Predicate: &policyv1alpha1.ImagePredicate{Path: "/spec/template/spec/initContainers/0/image"},
				Component: policyv1alpha1.Tag, Operator: add, Value: "-musl",
			}}},
			want: map[string]any{
				"spec.template.spec.initContainers.0.image": "busybox:1-musl",
				"spec.template.spec.containers.0.image":     "nginx:1.27",
			},
		},
		"ImageOfKindWithoutPods": {
			reason: "a ConfigMap has no containers: nothing to do and no error",
			object: configMap,
			edits: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{
				{Component: policyv1alpha1.Tag, Operator: replace, Value: "2"},
			}},
			want: map[string]any{"data.plain": "just text"},
		},
		"CommandAndArgs": {
			reason: "add appends, remove deletes equal items, only in the named container",
			object: deployment,
			edits: policyv1alpha1.Overriders{
				CommandOverrider: []policyv1alpha1.CommandArgsOverrider{{ContainerName: "side", Operator: add, Value: []string{"run"}}},
				ArgsOverrider: []policyv1alpha1.CommandArgsOverrider{
					{ContainerName: "web", Operator: remove, Value: []string{"-g", "not there"}},
					{ContainerName: "web", Operator: add, Value: []string{"-q"}},
					{ContainerName: "prepare", Operator: remove, Value: []string{"wait"}},
				},
			},
			want: map[string]any{
				"spec.template.spec.containers.0.command":  []any{"nginx"},
				"spec.template.spec.containers.0.args":     []any{"daemon off", "-q"},
				"spec.template.spec.containers.1.command":  []any{"run"},
				"spec.template.spec.initContainers.0.args": nil,
			},
		},
		"LabelsAndAnnotations": {
			reason: "replace and remove touch only keys that exist; add makes the map",
			object: deployment,
			edits: policyv1alpha1.Overriders{
				LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
					{Operator: replace, Value: map[string]string{"app": "shop", "absent": "x"}},
					{Operator: add, Value: map[string]string{"env": "eu"}},
				},
				AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
					{Operator: remove, Value: map[string]string{"absent": ""}},
					{Operator: add, Value: map[string]string{"note": "n"}},
				},
			},
			want: map[string]any{
				"metadata.labels":      map[string]any{"app": "shop", "env": "eu"},
				"metadata.annotations": map[string]any{"note": "n"},
			},
		},
		"JSONField": {
			reason: "numbers in a document keep all their digits",
			object: configMap,
			edits: policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{
				FieldPath: "/data/app.json",
				JSON: []policyv1alpha1.JSONPatchOperation{
					{SubPath: "/tags/-", Operator: add, Value: raw(`"b<c"`)},
					{SubPath: "/tags/0", Operator: remove},
				},
			}}},
			want: map[string]any{"data.app\\.json": `{"limit":12345678901234567890,"tags":["b<c"]}`},
		},
		"YAMLField": {
			reason: "what is not edited stays as it is written, comments included",
			object: configMap,
			edits: policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{
				FieldPath: "/data/app.yaml",
				YAML: []policyv1alpha1.YAMLPatchOperation{
					{SubPath: "/steps/-", Operator: add, Value: raw(`"yes"`)},
					{SubPath: "/steps/0", Operator: remove},
					{SubPath: "/regions/us", Operator: add, Value: raw("{}")},
				},
			}}},
			want: map[string]any{"data.app\\.yaml": "# how the shop behaves\nlimit: 10000000 # per day\nmode: 0750\n" +
				"regions: {eu: {on: yes}, us: {}}\nsteps:\n  - \"yes\"\n"},
		},
		"YAMLAliases": {
			reason: "an edit behind an alias shows in one place only",
			object: configMap,
			edits: field("/data/alias.yaml", nil, []policyv1alpha1.YAMLPatchOperation{
				{SubPath: "/eu/a", Operator: replace, Value: raw("2")},
			}),
			want: map[string]any{"data.alias\\.yaml": "base:\n  a: 1\neu:\n  a: 2\n"},
		},
		"Plaintext": {
			reason: "paths with escapes and list positions",
			object: deployment,
			edits: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{
				{Path: "/spec/replicas", Operator: replace, Value: raw("7")},
				{Path: "/metadata/labels/a~1b~0c", Operator: add, Value: raw(`"x"`)},
				{Path: "/spec/template/spec/containers/1", Operator: remove},
				{Path: "/spec/template/spec/containers/0", Operator: add, Value: raw(`{"name":"first"}`)},
			}},
			want: map[string]any{
				"spec.replicas":                        int64(7),
				"metadata.labels":                      map[string]any{"app": "web", "a/b~c": "x"},
				"spec.template.spec.containers.0":      map[string]any{"name": "first"},
				"spec.template.spec.containers.1.name": "web",
			},
		},
		"OrderInsideARule": {
			reason: "plaintext runs last, so it wins over the image overrider",
			object: deployment,
			edits: policyv1alpha1.Overriders{
				Plaintext: []policyv1alpha1.PlaintextOverrider{
					{Path: "/spec/template/spec/containers/0/image", Operator: replace, Value: raw(`"final:1"`)},
				},
				ImageOverrider: []policyv1alpha1.ImageOverrider{{Component: policyv1alpha1.Tag, Operator: replace, Value: "2"}},
			},
			want: map[string]any{"spec.template.spec.containers.0.image": "final:1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template := object(t, tc.object)
			before := template.DeepCopy()
			result, err := override.Apply(t.Context(), template, member("m1"), []policyv1alpha1.Override{everywhere("p", tc.edits)})
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			for path, want := range tc.want {
				if diff := cmp.Diff(want, at(result.Object.Object, path)); diff != "" {
					t.Errorf("%s: %s (-want +got):\n%s", tc.reason, path, diff)
				}
			}
			if diff := cmp.Diff(before, template); diff != "" {
				t.Errorf("the given object was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImpossibleEdits(t *testing.T) {
	cases := map[string]struct {
		object string
		edits  policyv1alpha1.Overriders
		want   []string // Parts of the message.
	}{
		"RemoveMissing":   {deployment, plaintext("/spec/paused", remove, ""), []string{"plaintext[0]", "/spec/paused", "nothing at"}},
		"ReplaceMissing":  {deployment, plaintext("/spec/paused", replace, "true"), []string{"nothing at /spec/paused"}},
		"AddBelowMissing": {deployment, plaintext("/spec/a/b", add, "1"), []string{"nothing at /spec/a"}},
		"BelowAScalar":    {deployment, plaintext("/spec/replicas/x", add, "1"), []string{"/spec/replicas holds neither"}},
		"NoSuchItem":      {deployment, plaintext("/spec/template/spec/containers/2", remove, ""), []string{"no item 2"}},
		"NoIndex":         {deployment, plaintext("/spec/template/spec/containers/01", remove, ""), []string{"no list index"}},
		"WholeObject":     {deployment, plaintext("", replace, "{}"), []string{"not the whole object"}},
		"NoPointer":       {deployment, plaintext("spec", remove, ""), []string{"does not start with a slash"}},
		"BadEscape":       {deployment, plaintext("/a~2", remove, ""), []string{"~0 nor ~1"}},
		"LabelOfNumber":   {deployment, plaintext("/metadata/labels/tier", add, "5"), []string{"path /metadata/labels/tier", "metadata.labels[tier] is no text"}},
		"NoAnnotations":   {deployment, plaintext("/metadata/annotations", add, "[]"), []string{"annotations are no map"}},
		"NameTaken":       {deployment, plaintext("/metadata/name", remove, ""), []string{"without metadata.name"}},
		"KindTaken":       {deployment, plaintext("/kind", replace, "null"), []string{"without kind"}},
		"NoImageThere": {deployment, policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
			Predicate: &policyv1alpha1.ImagePredicate{Path: "/spec/replicas"}, Component: policyv1alpha1.Tag, Operator: replace, Value: "1",
		}}}, []string{"imageOverrider[0]", "path /spec/replicas", "no image"}},
		"ImageMadeInvalid": {deployment, policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
			Component: policyv1alpha1.Tag, Operator: replace, Value: "not a tag",
		}}}, []string{"/spec/template/spec/containers/0/image", "invalid tag"}},
		"NoDocument": {configMap, field("/data/absent", nil, nil), []string{"fieldOverrider[0]", "path /data/absent"}},
		"MissingInYAML": {configMap, field("/data/app.yaml", nil, []policyv1alpha1.YAMLPatchOperation{{SubPath: "/regions/us", Operator: replace}}),
			[]string{"path /data/app.yaml#/regions/us", "nothing at /regions/us"}},
		"NotJSON": {configMap, field("/data/plain", []policyv1alpha1.JSONPatchOperation{{SubPath: "/a", Operator: add}}, nil),
			[]string{"reading the JSON document"}},
		"MissingInDocument": {configMap, field("/data/app.json", []policyv1alpha1.JSONPatchOperation{{SubPath: "/a", Operator: remove}}, nil),
			[]string{"path /data/app.json#/a", "nothing at /a"}},
		"SeveralDocuments": {configMap, field("/data/many.yaml", nil, []policyv1alpha1.YAMLPatchOperation{{SubPath: "/a", Operator: remove}}),
			[]string{"more than one YAML document"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			policy := inNamespace("shop", "edits", tc.edits)
			_, err := override.Apply(t.Context(), object(t, tc.object), member("m1"), []policyv1alpha1.Override{policy})
			var typed *override.Error
			if !errors.As(err, &typed) {
				t.Fatalf("got %v, want an *override.Error", err)
			}
			for _, part := range append(tc.want, `"shop/edits"`, "rule 0", `cluster "m1"`) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not mention %q", err, part)
				}
			}
		})
	}
}

func field(path string, j []policyv1alpha1.JSONPatchOperation, y []policyv1alpha1.YAMLPatchOperation) policyv1alpha1.Overriders {
	return policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: path, JSON: j, YAML: y}}}
}

func TestOrderAcrossPolicies(t *testing.T) {
	named := policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	labelled := policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	tag := func(text string) policyv1alpha1.Overriders {
		return policyv1alpha1.Overriders{AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
			{Operator: add, Value: map[string]string{"last": text}}}}
	}
	clusterByName := everywhere("a-name", tag("a-name"))
	clusterByName.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{named}
	clusterByLabel := everywhere("b-label", tag("b-label"))
	clusterByLabel.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{labelled}
	both := everywhere("c-both", tag("c-both"))
	both.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{labelled, named}
	unrelated := everywhere("other", tag("other"))
	unrelated.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Secret"}}
	byName := inNamespace("shop", "a-name", tag("ns-name"))
	byName.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{named}

	result, err := override.Apply(t.Context(), object(t, deployment), member("m1"), []policyv1alpha1.Override{
		byName, both, clusterByName, inNamespace("shop", "z-any", tag("ns-any")), clusterByLabel, unrelated,
		everywhere("z-any", tag("z-any")), everywhere("y-any", tag("y-any")), inNamespace("elsewhere", "any", tag("no")),
	})
	if err != nil {
		t.Fatal(err)
	}
	names := func(applied []override.Applied) (out []string) {
		for _, a := range applied {
			out = append(out, a.PolicyName)
		}
		return out
	}
	if diff := cmp.Diff([]string{"y-any", "z-any", "b-label", "a-name", "c-both"}, names(result.Cluster)); diff != "" {
		t.Errorf("cluster-scoped policies: any, label, name, then by name (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"z-any", "a-name"}, names(result.Namespace)); diff != "" {
		t.Errorf("namespaced policies of this namespace only (-want +got):\n%s", diff)
	}
	if got := result.Object.GetAnnotations()["last"]; got != "ns-name" {
		t.Errorf("the last edit is %q, want that of the namespaced policy that names the object", got)
	}
	if len(result.Verdicts) != 9 {
		t.Errorf("got %d verdicts, want one for each of the nine rules", len(result.Verdicts))
	}
}

func TestClusterSelection(t *testing.T) {
	expression := func(key string, operator corev1.NodeSelectorOperator, values ...string) *policyv1alpha1.ClusterAffinity {
		return &policyv1alpha1.ClusterAffinity{FieldSelector: &policyv1alpha1.FieldSelector{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}}
	}
	const in, notIn = corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn
	cases := map[string]struct {
		affinity *policyv1alpha1.ClusterAffinity
		want     bool
		fails    bool
	}{
		"no affinity is every cluster": {affinity: nil, want: true},
		"empty affinity is every too":  {affinity: &policyv1alpha1.ClusterAffinity{}, want: true},
		"named":                        {affinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m2", "m1"}}, want: true},
		"not named":                    {affinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m2"}}},
		"excluded beats named":         {affinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m1"}, ExcludeClusters: []string{"m1"}}},
		"labels": {affinity: &policyv1alpha1.ClusterAffinity{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}, want: true},
		"labels and names have to agree": {affinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m2"},
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}},
		"other labels": {affinity: &policyv1alpha1.ClusterAffinity{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "tin"}}}},
		"provider in":        {affinity: expression("provider", in, "acme", "x"), want: true},
		"provider not in":    {affinity: expression("provider", notIn, "acme")},
		"region in":          {affinity: expression("region", in, "us")},
		"all zones in":       {affinity: expression("zone", in, "eu-1", "eu-2", "eu-3"), want: true},
		"only some zones in": {affinity: expression("zone", in, "eu-1"), want: true},
		"other zones in":     {affinity: expression("zone", in, "us-1", "eu-3")},
		"no zone in":         {affinity: expression("zone", notIn, "us-1"), want: true},
		"one zone is in":     {affinity: expression("zone", notIn, "eu-2")},
		"unknown key":        {affinity: expression("rack", in, "1"), fails: true},
		"unknown operator":   {affinity: expression("region", corev1.NodeSelectorOpExists), fails: true},
		"bad label selector": {affinity: &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Maybe"}}}}, fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := override.SelectsCluster(tc.affinity, member("m1"))
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %v, %v; want %v, error %v", got, err, tc.want, tc.fails)
			}
		})
	}
}

func TestDeprecatedForm(t *testing.T) {
	policy := &policyv1alpha1.ClusterOverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "old"},
		Spec: policyv1alpha1.OverrideSpec{
			//lint:ignore SA1019 This is the form under test.
			TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m1"}},
			//lint:ignore SA1019 This is the form under test.
			Overriders: plaintext("/spec/replicas", replace, "9"),
		},
	}
	for cluster, want := range map[string]int64{"m1": 9, "m2": 2} {
		result, err := override.Apply(t.Context(), object(t, deployment), member(cluster), []policyv1alpha1.Override{policy})
		if err != nil {
			t.Fatal(err)
		}
		if got := at(result.Object.Object, "spec.replicas"); got != want {
			t.Errorf("replicas in %s are %v, want %d", cluster, got, want)
		}
	}
}

func TestUntouchedObjectIsNotCopied(t *testing.T) {
	template := object(t, deployment)
	result, err := override.Apply(t.Context(), template, member("m1"), nil)
	if err != nil || result.Object != template {
		t.Errorf("got %p, %v; want the object itself, %p", result.Object, err, template)
	}
}

// at walks a path of field names and list positions separated by periods; "\." is a period inside a name.
func at(value any, path string) any {
	for _, step := range strings.Split(strings.ReplaceAll(path, `\.`, "\x00"), ".") {
		step = strings.ReplaceAll(step, "\x00", ".")
		switch container := value.(type) {
		case map[string]any:
			value = container[step]
		case []any:
			i := int(step[0] - '0')
			if i >= len(container) {
				return nil
			}
			value = container[i]
		default:
			return nil
		}
	}
	return value
}
