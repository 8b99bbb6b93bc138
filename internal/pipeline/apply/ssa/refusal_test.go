package ssa

import (
	stdcmp "cmp"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

// TestDropTaken: a node port that a member refuses is left out by its number, whatever its position.
func TestDropTaken(t *testing.T) {
	invalid := func(name string, value int, detail string) error {
		return fmt.Errorf("applying: %w", apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", field.ErrorList{
			field.Invalid(field.NewPath("spec").Child(name), value, detail)}))
	}
	const service = `{apiVersion: v1, kind: Service, spec: {healthCheckNodePort: 30009, ports: [{port: 80, nodePort: 30001}, {port: 81, nodePort: 30002}, {port: 81, protocol: UDP, nodePort: 30002}]}}`
	const allocated = "provided port is already allocated"
	tests := map[string]struct {
		err   error
		left  string // empty: nothing is left out
		taken []TakenPort
	}{
		"another Service has it": {invalid("ports[5].nodePort", 30002, allocated),
			`{apiVersion: v1, kind: Service, spec: {healthCheckNodePort: 30009, ports: [{port: 80, nodePort: 30001}, {port: 81}, {port: 81, protocol: UDP}]}}`,
			[]TakenPort{{"30002", allocated}}},
		"another range": {invalid("ports[0].nodePort", 30001, "provided port is not in the valid range. The range of valid ports is 31000-31010"),
			`{apiVersion: v1, kind: Service, spec: {healthCheckNodePort: 30009, ports: [{port: 80}, {port: 81, nodePort: 30002}, {port: 81, protocol: UDP, nodePort: 30002}]}}`,
			[]TakenPort{{"30001", "provided port is not in the valid range. The range of valid ports is 31000-31010"}}},
		"that of the health check": {apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort 30009: %s", allocated)),
			`{apiVersion: v1, kind: Service, spec: {ports: [{port: 80, nodePort: 30001}, {port: 81, nodePort: 30002}, {port: 81, protocol: UDP, nodePort: 30002}]}}`, nil},
		"a port that is not in it": {invalid("ports[0].nodePort", 30003, allocated), "", nil},
		"another field":            {invalid("clusterIPs", 30001, allocated), "", nil},
		"another complaint":        {invalid("ports[0].nodePort", 30001, "may not be used when `type` is 'ClusterIP'"), "", nil},
		"no answer":                {errors.New(allocated), "", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj := object(t, service)
			taken, dropped := DropTaken(obj, tc.err)
			if diff := cmp.Diff(tc.taken, taken); diff != "" || dropped != (tc.left != "") {
				t.Errorf("dropped %v, taken -want +got:\n%s", dropped, diff)
			}
			if diff := cmp.Diff(decode(t, stdcmp.Or(tc.left, service)), obj.Object); diff != "" {
				t.Errorf("left -want +got:\n%s", diff)
			}
		})
	}
	if _, dropped := DropTaken(object(t, "{apiVersion: example.com/v1, kind: Service, spec: {ports: [{nodePort: 30001}]}}"), invalid("ports[0].nodePort", 30001, allocated)); dropped {
		t.Error("a port of another kind was dropped")
	}
}
