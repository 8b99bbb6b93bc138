package history_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

type fields = map[string]any

func deployment(image string, replicas int64) fields {
	return fields{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": fields{"name": "web", "namespace": "shop"},
		"spec": fields{"replicas": replicas, "template": fields{"spec": fields{"containers": []any{
			fields{"name": "web", "image": image}, fields{"name": "proxy", "image": "envoy:1"},
		}}}},
	}
}

func object(kind, name string, spec fields) fields {
	return fields{"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": fields{"name": name, "namespace": "shop"}, "spec": spec}
}

func clusters(all ...any) []fleetv1alpha1.RevisionCluster {
	var result []fleetv1alpha1.RevisionCluster
	for i := 0; i < len(all); i += 2 {
		result = append(result, fleetv1alpha1.RevisionCluster{Name: all[i].(string), Replicas: int32(all[i+1].(int))})
	}
	return result
}

func TestWhatDiffersInShort(t *testing.T) {
	p := object("PropagationPolicy", "p", fields{"priority": int64(1)})
	base := history.StateOf(deployment("web:1.2", 2), p, nil, clusters("member1", 1, "member2", 1))
	o := object("OverridePolicy", "o", fields{"a": "b"})
	for name, tc := range map[string]struct {
		after history.State
		want  []string
	}{
		"Nothing": {base, nil},
		"Image": {history.StateOf(deployment("web:1.3", 2), p, nil, clusters("member1", 1, "member2", 1)),
			[]string{"Template: image web:1.2 → web:1.3"}},
		"AnotherPolicy": {history.StateOf(deployment("web:1.2", 2), object("PropagationPolicy", "q", fields{}), nil, clusters("member1", 1, "member2", 1)),
			[]string{"Policy: policy p → q"}},
		"ChangedPolicy": {history.StateOf(deployment("web:1.2", 2), object("PropagationPolicy", "p", fields{"priority": int64(2)}), nil, clusters("member1", 1, "member2", 1)),
			[]string{"Policy: policy p: priority 1 → 2"}},
		"NoPolicy": {history.StateOf(deployment("web:1.2", 2), nil, nil, clusters("member1", 1, "member2", 1)), []string{"Policy: policy -p"}},
		"Override": {history.StateOf(deployment("web:1.2", 2), p, []fields{o}, clusters("member1", 1, "member2", 1)),
			[]string{"Override: override +o"}},
		"Clusters": {history.StateOf(deployment("web:1.2", 3), p, nil, clusters("member3", 2, "member2", 2)),
			[]string{"Template: replicas 2 → 3", "Clusters: clusters -member1 +member3; replicas member2 1 → 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range history.Differences(base, tc.after) {
				got = append(got, fmt.Sprintf("%s: %s", d.Part, d.Text))
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("the differences are %q, want %q", got, tc.want)
			}
		})
	}
}

func TestEditsOfWhatIsNew(t *testing.T) {
	edits := history.Edits(nil, fields{"spec": fields{"a": int64(1)}})
	if len(edits) != 1 || edits[0].From != "" || edits[0].To != `{"a":1}` {
		t.Errorf("the edits are %+v", edits)
	}
}

func TestValuesOfSecretsAreNotInADifference(t *testing.T) {
	secret := func(value string) fields {
		return fields{"apiVersion": "v1", "kind": "Secret", "metadata": fields{"name": "s"}, "data": fields{"password": value}}
	}
	edits := history.Edits(secret("b2xk"), secret("bmV3"))
	if len(edits) != 1 || edits[0].Path != "data.password" || strings.Contains(fmt.Sprint(edits), "b2xk") || strings.Contains(fmt.Sprint(edits), "bmV3") {
		t.Errorf("the edits are %+v", edits)
	}
	if got := history.Short(edits); got != "password changed" {
		t.Errorf("the text is %q", got)
	}
}

func TestWhatIsNoContent(t *testing.T) {
	dirty := deployment("web:1.2", 2)
	dirty["status"] = fields{"replicas": int64(2)}
	meta := dirty["metadata"].(fields)
	meta["uid"], meta["resourceVersion"], meta["finalizers"] = "u", "7", []any{"x"}
	meta["labels"] = fields{"app": "web", policyv1alpha1.PropagationPolicyPermanentIDLabel: "id"}
	meta["annotations"] = fields{policyv1alpha1.PropagationPolicyNameAnnotation: "p", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
	before, err := json.Marshal(dirty)
	if err != nil {
		t.Fatal(err)
	}
	want := deployment("web:1.2", 2)
	want["metadata"].(fields)["labels"] = fields{"app": "web"}
	if got := history.Clean(dirty); !reflect.DeepEqual(got, want) {
		t.Errorf("the content is %v, want %v", got, want)
	}
	if after, err := json.Marshal(dirty); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the object was changed: %s", after)
	}
}

