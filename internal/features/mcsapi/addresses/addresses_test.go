package addresses

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// TestMemberChanges: an import is reconciled when it or its derived Service changes, and not for other objects.
func TestMemberChanges(t *testing.T) {
	derived := types.NamespacedName{Namespace: "shop", Name: networkingv1alpha1.DerivedServiceName("web")}
	for what, tc := range map[string]struct {
		change objectcache.Change
		want   int
	}{
		"the import":          {objectcache.Change{Resource: exportwork.ServiceImports, Object: webKey}, 1},
		"the derived Service": {objectcache.Change{Resource: exportwork.Services, Object: derived}, 1},
		"another Service":     {objectcache.Change{Resource: exportwork.Services, Object: webKey}, 0},
		"another kind":        {objectcache.Change{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Object: webKey}, 0},
		"one that went":       {objectcache.Change{Resource: exportwork.ServiceImports, Object: webKey, Gone: true}, 0},
		"a complete list":     {objectcache.Change{Resource: exportwork.ServiceImports, Synced: true}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			fleet, err := member.NewFleet(member.Config{Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
				return member.Credential{}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			reconciled := make(chan types.NamespacedName, 1)
			a := &addresser{fleet: fleet}
			a.queues = memberqueue.New("imports", fleet, clock.RealClock{}, 1, func(_ context.Context, _ string, key types.NamespacedName) (time.Duration, error) {
				reconciled <- key
				return 0, nil
			})
			tc.change.Cluster = "a"
			a.memberChanged(tc.change)
			if got := a.queues.Len(); got != tc.want {
				t.Fatalf("%d imports are enqueued, want %d", got, tc.want)
			}
			if tc.want == 0 {
				return
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- a.queues.Start(ctx) }()
			if key := <-reconciled; key != webKey {
				t.Errorf("reconciled is %s, want %s", key, webKey)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestExportingClusters(t *testing.T) {
	for text, want := range map[string][]string{"": nil, "a": {"a"}, "a,b": {"a", "b"}} {
		work := &workv1alpha1.Work{}
		work.Annotations = map[string]string{multiclusterv1beta1.ExportingClustersAnnotation: text}
		if got := exportingClusters(work); !slices.Equal(got, want) {
			t.Errorf("%q: the clusters are %v, want %v", text, got, want)
		}
	}
}
