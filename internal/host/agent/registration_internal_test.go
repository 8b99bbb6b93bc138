package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// answers are what a control plane answers to one request after the other; the last one repeats.
type answers struct {
	client.Reader
	results  []error
	mode     clusterv1alpha1.ClusterSyncMode
	requests int
}

func (a *answers) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	result := a.results[min(a.requests, len(a.results)-1)]
	a.requests++
	if result == nil {
		o.(*clusterv1alpha1.Cluster).Spec.SyncMode = a.mode
	}
	return result
}

// leapingClock is at the end of every pause at once.
type leapingClock struct{ *testingclock.FakeClock }

func (c leapingClock) After(d time.Duration) <-chan time.Time {
	c.Step(d)
	over := make(chan time.Time, 1)
	over <- c.Now()
	return over
}

func TestAwaitCluster(t *testing.T) {
	resource := schema.GroupResource{Group: clusterv1alpha1.GroupName, Resource: "clusters"}
	refused, expired, gone := apierrors.NewForbidden(resource, "far", errors.New("no such Cluster")), apierrors.NewUnauthorized("expired"), apierrors.NewNotFound(resource, "far")
	away := errors.New("connection refused")
	const pull, push = clusterv1alpha1.Pull, clusterv1alpha1.Push
	for name, tc := range map[string]struct {
		results  []error
		mode     clusterv1alpha1.ClusterSyncMode
		requests int
		want     string
	}{
		"Accepted":            {results: []error{nil}, mode: pull, requests: 1},
		"Away":                {results: []error{away, away, away, nil}, mode: pull, requests: 4},
		"RefusedForAMoment":   {results: []error{refused, gone, refused, nil}, mode: pull, requests: 4},
		"Refused":             {results: []error{refused}, requests: 4, want: "does not accept the agent of cluster far"},
		"Expired":             {results: []error{expired}, requests: 4, want: "expired"},
		"Gone":                {results: []error{gone}, requests: 4, want: "not found"},
		"RefusedWhenItIsBack": {results: []error{refused, refused, refused, away, refused, refused, refused, nil}, mode: pull, requests: 8},
		"InPushMode":          {results: []error{nil}, mode: push, requests: 1, want: "cluster far is in Push mode"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := &answers{results: tc.results, mode: tc.mode}
			r := newRegistration(Options{Cluster: "far"})
			r.hub, r.clock = hub, leapingClock{testingclock.NewFakeClock(time.Now())}
			_, err := r.await(t.Context())
			if hub.requests != tc.requests || (err != nil) != (tc.want != "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("after %d requests: %v; want %q after %d", hub.requests, err, tc.want, tc.requests)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newRegistration(Options{Cluster: "far"})
	r.hub, r.clock = &answers{results: []error{away}}, testingclock.NewFakeClock(time.Now())
	if _, err := r.await(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after the end of the agent", err)
	}
}
