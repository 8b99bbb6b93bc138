package history

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// panicking panics about the template that is read first, and has none of the others.
type panicking struct {
	Templates
	read []string
}

func (p *panicking) GetAt(_ context.Context, ref hubstore.Ref, _ string) (*unstructured.Unstructured, error) {
	if p.read = append(p.read, ref.Name); len(p.read) == 1 {
		panic("an unexpected object")
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, ref.Name)
}

// TestAPanicAboutOneDeletionStopsNoOther: those that were noted together are kept.
func TestAPanicAboutOneDeletionStopsNoOther(t *testing.T) {
	clock, templates := clocktesting.NewFakeClock(time.Unix(100, 0)), &panicking{}
	k := New(Deps{Clock: clock, Templates: templates})
	for _, name := range []string{"broken", "fine"} {
		ref := config
		ref.Name = name
		k.deletions = append(k.deletions, deletion{ref: ref, at: clock.Now().Add(-time.Minute), asOf: 50, policiesAsOf: 50})
	}
	err := k.flush(t.Context())
	if _, panicked := errors.AsType[*controlloop.PanicError](err); !panicked || len(templates.read) != 2 {
		t.Errorf("read are %v, %v; want both, and the panic", templates.read, err)
	}
}

// TestTheLoopOfDeletionsOutlivesAPanic: it flushes again.
func TestTheLoopOfDeletionsOutlivesAPanic(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(100, 0))
	expired := make(chan struct{})
	k := New(Deps{Clock: clock, Period: func() time.Duration {
		expired <- struct{}{}
		panic("an unexpected setting")
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.keepDeletions(ctx, controlloop.NewSet(nil, clock).Loop("history")) }()
	for range 2 {
		for waiting := true; waiting; {
			clock.Step(expiryPeriod)
			select {
			case <-expired:
				waiting = false
			case <-time.After(time.Millisecond):
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
