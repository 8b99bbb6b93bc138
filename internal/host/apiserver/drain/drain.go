package drain

import (
	"context"
	"net/http"
	"time"
)

// patience is how long a stopping server lets requests end on their own: less than its orderly end may take.
const patience = 4 * time.Second

// Requests cancels the contexts of the requests to a server that stops. The server waits for each request before it ends, and some wait for
// what does not come any more: the deletion of a definition for its objects, a write for a webhook, an Explanation for the answers of members.
type Requests struct {
	// onEnd has a function called when the contexts end. The returned function undoes that.
	onEnd func(func()) (undo func() bool)
	end   context.CancelFunc
}

// New returns Requests whose contexts end when Run returns. The context may end before.
func New(ctx context.Context) *Requests {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	return &Requests{onEnd: func(f func()) func() bool { return context.AfterFunc(serving, f) }, end: end}
}

// Run returns 4 s after the server begins to stop, which closes the first channel, or when it serves no request any more, which closes the
// second.
func (r *Requests) Run(stopping, drained <-chan struct{}) {
	defer r.end()
	<-stopping
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-drained:
	}
}

// Handler passes each request on with a context that ends with Run, too.
func (r *Requests) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithCancel(request.Context())
		defer cancel()
		defer r.onEnd(cancel)()
		next.ServeHTTP(w, request.WithContext(ctx)) //nolint:contextcheck // it is the context of the request
	})
}
