package drain

import (
	"context"
	"net/http"
	"time"
)

// patience is how long a stopping server lets requests end on their own: less than its orderly end may take.
const patience = 4 * time.Second

// Handler cancels the contexts of requests 4 s after the server begins to stop, which closes the first channel, or when it has stopped, which
// closes the second. The server waits for each request before it ends, and some wait for what does not come any more: the deletion of a
// definition for its objects, a write for a webhook, an Explanation for the answers of members.
func Handler(stopping, stopped <-chan struct{}, next http.Handler) http.Handler {
	serving, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		<-stopping
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-stopped:
		}
	}()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(serving, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx)) //nolint:contextcheck // it is the context of the request
	})
}
