package admission_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/flagship-k8s/flagship/internal/host/admission"
)

// TestADerivedObjectIsReplaced: only a real creation by others than the control plane withdraws what was derived.
func TestADerivedObjectIsReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		user, object, subresource string
		dry                       bool
		fails                     error
		want                      int
	}{
		"a user":               {user: "kim", object: "web", want: 1},
		"a dry run":            {user: "kim", object: "web", dry: true},
		"the control plane":    {user: user.APIServerUser, object: "web"},
		"a generated name":     {user: "kim"},
		"a subresource":        {user: "kim", object: "web", subresource: "status"},
		"it cannot be deleted": {user: "kim", object: "web", fails: errors.New("no leader"), want: 1},
	} {
		calls := 0
		plugin := admission.NewDerived(func(_ context.Context, kind schema.GroupVersionKind, namespace, name string) error {
			if calls++; kind.Kind != "Service" || namespace != "shop" || name != "web" {
				t.Errorf("%s: it withdraws %s %s/%s", t.Name(), kind, namespace, name)
			}
			return tc.fails
		})
		kind, resource := corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithResource("services")
		err := plugin.Validate(t.Context(), kadmission.NewAttributesRecord(&corev1.Service{}, nil, kind, "shop", tc.object, resource, tc.subresource,
			kadmission.Create, nil, tc.dry, &user.DefaultInfo{Name: tc.user}), nil)
		if calls != tc.want || (err != nil) != (tc.fails != nil) {
			t.Errorf("%s: withdrawn %d times, want %d, with %v", name, calls, tc.want, err)
		}
	}
}

// TestDeletionsThatWaitWarn: also one of a collection, and a namespace.
func TestDeletionsThatWaitWarn(t *testing.T) {
	waits := func(_ context.Context, kind schema.GroupKind, _, name string, tried bool) []string {
		if name != "web" || tried {
			return nil
		}
		return map[string][]string{"ConfigMap": {"east", "west"}, "Namespace": {"east"}}[kind.Kind]
	}
	plugin := admission.NewDeletions(nil, nil, waits)
	for name, tc := range map[string]struct {
		kind, name string
		old        *corev1.ConfigMap
		dry        bool
		want       int
	}{
		"two clusters":       {kind: "ConfigMap", name: "web", want: 2},
		"of a collection":    {kind: "ConfigMap", old: &corev1.ConfigMap{}, want: 2},
		"a namespace":        {kind: "Namespace", name: "web", want: 1},
		"nothing waits":      {kind: "ConfigMap", name: "other"},
		"only tried":         {kind: "ConfigMap", name: "web", dry: true},
		"no object is known": {kind: "ConfigMap"},
	} {
		var got recorder
		attributes := kadmission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind(tc.kind), "shop", tc.name, schema.GroupVersionResource{}, "",
			kadmission.Delete, nil, tc.dry, &user.DefaultInfo{Name: "kim"})
		if tc.old != nil {
			tc.old.Name = "web"
			attributes = kadmission.NewAttributesRecord(nil, tc.old, corev1.SchemeGroupVersion.WithKind(tc.kind), "shop", tc.name, schema.GroupVersionResource{}, "",
				kadmission.Delete, nil, tc.dry, &user.DefaultInfo{Name: "kim"})
		}
		if err := plugin.Validate(warning.WithWarningRecorder(t.Context(), &got), attributes, nil); err != nil || len(got) != tc.want {
			t.Errorf("%s: %v with warnings %q, want %d", name, err, got, tc.want)
		}
	}
}
