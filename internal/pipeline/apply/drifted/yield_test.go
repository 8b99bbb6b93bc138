package drifted

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

const ourID = "11111111-0000"

// theirs is the entry of another manager.
func theirs(fields string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: "a-person", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields)}}
}

// TestWholes: of a map or list that is owned as a whole, what is added is a difference; of any other it is not.
func TestWholes(t *testing.T) {
	for name, tc := range map[string]struct {
		wanted, live, owners string
		lost, want           []string
	}{
		"AtomicList":    {`{subjects: [{name: a}]}`, `{subjects: [{name: a}, {name: b}]}`, `{"f:subjects":{}}`, []string{"/subjects"}, []string{"/subjects"}},
		"ListWithKeys":  {`{env: [{name: a}]}`, `{env: [{name: a}, {name: b}]}`, `{"f:env":{"k:{\"name\":\"b\"}":{".":{},"f:name":{}}}}`, []string{"/env"}, nil},
		"AtomicMap":     {`{selector: {a: x}}`, `{selector: {a: x, b: y}}`, `{"f:selector":{}}`, []string{"/selector"}, []string{"/selector"}},
		"AtomicChanged": {`{selector: {a: x}}`, `{selector: {a: z}}`, `{"f:selector":{}}`, []string{"/selector"}, []string{"/selector"}},
		"MapByKey":      {`{data: {a: x}}`, `{data: {a: z, b: y}}`, `{"f:data":{"f:a":{},"f:b":{}}}`, []string{"/data"}, []string{"/data/a"}},
		"WasEmpty":      {`{podSelector: {}}`, `{podSelector: {a: x}}`, `{"f:podSelector":{}}`, []string{"/podSelector"}, []string{"/podSelector"}},
		"Same":          {`{subjects: [{name: a}]}`, `{subjects: [{name: a}]}`, `{"f:subjects":{}}`, []string{"/subjects"}, nil},
		"NoOwner":       {`{subjects: [{name: a}]}`, `{subjects: [{name: a}, {name: b}]}`, ``, []string{"/subjects"}, nil},
	} {
		c := &comparison{wanted: object(t, tc.wanted), live: object(t, tc.live), owners: func() []metav1.ManagedFieldsEntry { return theirs(tc.owners) }}
		if diff := cmp.Diff(tc.want, c.unlike(tc.lost)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	// What the member made of the value at the last apply is no difference.
	live := object(t, `{ports: [{port: 1, protocol: TCP}]}`)
	made := map[string]uint64{"/ports": ssa.ValueHash(live.Object["ports"])}
	c := &comparison{wanted: object(t, `{ports: [{port: 1}]}`), live: live, made: made, owners: func() []metav1.ManagedFieldsEntry { return theirs(`{"f:ports":{}}`) }}
	if got := c.unlike([]string{"/ports"}); got != nil {
		t.Errorf("defaults differ: %v", got)
	}
}

// TestYield: fields that are left to the member have its value where we own them, and are not sent where others do.
func TestYield(t *testing.T) {
	const manifest = `{apiVersion: v1, kind: X, metadata: {labels: {karmada.io/managed: "true"}}, data: {a: ours, b: ours}, pull: [{name: mine}], groups: [{groupName: g, replicas: 1, max: 9}]}`
	for name, tc := range map[string]struct {
		rules      Rules
		live, ours string
		// applied is what the last apply sent, "" is the manifest.
		applied, theirs string
		want            string
		added, dropped  []string
	}{
		"Nothing": {Rules{}, `{data: {a: theirs}}`, `{"f:data":{"f:a":{}}}`, "", "", manifest, nil, nil},
		"OwnedByUs": {Rules{Left: []string{"/data/a"}}, `{data: {a: theirs, b: ours}}`, `{"f:data":{"f:a":{},"f:b":{}}}`, "", "",
			`{apiVersion: v1, kind: X, metadata: {labels: {karmada.io/managed: "true"}}, data: {a: theirs, b: ours}, pull: [{name: mine}], groups: [{groupName: g, replicas: 1, max: 9}]}`, nil, nil},
		"OwnedByOthers": {Rules{Left: []string{"/data/*"}}, `{data: {a: theirs, b: ours, c: theirs}}`, `{"f:data":{"f:b":{}}}`, "", "",
			`{apiVersion: v1, kind: X, metadata: {labels: {karmada.io/managed: "true"}}, data: {b: ours}, pull: [{name: mine}], groups: [{groupName: g, replicas: 1, max: 9}]}`, nil, []string{"/data/a"}},
		"RemovedByOthers": {Rules{Left: []string{"/data/a"}}, `{data: {b: ours}}`, `{"f:data":{"f:b":{}}}`, "", "",
			`{apiVersion: v1, kind: X, metadata: {labels: {karmada.io/managed: "true"}}, data: {b: ours}, pull: [{name: mine}], groups: [{groupName: g, replicas: 1, max: 9}]}`, nil, []string{"/data/a"}},
		"OfAList": {Rules{Left: []string{"/groups/*/replicas"}}, `{groups: [{groupName: g, replicas: 5, max: 9, added: 1}]}`, `{"f:data":{"f:b":{}}}`, "", `{"f:groups":{}}`,
			`{apiVersion: v1, kind: X, metadata: {labels: {karmada.io/managed: "true"}}, data: {a: ours, b: ours}, pull: [{name: mine}], groups: [{groupName: g, replicas: 5, max: 9}]}`, nil, nil},
		"Shared": {Rules{Shared: []string{"/pull"}}, `{pull: [{name: mine}, {name: injected}]}`, `{"f:pull":{}}`, "", "",
			`{apiVersion: v1, kind: X, metadata: {labels: {karmada.io/managed: "true"}}, data: {a: ours, b: ours}, pull: [{name: mine}, {name: injected}], groups: [{groupName: g, replicas: 1, max: 9}]}`, []string{`/pull[name="injected"]`}, nil},
		"SharedAndLost": {Rules{Shared: []string{"/pull"}}, `{pull: [{name: injected}]}`, `{"f:data":{"f:a":{}}}`, "", `{"f:pull":{}}`,
			`{apiVersion: v1, kind: X, metadata: {labels: {karmada.io/managed: "true"}}, data: {a: ours, b: ours}, pull: [{name: mine}, {name: injected}], groups: [{groupName: g, replicas: 1, max: 9}]}`, []string{`/pull[name="injected"]`}, nil},
		"LeftTheTemplate": {Rules{Shared: []string{"/pull"}}, `{pull: [{name: old}]}`, `{"f:pull":{}}`, `{pull: [{name: old}]}`, "", manifest, nil, nil},
		"Marks": {Rules{Left: []string{"/metadata/labels/*", "/kind"}}, `{metadata: {labels: {karmada.io/managed: "no"}}}`, `{"f:metadata":{"f:labels":{"f:karmada.io/managed":{}}}}`, "", "",
			manifest, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, live := object(t, manifest), object(t, tc.live)
			applied := wanted
			if tc.applied != "" {
				applied = object(t, tc.applied)
			}
			ssa.SetAnnotation(live, workv1alpha1.LastAppliedAnnotation, ssa.LastApplied{Hash: "h", Footprint: ssa.FootprintOf(applied)}.String())
			live.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
				"manager": ownership.ManagerOf(ourID), "operation": "Apply", "fieldsV1": object(t, tc.ours).Object,
			}}
			r := Reporter{Episodes: drift.New(clocktesting.NewFakePassiveClock(time.Now()))}
			o := Object{Self: ownership.ControlPlane{ID: ourID}, Owners: theirs(tc.theirs)}
			y := r.Yield(t.Context(), o, wanted, live, tc.rules)
			if diff := cmp.Diff(object(t, tc.want).Object, y.Object.Object); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if diff := cmp.Diff(map[string][]string{"added": tc.added, "dropped": tc.dropped}, map[string][]string{"added": y.Added, "dropped": y.Dropped}); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if diff := cmp.Diff(object(t, manifest), wanted); diff != "" {
				t.Errorf("the manifest is changed:\n%s", diff)
			}
		})
	}
}
