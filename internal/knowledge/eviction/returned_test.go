package eviction_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

func TestReturned(t *testing.T) {
	type targets = []workv1alpha2.TargetCluster
	to := func(replicas int32, before ...string) []eviction.Return {
		return []eviction.Return{{Cluster: "a", Replicas: replicas, Before: before}}
	}
	cases := map[string]struct {
		current  targets
		returns  []eviction.Return
		replicas int32
		divided  bool
		want     targets
	}{
		"FromNewcomer":       {targets{{Name: "b", Replicas: 2}, {Name: "c", Replicas: 2}}, to(2, "a", "b"), 4, true, targets{{Name: "b", Replicas: 2}, {Name: "a", Replicas: 2}}},
		"FromAll":            {targets{{Name: "b", Replicas: 3}, {Name: "c", Replicas: 1}}, to(2, "a", "b", "c"), 4, true, targets{{Name: "b", Replicas: 1}, {Name: "c", Replicas: 1}, {Name: "a", Replicas: 2}}},
		"NewcomerThenOthers": {targets{{Name: "b", Replicas: 3}, {Name: "c", Replicas: 1}}, to(2, "a", "b"), 4, true, targets{{Name: "b", Replicas: 2}, {Name: "a", Replicas: 2}}},
		"SomeMissing":        {targets{{Name: "b", Replicas: 3}}, to(2, "a", "b"), 4, true, targets{{Name: "b", Replicas: 2}, {Name: "a", Replicas: 2}}},
		"ScaledDownSince":    {targets{{Name: "b", Replicas: 1}}, to(2, "a", "b"), 1, true, targets{{Name: "a", Replicas: 1}}},
		"OneCopy":            {targets{{Name: "b", Replicas: 2}}, to(2, "a"), 2, false, targets{{Name: "a", Replicas: 2}}},
		"OneMoreCopy":        {targets{{Name: "b", Replicas: 2}}, to(2, "a", "b"), 2, false, targets{{Name: "b", Replicas: 2}, {Name: "a", Replicas: 2}}},
		"Nowhere":            {nil, to(2, "a"), 2, true, targets{{Name: "a", Replicas: 2}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, eviction.Returned(tc.current, tc.returns, tc.replicas, tc.divided)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
