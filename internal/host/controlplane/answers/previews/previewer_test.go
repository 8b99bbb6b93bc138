package previews

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/preview"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

// over is a context of which the time is over.
func over(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	t.Cleanup(cancel)
	return ctx
}

// TestAPreviewThatTakesTooLongIsAnError: there is no part of an answer, and the error is the one for that, whatever failed.
func TestAPreviewThatTakesTooLongIsAnError(t *testing.T) {
	synced := make(chan struct{})
	close(synced)
	fault := errors.New("the connection ended")
	p := &Previewer{Synced: synced, Author: func(user.Info) (dynamic.Interface, error) { return nil, fault }}
	ask := func(ctx context.Context) error {
		_, err := p.Preview(ctx, fleetv1alpha1.PreviewSpec{}, &user.DefaultInfo{Name: "alice"}, func(explain.Right) bool { return true })
		return err
	}
	if err := ask(t.Context()); !errors.Is(err, fault) {
		t.Errorf("in time: %v", err)
	}
	if err := ask(over(t)); !apierrors.IsTimeout(err) {
		t.Errorf("too late: %v", err)
	}
}

// TestWhyThereIsNoDryRun: that the answer has taken its time is no fault of a member.
func TestWhyThereIsNoDryRun(t *testing.T) {
	late := fmt.Errorf("reading the object: %w", context.DeadlineExceeded)
	slow := fmt.Errorf("applying the object: %w", errSlow)
	for name, tc := range map[string]struct {
		ctx  context.Context
		err  error
		want string
	}{
		"Refused":     {t.Context(), apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c", errors.New("no")), `m1 refuses it: configmaps "c" is forbidden: no`},
		"Unreachable": {t.Context(), errors.New("connection refused"), "m1 does not answer"},
		"Slow":        {t.Context(), slow, "m1 does not answer within 12s"},
		"Late":        {over(t), late, "not applied in a dry run: the answer has taken 30s"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reasonOf(tc.ctx, "m1", tc.err); got != tc.want {
				t.Errorf("the reason is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestASlowMemberIsNotTriedForEachObject: more objects than are tried at once, in a member that does not answer, and one in another member.
func TestASlowMemberIsNotTriedForEachObject(t *testing.T) {
	copies := make([]preview.Copy, 5*dryRunsAtOnce)
	for i := range copies {
		copies[i].Cluster = "slow"
	}
	copies[len(copies)-1].Cluster = "fine"
	var tried atomic.Int32
	results := dryRuns(t.Context(), copies, func(c preview.Copy) ([]fleetv1alpha1.FieldEdit, error) {
		if c.Cluster == "fine" {
			return []fleetv1alpha1.FieldEdit{{Path: "/data"}}, nil
		}
		tried.Add(1)
		return nil, errSlow
	})
	if n := tried.Load(); n > dryRunsAtOnce {
		t.Errorf("%d objects were tried in the member that does not answer, %d are tried at once", n, dryRunsAtOnce)
	}
	for i, r := range results {
		if fine := copies[i].Cluster == "fine"; fine != (r.message == "") || fine != (len(r.fields) == 1) {
			t.Errorf("the result of object %d in %s is %q, %v", i, copies[i].Cluster, r.message, r.fields)
		}
	}
}

// TestNoPreviewIsMadeWhileMemoryIsShort: a preview copies what it changes.
func TestNoPreviewIsMadeWhileMemoryIsShort(t *testing.T) {
	synced := make(chan struct{})
	close(synced)
	p := &Previewer{Synced: synced, Short: func() bool { return true }}
	if _, err := p.Preview(t.Context(), fleetv1alpha1.PreviewSpec{}, &user.DefaultInfo{Name: "alice"}, nil); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the error is %v, want that there are too many requests", err)
	}
}
