package ssa

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFoldRepeats: items of one key become one item where a member runs the same with it, and are left where it does not.
func TestFoldRepeats(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"a later value replaces": {`{containers: [{name: c, env: [{name: A, value: a}, {name: B, value: b}, {name: A, value: c}, {name: C, value: $(A)}]}]}`,
			`{containers: [{name: c, env: [{name: B, value: b}, {name: A, value: c}, {name: C, value: $(A)}]}]}`},
		"three values":           {`{initContainers: [{name: c, env: [{name: A, value: a}, {name: A, value: b}, {name: A, value: c}]}]}`, `{initContainers: [{name: c, env: [{name: A, value: c}]}]}`},
		"a value refers to it":   {`{containers: [{name: c, env: [{name: A, value: a}, {name: B, value: $(A)/b}, {name: A, value: c}]}]}`, ""},
		"it refers to itself":    {`{containers: [{name: c, env: [{name: A, value: a}, {name: A, value: $(A)/c}]}]}`, ""},
		"the later may be unset": {`{containers: [{name: c, env: [{name: A, value: a}, {name: A, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}]}]}`, ""},
		"addresses":              {`{hostAliases: [{ip: 10.0.0.1, hostnames: [a]}, {ip: 10.0.0.2, hostnames: [c]}, {ip: 10.0.0.1, hostnames: [b, a]}]}`, `{hostAliases: [{ip: 10.0.0.1, hostnames: [a, b]}, {ip: 10.0.0.2, hostnames: [c]}]}`},
		"equal items":            {`{imagePullSecrets: [{name: r}, {name: r}], containers: [{name: c, ports: [{containerPort: 1}, {containerPort: 1}]}]}`, `{imagePullSecrets: [{name: r}], containers: [{name: c, ports: [{containerPort: 1}]}]}`},
		"ports of two names":     {`{containers: [{name: c, ports: [{containerPort: 1, name: a}, {containerPort: 1, name: b}]}]}`, ""},
		"a list without keys":    {`{containers: [{name: c, args: [-v, -v]}], tolerations: [{key: a}, {key: a}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, shape := range []string{
				"{apiVersion: v1, kind: Pod, spec: SPEC}", "{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: SPEC}}}",
				"{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: SPEC}}}}}",
			} {
				obj := object(t, strings.Replace(shape, "SPEC", tc.spec, 1))
				foldRepeats(obj)
				want := tc.want
				if want == "" {
					want = tc.spec
				}
				if diff := cmp.Diff(object(t, strings.Replace(shape, "SPEC", want, 1)).Object, obj.Object); diff != "" {
					t.Errorf("%s -want +got:\n%s", obj.GetKind(), diff)
				}
			}
		})
	}
	other := object(t, "{apiVersion: example.io/v1, kind: Deployment, spec: {template: {spec: {imagePullSecrets: [{name: r}, {name: r}]}}}}")
	before := other.DeepCopy()
	if foldRepeats(other); !cmp.Equal(before, other) {
		t.Errorf("another kind was changed: %v", other)
	}
}

func TestRepeated(t *testing.T) {
	refused := UnknownFieldsIn(errors.New(`failed to create typed patch object (shop/a; apps/v1, Kind=Deployment): .spec.template.spec.containers[name="c"].env: duplicate entries for key [name="A"]`))
	if err := refused.Repeated(); err == nil || !strings.HasPrefix(err.Error(), `.spec.template.spec.containers[name="c"].env has more than one item [name="A"]`) {
		t.Errorf("the error is %v", err)
	}
	if err := (unknownFields{}).Repeated(); err != nil {
		t.Errorf("nothing is repeated: %v", err)
	}
}
