package history

import (
	"context"
	"maps"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// past and bindings are a ConfigMap and its binding as of revisions of the storage: the ConfigMap is created at 10 with the value 10, its binding at
// 20, and bound to a cluster at 30; at 40 and 50 the ConfigMap gets these values. What was before 5 is compacted.
type (
	past     struct{ Templates }
	bindings struct{ client.Reader }
)

var config = hubstore.Ref{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: "a", Name: "b"}

func (past) GetAt(_ context.Context, ref hubstore.Ref, resourceVersion string) (*unstructured.Unstructured, error) {
	version, err := strconv.Atoi(resourceVersion)
	resource := schema.GroupResource{Resource: "configmaps"}
	switch {
	case err != nil:
		return nil, err
	case version < 5:
		return nil, apierrors.NewResourceExpired("compacted")
	case version < 10:
		return nil, apierrors.NewNotFound(resource, ref.Name)
	}
	value := "10"
	if version >= 40 {
		value = strconv.Itoa(version / 10 * 10)
	}
	return template(value), nil
}

func template(value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "a", "name": "b", "uid": "u"}, "data": map[string]any{"value": value},
	}}
}

func (bindings) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	at := &client.ListOptions{}
	at.ApplyOptions(options)
	version, err := strconv.Atoi(at.Raw.ResourceVersion)
	if err != nil || version < 20 {
		return err
	}
	binding := workv1alpha2.ResourceBinding{}
	binding.Namespace, binding.Name = "a", "b-configmap"
	binding.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: "b", UID: "u"}
	if version >= 30 {
		binding.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member1"}}
	}
	list.(*workv1alpha2.ResourceBindingList).Items = append(list.(*workv1alpha2.ResourceBindingList).Items, binding)
	return nil
}

// TestTheFirstRevision: it is the state before the first change after the object is in a cluster, whatever older changes are noted.
func TestTheFirstRevision(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := policyv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	k := New(Deps{
		Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Live: bindings{}, Templates: past{}, Authors: &history.Authors{},
	})
	for name, tt := range map[string]struct {
		before []uint64
		want   string // empty: none
	}{
		"one change":                            {before: []uint64{39}, want: "10"},
		"two changes, the later is noted first": {before: []uint64{49, 39}, want: "10"},
		"the second change":                     {before: []uint64{49}, want: "40"},
		"a change before the template":          {before: []uint64{7, 39, 49}, want: "10"},
		"a change before the binding":           {before: []uint64{15, 39}, want: "10"},
		"changes before the targets":            {before: []uint64{15, 25, 26, 27, 49}, want: "40"},
		"a compacted change":                    {before: []uint64{3, 49}, want: "40"},
		"only changes before the targets":       {before: []uint64{3, 7, 25}},
	} {
		t.Run(name, func(t *testing.T) {
			now := &facts{template: template("50")}
			got, err := k.first(t.Context(), config, now, tt.before)
			if err != nil {
				t.Fatal(err)
			}
			var value string
			if got != nil {
				value, _, _ = unstructured.NestedString(got.State.Template, "data", "value")
			}
			if value != tt.want {
				t.Errorf("the first revision has the value %q, want %q", value, tt.want)
			}
		})
	}
	replaced := &facts{template: template("50")}
	replaced.template.SetUID(types.UID("other"))
	if got, err := k.first(t.Context(), config, replaced, []uint64{39}); got != nil || err != nil {
		t.Errorf("the revision of an object of the same name that was deleted: %v, %v", got, err)
	}
}

// TestPoliciesThatAreDeletedBefore: the policy of a deleted object is read as of its own deletion, also if that is noted later.
func TestPoliciesThatAreDeletedBefore(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(100, 0))
	k := New(Deps{Clock: clock})
	note := func(name string, before ...uint64) {
		ref := config
		ref.Name = name
		k.deletions = append(k.deletions, deletion{ref: ref, at: clock.Now(), asOf: 50, policiesAsOf: 50})
		if len(before) > 0 {
			k.pending[ref] = &pending{before: before}
		}
	}
	note("policy before", 45, 60)
	note("nothing before", 60)
	note("nothing")
	if due := k.due(); len(due) > 0 {
		t.Errorf("what may have come late is not awaited: %+v", due)
	}
	clock.Step(lateness)
	note("later", 40)
	got := map[string]uint64{}
	for _, d := range k.due() {
		got[d.ref.Name] = d.policiesAsOf
		if d.asOf != 50 {
			t.Errorf("%s is read as of %d", d.ref.Name, d.asOf)
		}
	}
	if want := map[string]uint64{"policy before": 45, "nothing before": 50, "nothing": 50}; !maps.Equal(got, want) {
		t.Errorf("policies are read as of %v, want %v", got, want)
	}
	clock.Step(lateness)
	if due := k.due(); len(due) != 1 || due[0].policiesAsOf != 40 {
		t.Errorf("the last one is %+v", due)
	}
	if due := k.due(); len(due) > 0 {
		t.Errorf("these are stored twice: %+v", due)
	}
}
