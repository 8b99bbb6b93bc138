package admission_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/flagship-k8s/flagship/internal/host/admission"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

func TestWhatStaysOnTheControlPlaneIsReported(t *testing.T) {
	const reported = "it stays on the control plane: of namespace kube-system, policies send only objects with the annotation flagship.io/propagate=true to members"
	settings := "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kube-system, name: settings}}"
	for name, tc := range map[string]struct {
		text, by    string
		update, dry bool
		want        []string
		events      int
	}{
		"in a namespace of Kubernetes":    {text: settings, want: []string{reported}, events: 1},
		"a dry run":                       {text: settings, dry: true, want: []string{reported}},
		"an update":                       {text: settings, update: true},
		"by the control plane":            {text: settings, by: user.APIServerUser},
		"elsewhere":                       {text: "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: settings}}"},
		"with the annotation":             {text: "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kube-system, name: settings, annotations: {flagship.io/propagate: 'true'}}}"},
		"a kind that is never a template": {text: "{apiVersion: own.io/v1, kind: Own, metadata: {namespace: kube-system, name: a}}"},
		"a bootstrap token":               {text: "{apiVersion: v1, kind: Secret, metadata: {namespace: kube-system, name: bootstrap-token-abcdef}}"},
	} {
		t.Run(name, func(t *testing.T) {
			var got recorder
			var published []events.Event
			plugin := admission.New(admission.Config{
				Never: func(kind schema.GroupVersionKind, namespace, _ string) bool {
					return kind.Group == "own.io" || namespace == "kube-system"
				},
				Publish: func(e events.Event) { published = append(published, e) },
			})
			o, operation := object(t, tc.text), kadmission.Create
			var old runtime.Object
			if tc.update {
				old, operation = o, kadmission.Update
			}
			err := plugin.Validate(warning.WithWarningRecorder(t.Context(), &got), kadmission.NewAttributesRecord(o, old, o.GroupVersionKind(), o.GetNamespace(), o.GetName(),
				schema.GroupVersionResource{}, "", operation, nil, tc.dry, &user.DefaultInfo{Name: tc.by}), nil)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("%v; got %q, want %q", err, got, tc.want)
			}
			if len(published) != tc.events || tc.events > 0 && (published[0].Object.Name != "settings" || published[0].Message != reported) {
				t.Errorf("published %+v", published)
			}
		})
	}
}
