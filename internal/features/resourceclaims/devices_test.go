package resourceclaims

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// hub is a control plane with these objects. It counts reads.
type hub struct {
	objects []*unstructured.Unstructured
	reads   int
	failure error
}

func (*hub) Subscribe(func(hubstore.Ref)) {}

func (h *hub) Get(_ context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	h.reads++
	if h.failure != nil {
		return nil, h.failure
	}
	for _, obj := range h.objects {
		if hubstore.RefOf(obj) == ref {
			return obj, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: ref.GroupVersionKind.Kind}, ref.Name)
}

// naming is the binding of a Deployment that needs claims or templates by kind and name, or of an object itself.
func naming(t *testing.T, pairs ...string) *workv1alpha2.ResourceBinding {
	t.Helper()
	b := &workv1alpha2.ResourceBinding{}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "d"}
	b.Spec.PropagateDeps = true
	var list []interpret.Dependency
	for i := 0; i < len(pairs); i += 2 {
		for _, version := range []string{"resource.k8s.io/v1", "resource.k8s.io/v1alpha2"} {
			list = append(list, interpret.Dependency{APIVersion: version, Kind: pairs[i], Namespace: "default", Name: pairs[i+1]})
		}
	}
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	b.Annotations = map[string]string{workv1alpha2.DependenciesAnnotation: string(raw)}
	return b
}

func itself(apiVersion, kind, name string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: "default", Name: name}
	return b
}

const todaysClaim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: several, namespace: default}
spec:
  devices:
    requests:
    - {name: two, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}
    - {name: all, exactly: {deviceClassName: net, allocationMode: All}}
    - {name: look, exactly: {deviceClassName: gpu, adminAccess: true, count: 5}}
    - {name: either, firstAvailable: [{name: a, deviceClassName: big}, {name: b, deviceClassName: small, count: 2}]}
`

func TestWhichDevicesAnObjectNeeds(t *testing.T) {
	unmarked := naming(t, "ResourceClaim", "gpu")
	unmarked.Spec.PropagateDeps = false
	garbled := naming(t)
	garbled.Annotations[workv1alpha2.DependenciesAnnotation] = "ResourceClaim"
	type needs struct {
		replica, cluster map[capacity.Class]int64
		choices          [][]capacity.Option
		missing          bool
	}
	old := func(n int64) map[capacity.Class]int64 {
		return map[capacity.Class]int64{{Name: "gpu.example.com", Old: true}: n}
	}
	gpu, net := capacity.Class{Name: "gpu"}, capacity.Class{Name: "net"}
	several := needs{cluster: map[capacity.Class]int64{gpu: 2, net: 1}, choices: [][]capacity.Option{{
		{Class: capacity.Class{Name: "big"}, Count: 1}, {Class: capacity.Class{Name: "small"}, Count: 2},
	}}}
	cases := map[string]struct {
		binding *workv1alpha2.ResourceBinding
		want    needs
		reads   int
	}{
		"nothing, and nothing is read":        {binding: naming(t)},
		"a shared claim is one for a cluster": {naming(t, "ResourceClaim", "gpu"), needs{cluster: old(1)}, 2},
		"a template is one for each replica":  {naming(t, "ResourceClaimTemplate", "gpu"), needs{replica: old(1)}, 2},
		"a claim of v1, with all requests":    {naming(t, "ResourceClaim", "several"), several, 2},
		"one that does not exist":             {naming(t, "ResourceClaim", "missing"), needs{missing: true}, 2},
		"one of two that do not exist":        {naming(t, "ResourceClaim", "gpu", "ResourceClaimTemplate", "missing"), needs{cluster: old(1), missing: true}, 4},
		"one that does not go along":          {binding: unmarked},
		"an annotation that is not valid":     {binding: garbled},
		"a claim that goes by itself":         {itself("resource.k8s.io/v1", "ResourceClaim", "several"), several, 1},
		"a template that goes by itself":      {itself("resource.k8s.io/v1alpha2", "ResourceClaimTemplate", "gpu"), needs{cluster: old(0)}, 1},
		"a claim of another API group":        {binding: itself("example.com/v1", "ResourceClaim", "gpu")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := &hub{objects: []*unstructured.Unstructured{fromYAML(t, plainClaim), fromYAML(t, claimTemplate), fromYAML(t, todaysClaim)}}
			got, err := (Adviser{Store: h}).Devices(t.Context(), c.binding)
			if err != nil {
				t.Fatal(err)
			}
			want := capacity.DeviceNeeds{
				Replica: capacity.Devices{Fixed: c.want.replica}, Cluster: capacity.Devices{Fixed: c.want.cluster, Choices: c.want.choices},
				Missing: c.want.missing,
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if h.reads != c.reads {
				t.Errorf("%d reads, want %d", h.reads, c.reads)
			}
		})
	}
	h := &hub{failure: errors.New("no answer")}
	if _, err := (Adviser{Store: h}).Devices(t.Context(), naming(t, "ResourceClaim", "gpu")); !errors.Is(err, h.failure) {
		t.Errorf("a claim that cannot be read gives %v", err)
	}
}
