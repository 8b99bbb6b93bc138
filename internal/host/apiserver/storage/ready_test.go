package storage

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// starting is storage whose watch cache is filled at a time.
type starting struct {
	storage.Interface
	ready time.Time
}

func (s starting) ReadinessCheck() error {
	if time.Now().Before(s.ready) {
		return errors.New("storage is (re)initializing")
	}
	return nil
}

func (s starting) GetList(context.Context, string, storage.ListOptions, runtime.Object) error {
	return s.ReadinessCheck()
}

func (s starting) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return nil, s.ReadinessCheck()
}

func TestRequestsWaitForTheWatchCache(t *testing.T) {
	tests := map[string]struct {
		after, until time.Duration // the cache is filled, the request ends
		served       bool
	}{
		"Ready":    {0, time.Minute, true},
		"Soon":     {time.Second, time.Minute, true},
		"TooLate":  {readyPatience + time.Second, time.Minute, false},
		"Canceled": {5 * time.Second, time.Second, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.until)
				defer cancel()
				s := readyStorage{starting{ready: time.Now().Add(tc.after)}}
				if err := s.GetList(ctx, "", storage.ListOptions{}, nil); (err == nil) != tc.served {
					t.Errorf("the list answers %v", err)
				}
				s = readyStorage{starting{ready: time.Now().Add(tc.after)}}
				if _, err := s.Watch(ctx, "", storage.ListOptions{}); (err == nil) != tc.served {
					t.Errorf("the watch answers %v", err)
				}
			})
		})
	}
}
