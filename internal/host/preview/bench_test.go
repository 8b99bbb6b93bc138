package preview_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/preview/offline"
)

// BenchmarkPreview measures one answer about a new ConfigMap, with 100 clusters and 5,000 bindings to three of them.
func BenchmarkPreview(b *testing.B) {
	kinds, err := offline.ReadKinds(clock.RealClock{})
	if err != nil {
		b.Fatal(err)
	}
	r := random{rand.New(rand.NewPCG(1, 1))}
	var fleet []*unstructured.Unstructured
	for i := range 100 {
		c := r.cluster(i)
		c["spec"] = object{"syncMode": "Push"}
		fleet = append(fleet, unstructuredOf(c))
	}
	policy := named("PropagationPolicy", "policy.karmada.io/v1alpha1", "shop", "all")
	policy["spec"] = object{
		"resourceSelectors": []any{object{"apiVersion": "v1", "kind": "ConfigMap"}},
		"placement":         object{"clusterAffinity": object{"clusterNames": []any{"m0", "m1", "m2"}}},
	}
	fleet = append(fleet, unstructuredOf(policy))
	for i := range 5_000 {
		fleet = append(fleet, unstructuredOf(named("ConfigMap", "v1", "shop", fmt.Sprintf("c%d", i))))
	}
	hub, err := control(b.Context(), kinds, fleet, "")
	if err != nil {
		b.Fatal(err)
	}
	raw, err := json.Marshal(named("ConfigMap", "v1", "shop", "new"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		spec := fleetv1alpha1.PreviewSpec{Apply: []runtime.RawExtension{{Raw: raw}}}
		status, err := previewed(b.Context(), hub, spec)
		if err != nil || len(status.Placements) != 1 {
			b.Fatalf("%+v, error %v", status, err)
		}
	}
}
