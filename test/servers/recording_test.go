package servers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// event is what a watch delivered at a time.
type event struct {
	watch.Event
	at time.Time
}

// object is the object of the event.
func (e event) object() client.Object {
	o, _ := e.Object.(client.Object)
	return o
}

// recording are all events of one watch.
type recording struct {
	mu     sync.Mutex
	events []event
	ended  bool
}

// record watches a kind in a namespace through a server, from now until the test ends. The watch is not made again if it ends.
func record(t *testing.T, through *fleettest.Part, list client.ObjectList, namespace string) *recording {
	t.Helper()
	eventually(t, "objects are listed through "+through.Name, func(ctx context.Context) error {
		return through.List(ctx, list, client.InNamespace(namespace))
	})
	w, err := through.Watch(t.Context(), list, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			r.mu.Lock()
			r.events = append(r.events, event{e, time.Now()})
			r.mu.Unlock()
		}
		r.mu.Lock()
		r.ended = true
		r.mu.Unlock()
	}()
	t.Cleanup(func() {
		w.Stop()
		<-done
	})
	return r
}

// all are the events so far. It fails if there will be no more.
func (r *recording) all() ([]event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, fmt.Errorf("the watch ended after %d events", len(r.events))
	}
	return r.events[:len(r.events):len(r.events)], nil
}

// until waits for an event about an object, and returns all that there are.
func (r *recording) until(t *testing.T, name string) []event {
	t.Helper()
	var found []event
	eventually(t, "the watch has "+name, func(context.Context) (err error) {
		if found, err = r.all(); err != nil {
			return err
		}
		for _, e := range found {
			if o := e.object(); o != nil && o.GetName() == name {
				return nil
			}
		}
		return errors.New("it has not")
	})
	return found
}
