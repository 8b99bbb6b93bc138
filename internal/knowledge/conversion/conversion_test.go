package conversion

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
)

// naming appends a suffix to names, and removes it again.
type naming struct {
	Unchanged
	suffix string
	needs  capacity.DeviceNeeds
}

func (n naming) To(_ context.Context, obj *unstructured.Unstructured, _ *clusterv1alpha1.Cluster) (*unstructured.Unstructured, error) {
	return named(obj.GetName() + n.suffix), nil
}

func (n naming) From(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return named(obj.GetName() + "-" + n.suffix), nil
}

func (n naming) Alternatives(context.Context, schema.GroupVersionKind) []schema.GroupVersionKind {
	return []schema.GroupVersionKind{{Kind: n.suffix}}
}

func (n naming) Definition(schema.GroupVersionKind) string { return n.suffix }

func (n naming) Devices(context.Context, workv1alpha2.Binding) (capacity.DeviceNeeds, error) {
	return n.needs, nil
}

func (n naming) Subscribe(notify func(Change)) {
	notify(Change{Kinds: func(kind schema.GroupVersionKind) bool { return kind.Kind == n.suffix }})
}

func named(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetName(name)
	return obj
}

func TestChain(t *testing.T) {
	c := Chain(Unchanged{}, naming{suffix: "a"}, naming{suffix: "b", needs: capacity.DeviceNeeds{Missing: true}})
	to, err := c.To(t.Context(), named("x"), nil)
	if err != nil || to.GetName() != "xab" {
		t.Errorf("to %v, %v: want both in order", to, err)
	}
	from, err := c.From(t.Context(), named("x"))
	if err != nil || from.GetName() != "x-b-a" {
		t.Errorf("from %v, %v: want both in the opposite order", from, err)
	}
	if diff := cmp.Diff([]schema.GroupVersionKind{{Kind: "a"}, {Kind: "b"}}, c.Alternatives(t.Context(), schema.GroupVersionKind{})); diff != "" {
		t.Errorf("alternatives (-want +got):\n%s", diff)
	}
	if got := c.Definition(schema.GroupVersionKind{}); got != "a" {
		t.Errorf("definition %q, want that of the first", got)
	}
	if needs, err := c.Devices(t.Context(), nil); err != nil || !needs.Missing {
		t.Errorf("devices %+v, %v, want those of the only one that has any", needs, err)
	}
	changes := 0
	c.Subscribe(func(Change) { changes++ })
	if changes != 2 {
		t.Errorf("%d changes, want those of both", changes)
	}
}

func TestTransientErrors(t *testing.T) {
	cause := errors.New("no answer")
	err := fmt.Errorf("converting: %w", Transient(cause))
	if !IsTransient(err) || !errors.Is(err, cause) || IsTransient(cause) {
		t.Errorf("%v is transient, and its cause is not", err)
	}
}
