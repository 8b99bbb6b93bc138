package ssa

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConflictsIn(t *testing.T) {
	conflicting := apierrors.NewApplyConflict([]metav1.StatusCause{
		{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl-edit" using v1 at 2026-01-01T00:00:00Z`, Field: ".data.k"},
		{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "hpa" with subresource "scale" using apps/v1`, Field: ".spec.replicas"},
		{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "hpa" with subresource "scale" using apps/v1`, Field: ".spec.replicas"},
	}, "Apply failed with 3 conflicts")
	tests := map[string]struct {
		reason string
		err    error
		want   []Conflict
	}{
		"Conflict": {"manager and path of each, once", fmt.Errorf("applying: %w", conflicting),
			[]Conflict{{".data.k", "kubectl-edit"}, {".spec.replicas", "hpa"}}},
		"StaleVersion": {"a changed object is no conflict of fields", apierrors.NewConflict(metav1.SchemeGroupVersion.WithResource("x").GroupResource(), "a", errors.New("modified")), nil},
		"Other":        {"any other failure", errors.New("no route to host"), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ConflictsIn(tc.err)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMisfitsAreLeftOut(t *testing.T) {
	const deployment = `
spec:
  novel: 1
  template: {spec: {containers: [{name: c, sparkle: true, env: [{name: A, value: first}, {name: B}, {name: A, value: last}]}]}}
`
	tests := map[string]struct {
		reason  string
		message string
		want    string // what is left; empty: nothing can be done
		removed []removal
	}{
		"OneField": {
			"one unknown field stands behind the object's name",
			"failed to create typed patch object (shop/a; apps/v1, Kind=Deployment): .spec.novel: field not declared in schema",
			`{spec: {template: {spec: {containers: [{name: c, sparkle: true, env: [{name: A, value: first}, {name: B}, {name: A, value: last}]}]}}}}`,
			[]removal{{".spec.novel", "/spec/novel"}},
		},
		"SeveralFields": {
			"several stand in lines",
			"failed to create typed patch object (shop/a; apps/v1, Kind=Deployment): errors:\n  .spec.novel: field not declared in schema\n" +
				`  .spec.template.spec.containers[name="c"].sparkle: field not declared in schema`,
			`{spec: {template: {spec: {containers: [{name: c, env: [{name: A, value: first}, {name: B}, {name: A, value: last}]}]}}}}`,
			[]removal{{".spec.novel", "/spec/novel"}, {`.spec.template.spec.containers[name="c"].sparkle`, `/spec/template/spec/containers[name="c"]/sparkle`}},
		},
		"Duplicate": {
			"of items of one key the last has effect",
			`failed to create typed patch object (shop/a; apps/v1, Kind=Deployment): .spec.template.spec.containers[name="c"].env: duplicate entries for key [name="A"]`,
			`{spec: {novel: 1, template: {spec: {containers: [{name: c, sparkle: true, env: [{name: B}, {name: A, value: last}]}]}}}}`,
			[]removal{{Field: `.spec.template.spec.containers[name="c"].env[name="A"]`}},
		},
		"NotThere":  {"a path that is not in the object", "failed to create typed patch object (a; v1, Kind=X): .spec.other: field not declared in schema", "", nil},
		"Elsewhere": {"a complaint about something else", `admission webhook denied: .spec.novel: field not declared in schema`, "", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj := object(t, deployment)
			removed := UnknownFieldsIn(errors.New(tc.message)).Fit(obj)
			if diff := cmp.Diff(tc.removed, removed, cmp.AllowUnexported(removal{})); diff != "" {
				t.Errorf("%s: removed -want +got:\n%s", tc.reason, diff)
			}
			want := tc.want
			if want == "" {
				want = deployment
			}
			if diff := cmp.Diff(decode(t, want), obj.Object); diff != "" {
				t.Errorf("%s: left -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
