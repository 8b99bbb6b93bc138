package interpret

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Interpreter answers every question about an object. Its methods may be called
// at the same time from many goroutines, with objects that live in a cache: they
// do not change their arguments, Prune excepted.
//
// An error means that somebody claims to know the kind and failed to answer; a
// kind nobody knows is not an error, each method says what it returns then.
type Interpreter interface {
	Workload
	Status
	Shape
}

// Workload is about the replicas of an object.
type Workload interface {
	// Replicas tells how many replicas obj asks for and what one replica needs.
	// For a kind that has no replicas Known is false.
	Replicas(ctx context.Context, obj *unstructured.Unstructured) (ReplicaResult, error)
	// Revise returns a copy of obj that asks for the given number of replicas,
	// or obj itself if its kind has no replicas.
	Revise(ctx context.Context, obj *unstructured.Unstructured, replicas int64) (*unstructured.Unstructured, error)
	// Components lists the pod templates of a workload that has several, each
	// with its own replicas and needs; nil for a kind that has one or none.
	Components(ctx context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error)
}

// Status is about what an object reports.
type Status interface {
	// Reflect picks the part of a member object's status that is carried to the
	// control plane, as JSON; nil if there is none.
	Reflect(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error)
	// Health judges a member object. With an error the answer is Unknown.
	Health(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error)
	// Aggregate returns template with the status that its copies add up to, and
	// template itself if that is the status it has already, so that a caller
	// may compare pointers. The result shares its spec with template. Items have
	// to list every cluster that should have a copy: one that has not reported
	// yet is an item without status. Equal items give an equal result.
	Aggregate(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error)
}

// Shape is about which fields and which other objects belong to an object.
type Shape interface {
	// Prune removes from obj, in place, everything that means nothing outside
	// the cluster it was read from: server-set metadata, status, and what the
	// control plane itself filled in, such as a Service's cluster IP. It wants
	// the object as it was read, managedFields included.
	Prune(obj *unstructured.Unstructured)
	// Retain returns desired with those fields of observed, the object as it is
	// in the member, that the member's own controllers set; desired itself if
	// there are none.
	Retain(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Dependencies lists the objects obj cannot run without, sorted and without
	// repetition.
	Dependencies(ctx context.Context, obj *unstructured.Unstructured) ([]Dependency, error)
}

// ReplicaResult is the answer of Workload.Replicas.
type ReplicaResult struct {
	// Known is false if nobody claims that the kind has replicas; the other
	// fields are zero then.
	Known bool
	// Replicas is the number the object asks for.
	Replicas int32
	// Requirements is what one replica needs; nil if it needs nothing in
	// particular.
	Requirements *workv1alpha2.ReplicaRequirements
}

// Dependency refers to one object by name, or to several by a label selector.
type Dependency = configv1alpha1.DependentObjectReference
