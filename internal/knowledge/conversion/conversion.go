package conversion

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Adviser converts some kinds. For all others it returns what Unchanged returns. Its methods are called often and from many goroutines;
// they answer from caches, except for To, From and Devices, which may send requests to the control plane.
type Adviser interface {
	// To returns what an object of the control plane becomes in a cluster. It does not change its argument; it may return it. An
	// error stays until the object, its definition or the Cluster changes, unless it is Transient.
	To(ctx context.Context, obj *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster) (*unstructured.Unstructured, error)
	// From returns what an object of a member is in the version of its template. It does not change its argument; it may return it.
	From(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Alternatives lists the other kinds that To can make of a kind, the best first: a cluster that serves one of them can have the object.
	Alternatives(ctx context.Context, kind schema.GroupVersionKind) []schema.GroupVersionKind
	// Affected lists the kinds of which To may make something else after a change of a Cluster.
	Affected(before, after *clusterv1alpha1.Cluster) []schema.GroupVersionKind
	// Definition returns the name of the CustomResourceDefinition of a kind, which can go to members with its objects; "" if there is none.
	Definition(kind schema.GroupVersionKind) string
	// LosesStatus returns whether the status of a template of a kind is removed when it has no copies any more.
	LosesStatus(kind schema.GroupVersionKind) bool
	// Devices returns the devices that the object of a binding claims.
	Devices(ctx context.Context, binding workv1alpha2.Binding) (capacity.DeviceNeeds, error)
	// Subscribe has notify called whenever a method may return something else than before. Notify must return quickly.
	Subscribe(notify func(Change))
}

// Change is after what the answers of an Adviser may differ. One of its fields is set.
type Change struct {
	// Kinds are those of a definition that was created, changed or deleted.
	Kinds interpret.Kinds
	// Claim names a claim or claim template that was created, changed or deleted.
	Claim types.NamespacedName
}

// Unchanged is the Adviser for kinds that go to members as they are. Others embed it for what their kinds do not need.
type Unchanged struct{}

var _ Adviser = Unchanged{}

// To implements Adviser.
func (Unchanged) To(_ context.Context, obj *unstructured.Unstructured, _ *clusterv1alpha1.Cluster) (*unstructured.Unstructured, error) {
	return obj, nil
}

// From implements Adviser.
func (Unchanged) From(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return obj, nil
}

// Alternatives implements Adviser.
func (Unchanged) Alternatives(context.Context, schema.GroupVersionKind) []schema.GroupVersionKind {
	return nil
}

// Affected implements Adviser.
func (Unchanged) Affected(_, _ *clusterv1alpha1.Cluster) []schema.GroupVersionKind { return nil }

// Definition implements Adviser.
func (Unchanged) Definition(schema.GroupVersionKind) string { return "" }

// LosesStatus implements Adviser.
func (Unchanged) LosesStatus(schema.GroupVersionKind) bool { return false }

// Devices implements Adviser.
func (Unchanged) Devices(context.Context, workv1alpha2.Binding) (capacity.DeviceNeeds, error) {
	return capacity.DeviceNeeds{}, nil
}

// Subscribe implements Adviser.
func (Unchanged) Subscribe(func(Change)) {}

// OrUnchanged returns the Adviser, or Unchanged for nil.
func OrUnchanged(a Adviser) Adviser {
	if a == nil {
		return Unchanged{}
	}
	return a
}

// chain is several Advisers as one.
type chain []Adviser

// Chain returns Advisers as one: To goes through them in order, From in the opposite order. Devices,
// Definition: those of the first that has any; the other answers are joined.
func Chain(advisers ...Adviser) Adviser { return chain(advisers) }

func (c chain) To(ctx context.Context, obj *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster) (*unstructured.Unstructured, error) {
	for _, a := range c {
		var err error
		if obj, err = a.To(ctx, obj, cluster); err != nil {
			return nil, err
		}
	}
	return obj, nil
}

func (c chain) From(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for i := len(c) - 1; i >= 0; i-- {
		var err error
		if obj, err = c[i].From(ctx, obj); err != nil {
			return nil, err
		}
	}
	return obj, nil
}

func (c chain) Alternatives(ctx context.Context, kind schema.GroupVersionKind) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, a := range c {
		kinds = append(kinds, a.Alternatives(ctx, kind)...)
	}
	return kinds
}

func (c chain) Affected(before, after *clusterv1alpha1.Cluster) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, a := range c {
		kinds = append(kinds, a.Affected(before, after)...)
	}
	return kinds
}

func (c chain) Definition(kind schema.GroupVersionKind) string {
	for _, a := range c {
		if name := a.Definition(kind); name != "" {
			return name
		}
	}
	return ""
}

func (c chain) LosesStatus(kind schema.GroupVersionKind) bool {
	for _, a := range c {
		if a.LosesStatus(kind) {
			return true
		}
	}
	return false
}

func (c chain) Devices(ctx context.Context, binding workv1alpha2.Binding) (capacity.DeviceNeeds, error) {
	for _, a := range c {
		needs, err := a.Devices(ctx, binding)
		if err != nil || needs.Missing || !needs.Cluster.IsEmpty() || !needs.Replica.IsEmpty() {
			return needs, err
		}
	}
	return capacity.DeviceNeeds{}, nil
}

func (c chain) Subscribe(notify func(Change)) {
	for _, a := range c {
		a.Subscribe(notify)
	}
}

// transientError is an error of To that another try may not have.
type transientError struct{ error }

func (e transientError) Unwrap() error { return e.error }

// Transient marks an error of To that another try may not have.
func Transient(err error) error { return transientError{err} }

// IsTransient returns whether an error is marked as Transient.
func IsTransient(err error) bool {
	_, is := errors.AsType[transientError](err)
	return is
}
