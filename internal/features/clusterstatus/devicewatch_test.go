package clusterstatus

import (
	"testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func TestDevicesAreCountedWhereTheirClassesAre(t *testing.T) {
	list := func(served ...string) apiList {
		var l apiList
		for i := 0; i < len(served); i += 2 {
			l.enabled = append(l.enabled, clusterv1alpha1.APIEnablement{
				GroupVersion: served[i], Resources: []clusterv1alpha1.APIResource{{Kind: served[i+1]}},
			})
		}
		return l
	}
	today, before := []string{"resource.k8s.io/v1", "DeviceClass"}, []string{"resource.k8s.io/v1alpha2", "ResourceClass"}
	for name, c := range map[string]struct {
		apis apiList
		want bool
	}{
		"a cluster of today":          {list(today...), true},
		"one of the old model":        {list(before...), false},
		"one of both":                 {list(append(before, today...)...), true},
		"one that has other versions": {list("resource.k8s.io/v1beta1", "DeviceClass"), true},
		"one that has said nothing":   {list(), false},
	} {
		if got := countable(c.apis); got != c.want {
			t.Errorf("%s: countable is %v", name, got)
		}
	}
}
