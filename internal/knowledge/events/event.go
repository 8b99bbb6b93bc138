package events

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Event is one report to the owner of an object. Two equal values are the same event.
type Event struct {
	// Object is the object of the event. Without Kind, APIVersion, Name and UID "kubectl describe" does not find the event.
	Object corev1.ObjectReference
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is one of the constants of this package.
	Reason string
	// Message is for people; it is cut at 1024 bytes.
	Message string
	// InMemory is true for an event that is not worth a write. It is lost when the control plane ends.
	InMemory bool
}

// Success is an event that reports that a step of the propagation of an object succeeded. It is kept in memory.
func Success(object corev1.ObjectReference, reason, message string) Event {
	return Event{Object: object, Type: corev1.EventTypeNormal, Reason: reason, Message: message, InMemory: true}
}

// Normal is an event that reports a change to one object that an administrator wants to find later.
func Normal(object corev1.ObjectReference, reason, message string) Event {
	return Event{Object: object, Type: corev1.EventTypeNormal, Reason: reason, Message: message}
}

// Warning is an event that reports a failure, or what needs attention.
func Warning(object corev1.ObjectReference, reason, message string) Event {
	return Event{Object: object, Type: corev1.EventTypeWarning, Reason: reason, Message: message}
}

// Reference returns a reference to obj, which need not have its kind set.
func Reference(gvk schema.GroupVersionKind, obj metav1.Object) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(),
		Kind:       gvk.Kind,
		Namespace:  obj.GetNamespace(),
		Name:       obj.GetName(),
		UID:        obj.GetUID(),
	}
}

// Template points at the template of a binding.
func Template(resource workv1alpha2.ObjectReference) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: resource.APIVersion, Kind: resource.Kind,
		Namespace: resource.Namespace, Name: resource.Name, UID: resource.UID,
	}
}

// Binding points at a binding of either scope.
func Binding(binding workv1alpha2.Binding) corev1.ObjectReference {
	kind := workv1alpha2.KindResourceBinding
	if binding.GetNamespace() == "" {
		kind = workv1alpha2.KindClusterResourceBinding
	}
	return Reference(workv1alpha2.GroupVersion.WithKind(kind), binding)
}

// Work points at a Work.
func Work(work *workv1alpha1.Work) corev1.ObjectReference {
	return Reference(workv1alpha1.GroupVersion.WithKind(workv1alpha1.KindWork), work)
}

// PublishBinding publishes an event on a binding and on its template, as Karmada does. Kind is Normal, Success or Warning.
func PublishBinding(to Recorder, b workv1alpha2.Binding, kind func(object corev1.ObjectReference, reason, message string) Event, reason, message string) {
	to.Publish(kind(Binding(b), reason, message))
	to.Publish(kind(Template(b.BindingSpec().Resource), reason, message))
}

// Recorder takes events. Publish returns at once and may be called from any goroutine.
type Recorder interface {
	Publish(Event)
}

// Split is the Recorder of the control plane: what is kept in memory goes to Memory, everything else to Stored.
type Split struct{ Memory, Stored Recorder }

// Publish implements Recorder.
func (s Split) Publish(e Event) {
	if e.InMemory {
		s.Memory.Publish(e)
		return
	}
	s.Stored.Publish(e)
}

// RecorderFunc makes a Recorder of a function, as tests and agents do.
type RecorderFunc func(Event)

// Publish implements Recorder.
func (f RecorderFunc) Publish(e Event) { f(e) }

// String is the event as a log line shows it.
func (e Event) String() string {
	return fmt.Sprintf("%s %s %s/%s: %s", e.Type, e.Reason, e.Object.Kind, e.Object.Name, e.Message)
}
