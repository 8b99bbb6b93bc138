package events

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
}

// Normal is an event that reports success.
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

// Recorder takes events. Publish returns at once and may be called from any goroutine.
type Recorder interface {
	Publish(Event)
}

// RecorderFunc makes a Recorder of a function, as tests and agents do.
type RecorderFunc func(Event)

// Publish implements Recorder.
func (f RecorderFunc) Publish(e Event) { f(e) }

// String is the event as a log line shows it.
func (e Event) String() string {
	return fmt.Sprintf("%s %s %s/%s: %s", e.Type, e.Reason, e.Object.Kind, e.Object.Name, e.Message)
}
