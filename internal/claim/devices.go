package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/capacity"
	"github.com/flagship-k8s/flagship/internal/interpret"
	"github.com/flagship-k8s/flagship/internal/template"
)

// Devices returns a function that says what devices the object of a binding needs: those of the claims and claim
// templates that go along with it, or of the object itself if it is one. Claims are read with get, and only for a
// binding that has any. One that does not exist (yet) asks for nothing.
func Devices(get func(context.Context, template.Ref) (*unstructured.Unstructured, error)) func(context.Context, workv1alpha2.Binding) (capacity.DeviceNeeds, error) {
	return func(ctx context.Context, binding workv1alpha2.Binding) (capacity.DeviceNeeds, error) {
		needs := capacity.DeviceNeeds{Replica: capacity.Devices{}, Cluster: capacity.Devices{}}
		for _, ref := range claimsOf(binding) {
			obj, err := get(ctx, ref.Ref)
			switch {
			case apierrors.IsNotFound(err):
				continue
			case err != nil:
				return needs, fmt.Errorf("reading what devices it claims: %w", err)
			}
			switch {
			case ref.GroupVersionKind.Kind == resourcev1alpha2.KindResourceClaim:
				addDevices(needs.Cluster, requestsOf(obj, "spec"), 1)
			case ref.itself: // a template that goes alone claims nothing before pods come
				addDevices(needs.Cluster, requestsOf(obj, "spec", "spec"), 0)
			default:
				addDevices(needs.Replica, requestsOf(obj, "spec", "spec"), 1)
			}
		}
		return needs, nil
	}
}

// claimRef names a claim or claim template that matters to a binding; it may be the binding's own object.
type claimRef struct {
	template.Ref
	itself bool
}

func claimsOf(binding workv1alpha2.Binding) []claimRef {
	spec := binding.BindingSpec()
	own := template.Ref{
		GroupVersionKind: schema.FromAPIVersionAndKind(spec.Resource.APIVersion, spec.Resource.Kind),
		Namespace:        spec.Resource.Namespace, Name: spec.Resource.Name,
	}
	if IsClaim(own.GroupVersionKind) {
		return []claimRef{{own, true}}
	}
	raw := binding.GetAnnotations()[workv1alpha2.DependenciesAnnotation]
	if !spec.PropagateDeps || !strings.Contains(raw, resourcev1alpha2.KindResourceClaim) {
		return nil
	}
	var list []interpret.Dependency
	if json.Unmarshal([]byte(raw), &list) != nil {
		return nil // somebody's edit; the next change of the template repairs it
	}
	var refs []claimRef
	for _, d := range list {
		if kind := schema.FromAPIVersionAndKind(d.APIVersion, d.Kind); IsClaim(kind) && d.Name != "" {
			refs = append(refs, claimRef{Ref: template.Ref{GroupVersionKind: kind, Namespace: d.Namespace, Name: d.Name}})
		}
	}
	return refs
}

// IsClaim says that objects of a kind can ask for devices: claims and claim templates of any version.
func IsClaim(kind schema.GroupVersionKind) bool {
	return kind.Group == resourcev1alpha2.GroupName &&
		(kind.Kind == resourcev1alpha2.KindResourceClaim || kind.Kind == resourcev1alpha2.KindResourceClaimTemplate)
}

func addDevices(sum, more capacity.Devices, times int64) {
	for class, count := range more {
		sum[class] += count * times
	}
}

// requestsOf reads how many devices of each class the claim spec at a path asks for. Alternatives count for nothing:
// which of them is taken depends on the member.
func requestsOf(obj *unstructured.Unstructured, path ...string) capacity.Devices {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	spec, _ := value.(map[string]any)
	sum := capacity.Devices{}
	if class, _ := spec["resourceClassName"].(string); class != "" {
		sum[class] = 1
	}
	requests, _, _ := unstructured.NestedSlice(spec, "devices", "requests")
	for _, entry := range requests {
		request, _ := entry.(map[string]any)
		if exactly, ok := request["exactly"].(map[string]any); ok {
			request = exactly
		}
		class, _ := request["deviceClassName"].(string)
		if class == "" {
			continue
		}
		count := int64(1) // also for all devices of a node, which are one at least
		if n, ok := request["count"].(int64); ok && n > 0 {
			count = n
		}
		if admin, _ := request["adminAccess"].(bool); admin {
			count = 0 // it takes none, but the class has to exist
		}
		sum[class] += count
	}
	return sum
}
