package conceal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestConceal(t *testing.T) {
	const (
		deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: [{name: c, env: [{name: PASSWORD, value: "hunter2!"}]}]}}}}`
		secret     = `{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {password: aHVudGVyMiE=}}`
	)
	invalid := func(kind string, errs ...*field.Error) error {
		return fmt.Errorf("applying it: %w", apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: kind}, "web", errs))
	}
	spec := map[string]any{"template": map[string]any{"env": []any{map[string]any{"name": "PASSWORD", "value": "hunter2!"}}}}
	tests := map[string]struct {
		reason string
		object string
		err    error
		want   string
	}{
		"Text": {
			"a text that is a value is left out; field and rule stay", deployment,
			invalid("Deployment", field.Invalid(field.NewPath("spec", "name"), `hunter2! "quoted": more`, "must be lowercase")),
			`applying it: Deployment.apps "web" is invalid: spec.name: Invalid value: must be lowercase`,
		},
		"Object": {
			"an object that is a value is left out", deployment,
			invalid("Deployment", field.Invalid(field.NewPath("spec"), spec, "field is immutable")),
			`applying it: Deployment.apps "web" is invalid: spec: Invalid value: field is immutable`,
		},
		"Several": {
			"each cause is kept", deployment,
			invalid("Deployment", field.Required(field.NewPath("spec", "a"), "say what"), field.NotSupported(field.NewPath("spec", "b"), "hunter2!", []string{"x", "y"})),
			`applying it: Deployment.apps "web" is invalid: spec.a: Required value: say what, spec.b: Unsupported value: supported values: "x", "y"`,
		},
		"Difference": {
			"a difference of objects below the first line is left out", deployment,
			invalid("Pod", field.Forbidden(field.NewPath("spec"), "pod updates may not change fields other than these\n core.PodSpec{ Env: \"hunter2!\" }")),
			`applying it: Pod.apps "web" is invalid: spec: Forbidden: pod updates may not change fields other than these`,
		},
		"Number": {
			"a number is left out", deployment,
			invalid("Deployment", field.Invalid(field.NewPath("spec", "replicas"), -1, "must be greater than or equal to 0")),
			`applying it: Deployment.apps "web" is invalid: spec.replicas: Invalid value: must be greater than or equal to 0`,
		},
		"Secret": {
			"of a Secret the rule is left out, too: rules may quote", secret,
			invalid("Secret", field.Invalid(field.NewPath("data").Key("k"), "x", `"hunter" is wrong`)),
			`applying it: Secret.apps "web" is invalid: data[k]: Invalid value`,
		},
		"Webhook": {
			"a value of a Secret is left out of any text, in plain and in base64", secret,
			fmt.Errorf("applying it: %w", apierrors.NewBadRequest(`denied the request: hunter2! (aHVudGVyMiE=) is too weak`)),
			`applying it: denied the request: (hidden) ((hidden)) is too weak`,
		},
		"AdmissionPolicy": {
			"the words of an admission policy stay, without the value", secret,
			&apierrors.StatusError{ErrStatus: metav1.Status{
				Reason: metav1.StatusReasonInvalid, Message: "policy denied the request: hunter2! is too weak",
				Details: &metav1.StatusDetails{Name: "s", Kind: "secrets", Causes: []metav1.StatusCause{{Message: "policy denied the request: hunter2! is too weak"}}},
			}},
			`secrets "s" is invalid: policy denied the request: (hidden) is too weak`,
		},
		"Environment": {
			"and that of a variable", deployment,
			errors.New(`refused: PASSWORD is hunter2!`),
			`refused: PASSWORD is (hidden)`,
		},
		"Harmless": {
			"what holds no value stays as it is", secret,
			apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no right")),
			`secrets "s" is forbidden: no right`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Values(tc.err, objectOf(t, tc.object))
			if got.Error() != tc.want {
				t.Errorf("%s:\n got %s\nwant %s", tc.reason, got, tc.want)
			}
			if !errors.Is(got, tc.err) {
				t.Error("the kind of the failure is lost")
			}
		})
	}
	if Values(nil, objectOf(t, secret)) != nil {
		t.Error("no failure becomes one")
	}
}

// FuzzConceal: whatever value a validation error names, it is not in the text.
func FuzzConceal(f *testing.F) {
	for _, value := range []string{"plain-value", `a": "b`, "with: colon and: more", "line\nbreak", "`tick`", "{\"a\": 1}", "\x00\xff"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if len(value) < 6 || strings.Contains("spec.x Invalid value must be right is invalid: ConfigMap", value) {
			t.Skip("part of every message")
		}
		err := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "n", field.ErrorList{field.Invalid(field.NewPath("spec", "x"), value, "must be right")})
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		if got := Values(err, obj).Error(); strings.Contains(got, value) {
			t.Errorf("%q is in %q", value, got)
		}
	})
}
