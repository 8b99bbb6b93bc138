package memory

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestStopWaits: synctest fails if something is left.
func TestStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		stop := start(t.Context(), func(ctx context.Context) {
			<-ctx.Done()
			ended = true
		})
		stop()
		if !ended {
			t.Error("stop returns before the end")
		}
	})
}
