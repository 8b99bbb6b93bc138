package backup

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// TestBackupsAreRepeated: the period counts from the beginning of a backup, and one that fails is tried again after a minute.
func TestBackupsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var at []time.Duration
		err := repeat(ctx, clock.RealClock{}, time.Hour, func() error {
			at = append(at, time.Since(start))
			<-time.After(10 * time.Second) // as long as a backup takes
			switch len(at) {
			case 2:
				return errors.New("the disk is full")
			case 5:
				cancel()
			}
			return nil
		})
		want := []time.Duration{0, time.Hour, time.Hour + time.Minute, 2*time.Hour + time.Minute, 3*time.Hour + time.Minute}
		if err != nil || !slices.Equal(at, want) {
			t.Errorf("backups at %v, %v; want %v", at, err, want)
		}
	})
}
