package native

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// Outlet sends the events of a watch to its client.
type Outlet struct {
	// Result is read by the client.
	Result chan watch.Event
	// Done is closed when the client stops the watch.
	Done <-chan struct{}
}

// ResultChan is a part of watch.Interface.
func (o Outlet) ResultChan() <-chan watch.Event { return o.Result }

// Send returns whether the watch goes on.
func (o Outlet) Send(event watch.Event) bool {
	select {
	case o.Result <- event:
		return true
	case <-o.Done:
		return false
	}
}

// Fail ends the watch with an error that the client receives.
func (o Outlet) Fail(err error) bool {
	status := apierrors.NewInternalError(err).Status()
	o.Send(watch.Event{Type: watch.Error, Object: &status})
	return false
}