func TestReplicasOfAnAutoscalerAreNoContent(t *testing.T) {
	scaled := func(replicas int64) history.State {
		d := deployment("web:1.2", replicas)
		d["metadata"].(fields)["annotations"] = fields{policyv1alpha1.AutoscaledAnnotation: "true"}
		return history.StateOf(d, nil, nil, clusters("member1", int(replicas)))
	}
	if !reflect.DeepEqual(scaled(2), scaled(9)) {
		t.Error("the states differ")
	}
}

func TestSealing(t *testing.T) {
	key, other := history.NewKey([]byte{1}), history.NewKey([]byte{2})
	record := history.Record{Revision: 3, Time: time.Unix(1000, 0).UTC(), State: history.StateOf(deployment("web:1.2", 2), nil, nil, clusters("member1", 2))}
	sealed, err := key.Seal("uid", record)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("web:1.2")) {
		t.Error("the content is readable")
	}
	var opened history.Record
	if err := key.Open("uid", sealed, &opened); err != nil || !reflect.DeepEqual(opened, record) {
		t.Errorf("opened is %+v (%v), want %+v", opened, err, record)
	}
	damaged := bytes.Clone(sealed)
	damaged[len(damaged)-1] ^= 1
	for name, err := range map[string]error{
		"of another owner": key.Open("uid2", sealed, &opened), "with another key": other.Open("uid", sealed, &opened),
		"damaged": key.Open("uid", damaged, &opened), "empty": key.Open("uid", nil, &opened),
	} {
		if !errors.Is(err, history.ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
	one, err := key.Hash("uid", record.State)
	if err != nil {
		t.Fatal(err)
	}
	for name, hash := range map[string]func() (string, error){
		"the same":    func() (string, error) { return key.Hash("uid", opened.State) },
		"another key": func() (string, error) { return other.Hash("uid", record.State) },
		"another uid": func() (string, error) { return key.Hash("uid2", record.State) },
	} {
		if got, err := hash(); err != nil || (got == one) != (name == "the same") {
			t.Errorf("%s: %s (%v), the first is %s", name, got, err, one)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		var record history.Record
		if err := history.NewKey([]byte{1}).Open("uid", sealed, &record); !errors.Is(err, history.ErrForeign) {
			t.Errorf("%x was opened: %v", sealed, err)
		}
	})
}

func TestAuthors(t *testing.T) {
	var authors history.Authors
	update := history.Change{UID: "u", From: "5"}
	authors.Requested(update, "alice", trace.SpanContext{})
	authors.Requested(update, "alice", trace.SpanContext{})
	if got := authors.Of(update); got != "alice" {
		t.Errorf("the author is %q", got)
	}
	authors.Requested(update, "mallory", trace.SpanContext{})
	if got := authors.Of(update); got != "" {
		t.Errorf("the author of what two users requested is %q", got)
	}
	authors.Requested(update, "alice", trace.SpanContext{})
	if got := authors.Of(update); got != "" {
		t.Errorf("the author of what two users requested is %q later", got)
	}
	for i := range 10_000 {
		authors.Requested(history.Change{UID: "v", From: fmt.Sprint(i)}, "bob", trace.SpanContext{})
	}
	if got := authors.Of(history.Change{UID: "v", From: "9999"}); got != "bob" {
		t.Errorf("the last author is %q", got)
	}
	if got := authors.Of(history.Change{UID: "v", From: "1"}); got != "" {
		t.Errorf("the first author is %q, want it to be dropped", got)
	}
}

func TestManagerOf(t *testing.T) {
	at := func(seconds int64) *metav1.Time { return &metav1.Time{Time: time.Unix(seconds, 0)} }
	o := &unstructured.Unstructured{Object: deployment("web:1.2", 2)}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Time: at(10)}, {Manager: "helm", Time: at(20)}, {Manager: "flagship", Time: at(30)}, {Manager: "x", Subresource: "status", Time: at(40)},
	})
	if manager, when := history.ManagerOf(o, "flagship"); manager != "helm" || when.Unix() != 20 {
		t.Errorf("it is %s at %s", manager, when)
	}
}

func TestLimitOf(t *testing.T) {
	for own, want := range map[any]int{nil: 10, int64(3): 3, int64(0): 0, int64(1 << 40): history.MaxRevisions, "x": 10} {
		d := deployment("web:1.2", 2)
		if own != nil {
			d["spec"].(fields)["revisionHistoryLimit"] = own
		}
		if got := history.LimitOf(d, 10); got != want {
			t.Errorf("with %v the limit is %d, want %d", own, got, want)
		}
	}
}
