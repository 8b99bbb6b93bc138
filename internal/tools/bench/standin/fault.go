package standin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Mode is how a stand-in behaves.
type Mode string

const (
	// Healthy answers as a cluster does.
	Healthy Mode = "healthy"
	// Hanging accepts connections and requests, and answers none.
	Hanging Mode = "hanging"
	// Busy answers 429 with Retry-After.
	Busy Mode = "busy"
	// Failing answers 500.
	Failing Mode = "failing"
	// Nonsense answers 200 with a page that is no JSON.
	Nonsense Mode = "nonsense"
	// Gone refuses connections.
	Gone Mode = "gone"
)

func (m Mode) validate() error {
	if !slices.Contains([]Mode{Healthy, Hanging, Busy, Failing, Nonsense, Gone}, m) {
		return fmt.Errorf("there is no mode %q", m)
	}
	return nil
}

// fault is the present mode of a stand-in.
type fault struct {
	mu      sync.Mutex
	mode    Mode
	changed chan struct{} // closed with the next change; nil before the first
}

func (f *fault) set(mode Mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = mode
	if f.changed != nil {
		close(f.changed)
	}
	f.changed = make(chan struct{})
}

func (f *fault) get() (Mode, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.mode, f.changed
}

// hold waits while the member hangs. It returns false if the request has to end without a further answer.
func (f *fault) hold(ctx context.Context) bool {
	for {
		mode, changed := f.get()
		if mode != Hanging {
			return mode == Healthy || mode == ""
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// admit returns whether a request gets its usual answer, and answers it otherwise.
func (f *fault) admit(w http.ResponseWriter, req *http.Request) bool {
	if f.hold(req.Context()) {
		return true
	}
	switch mode, _ := f.get(); mode {
	case Busy:
		fail(w, apierrors.NewTooManyRequests("the stand-in is busy", 1))
	case Failing:
		fail(w, apierrors.NewInternalError(fmt.Errorf("the stand-in fails")))
	case Nonsense:
		respondRaw(w, http.StatusOK, "text/html", []byte("<html>It works!</html>"))
	}
	return false
}
