package interpret

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Interpreter has all operations on an object. Its methods may be called at the same time from many goroutines, with objects of a
// cache: they do not change their arguments, Prune excepted.
//
// An error means that a layer has the operation for the kind and failed. A kind without an operation is not an error; each method
// documents what it returns then.
type Interpreter interface {
	Workload
	Status
	Shape
}

// Workload is about the replicas of an object.
type Workload interface {
	// Replicas returns how many replicas the spec of obj has and what one replica needs. For a kind without replicas Known is
	// false.
	Replicas(ctx context.Context, obj *unstructured.Unstructured) (ReplicaResult, error)
	// Revise returns a copy of obj with the given number of replicas, or obj itself if its kind has none.
	Revise(ctx context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error)
	// Components lists the pod templates of a workload that has several, each with its own replicas and requirements; nil for a
	// kind that has one or none.
	Components(ctx context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error)
}

// Status is about what an object reports.
type Status interface {
	// Reflect returns the part of a member object's status that goes to the control plane, as JSON; nil if there is none.
	Reflect(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error)
	// Health is that of a member object; Unknown with an error.
	Health(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error)
	// Finished returns whether an object ran to its end, by its own status: it must not run again. A kind that does not run to an end is
	// never finished.
	Finished(ctx context.Context, obj *unstructured.Unstructured) (bool, error)
	// Aggregate returns template with the status of all its copies together, and template itself if it has that status already,
	// so that a caller may compare pointers. The result shares its spec with template. Items have to list every cluster that
	// should have a copy: one that has not reported yet is an item without status. Equal items give an equal result.
	Aggregate(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error)
}

// Shape is about which fields and which other objects belong to an object.
type Shape interface {
	// Prune removes from obj, in place, what is valid only in the cluster that it was read from: server-set metadata, status, and
	// what the control plane filled in, such as a Service's cluster IP. Template is the object as it was read, managedFields
	// included, before overrides: what is to be removed is decided by it, so that no override keeps anything. Nil is for an object
	// without overrides.
	Prune(obj, template *unstructured.Unstructured)
	// Retain returns desired with those fields of observed, the object as it is in the member, that the member's own controllers
	// set; desired itself if there are none.
	Retain(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Dependencies lists the objects that obj needs in its namespace, sorted and without repetition.
	Dependencies(ctx context.Context, obj *unstructured.Unstructured) ([]Dependency, error)
}

// ReplicaResult is the result of Workload.Replicas.
type ReplicaResult struct {
	// Known is false if no layer has the operation for the kind; the other fields are zero then.
	Known bool
	// Replicas is the number in the object's spec.
	Replicas int32
	// Requirements is what one replica needs; nil for no requirements.
	Requirements *workv1alpha2.ReplicaRequirements
	// Identities is what replicas are to each other.
	Identities Identities
}

// Identities is whether the replicas of an object are all alike.
type Identities string

const (
	// Anonymous replicas are alike: any cluster may run any number of them.
	Anonymous Identities = ""
	// Whole is one set that a cluster runs as a whole, since each part of it has to exist once and no cluster can be given only some.
	Whole Identities = "Whole"
	// Named replicas have names that begin anew in each cluster: to divide them makes several sets.
	Named Identities = "Named"
	// Unknown are replicas that an object seems to have, and that no layer can read.
	Unknown Identities = "Unknown"
)

// Dependency refers to one object by name, or to several by a label selector.
type Dependency = configv1alpha1.DependentObjectReference
