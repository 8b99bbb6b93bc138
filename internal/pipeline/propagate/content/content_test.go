package content_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/content"
)

var configMap = schema.GroupKind{Kind: "ConfigMap"}

// digest is that of an object with some metadata and data.
func digest(t *testing.T, kind schema.GroupKind, meta metav1.ObjectMeta, counted bool, fields map[string]any) content.Digest {
	t.Helper()
	d, err := content.Of(kind, &meta, counted, func() (*unstructured.Unstructured, error) {
		return &unstructured.Unstructured{Object: fields}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWhatChangesADigest(t *testing.T) {
	before := metav1.ObjectMeta{Labels: map[string]string{"app": "a"}, Generation: 1, ResourceVersion: "1"}
	data := map[string]any{"data": map[string]any{"k": "v"}}
	with := func(change func(*metav1.ObjectMeta)) metav1.ObjectMeta {
		after := *before.DeepCopy()
		change(&after)
		return after
	}
	for name, tc := range map[string]struct {
		after       metav1.ObjectMeta
		data        map[string]any
		counted     bool
		user, marks bool
	}{
		"Nothing":         {after: before, data: data},
		"Data":            {after: before, data: map[string]any{"data": map[string]any{"k": "w"}}, user: true},
		"Status":          {after: before, data: map[string]any{"data": map[string]any{"k": "v"}, "status": map[string]any{"ready": true}}},
		"Label":           {after: with(func(m *metav1.ObjectMeta) { m.Labels["app"] = "b" }), data: data, user: true},
		"LabelOrNot":      {after: with(func(m *metav1.ObjectMeta) { m.Labels, m.Annotations = nil, m.Labels }), data: data, user: true},
		"Mark":            {after: with(func(m *metav1.ObjectMeta) { m.Labels["x.karmada.io/y"] = "z" }), data: data, marks: true},
		"SkipIsContent":   {after: with(func(m *metav1.ObjectMeta) { m.Labels[policyv1alpha1.NamespaceSkipAutoPropagationLabel] = "true" }), data: data, user: true},
		"Claim":           {after: with(func(m *metav1.ObjectMeta) { m.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel] = "id" }), data: data},
		"Baseline":        {after: with(func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{content.BaselineAnnotation: "x"} }), data: data},
		"ResourceVersion": {after: with(func(m *metav1.ObjectMeta) { m.ResourceVersion = "2" }), data: data},
		"Generation":      {after: with(func(m *metav1.ObjectMeta) { m.Generation = 2 }), data: data},
		"CountedData":     {after: before, data: map[string]any{"data": map[string]any{"k": "w"}}, counted: true},
		"CountedLater":    {after: with(func(m *metav1.ObjectMeta) { m.Generation = 2 }), data: data, counted: true, user: true},
	} {
		t.Run(name, func(t *testing.T) {
			was, is := digest(t, configMap, before, tc.counted, data), digest(t, configMap, tc.after, tc.counted, tc.data)
			if got := was.User != is.User; got != tc.user {
				t.Errorf("the content changed: %v, want %v", got, tc.user)
			}
			if got := was.Marks != is.Marks; got != tc.marks {
				t.Errorf("the marks changed: %v, want %v", got, tc.marks)
			}
			if is.Counted() != tc.counted {
				t.Errorf("counted is %v, want %v", is.Counted(), tc.counted)
			}
			if parsed := content.Parse(is.String()); parsed != is {
				t.Errorf("%s is parsed as %+v, want %+v", is, parsed, is)
			}
		})
	}
}

func TestASecretIsNotHashed(t *testing.T) {
	secret := schema.GroupKind{Kind: "Secret"}
	meta := metav1.ObjectMeta{ResourceVersion: "7"}
	if got := digest(t, secret, meta, false, map[string]any{"data": map[string]any{"password": "x"}}).User; got != "r7" {
		t.Errorf("the digest is %s, want the resource version", got)
	}
}

func TestAnObjectThatCannotBeRead(t *testing.T) {
	wrong := errors.New("wrong")
	_, err := content.Of(configMap, &metav1.ObjectMeta{}, true, func() (*unstructured.Unstructured, error) { return nil, wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("the error is %v, want %v", err, wrong)
	}
}

func TestUnknownDependenciesEqualNoDigest(t *testing.T) {
	d := content.Digest{User: "g1-a", Kind: "k"}
	if content.Parse(d.UnknownDependencies()) == d || content.Parse("") == d {
		t.Error("a digest without known dependencies equals one with them")
	}
}
