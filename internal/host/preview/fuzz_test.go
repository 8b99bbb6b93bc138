package preview_test

import (
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/preview/offline"
	"github.com/flagship-k8s/flagship/internal/host/preview/summary"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// FuzzChange: whatever a manifest has, a preview ends, with an answer or an error.
func FuzzChange(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"t0","namespace":"shop"},"data":{"key":"other"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"t1","namespace":"shop"},"spec":{"replicas":"many","template":[]}}`,
		`{"apiVersion":"cluster.karmada.io/v1alpha1","kind":"Cluster","metadata":{"name":"m0"},"spec":{"taints":[{"key":"x","effect":"NoExecute"}]}}`,
		`{"apiVersion":"policy.karmada.io/v1alpha1","kind":"PropagationPolicy","metadata":{"name":"p","namespace":"shop"},"spec":{"resourceSelectors":[{"apiVersion":"v1","kind":"ConfigMap"}],"placement":{"clusterAffinity":{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Bad"}]}}}}}`,
		`{"apiVersion":"policy.karmada.io/v1alpha1","kind":"OverridePolicy","metadata":{"name":"o","namespace":"shop"},"spec":{"overrideRules":[{"overriders":{"plaintext":[{"path":"/spec/x/y","operator":"add","value":1}]}}]}}`,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.b.c"},"spec":{"group":"b.c","names":{"kind":"A","plural":"a"},"scope":"Cluster","versions":[{"name":"v1","served":true}]}}`,
		`{"apiVersion":"a/b/c","kind":"X","metadata":{"name":"x"}}`, `{"apiVersion":"work.karmada.io/v1alpha1","kind":"Work","metadata":{"name":"x"}}`, `[]`, `{"kind":"List","items":[1]}`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	kinds, err := offline.ReadKinds(clock.RealClock{})
	if err != nil {
		f.Fatal(err)
	}
	fleet := random{rand.New(rand.NewPCG(7, 1))}.fleet()
	f.Fuzz(func(t *testing.T, manifest []byte, remove bool) {
		hub, err := control(t.Context(), kinds, fleet, "")
		if err != nil {
			t.Fatal(err)
		}
		spec := fleetv1alpha1.PreviewSpec{Apply: []runtime.RawExtension{{Raw: manifest}}}
		if remove {
			spec.Delete = []fleetv1alpha1.ObjectIdentity{{APIVersion: string(manifest), Kind: "Deployment", Name: "t1"}}
		}
		var status fleetv1alpha1.PreviewStatus
		bounded.Run(t, func() { status, err = outcome(t.Context(), hub.Run, hub, spec) })
		if err == nil {
			summary.Complete(&status)
			if status.Changes && len(status.Refused)+len(status.Objects) == 0 {
				t.Errorf("changes without an object: %+v", status)
			}
		}
	})
}
