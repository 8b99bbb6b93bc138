package resourceclaims

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Adviser is what claims of resource.k8s.io mean for members.
type Adviser struct {
	conversion.Unchanged
	// Store reads claims, and has their changes; *hubstore.Store is one.
	Store interface {
		Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error)
		Subscribe(func(hubstore.Ref))
	}
}

var _ conversion.Adviser = Adviser{}

// Subscribe implements conversion.Adviser.
func (a Adviser) Subscribe(notify func(conversion.Change)) {
	a.Store.Subscribe(func(ref hubstore.Ref) {
		if isClaim(ref.GroupVersionKind) {
			notify(conversion.Change{Claim: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}})
		}
	})
}

// Devices implements conversion.Adviser: those of the claims and claim templates that go along with the object, or of the object
// itself if it is one. Claims are read from the API server, and only for a binding that has any. One that does not exist claims nothing.
func (a Adviser) Devices(ctx context.Context, binding workv1alpha2.Binding) (capacity.DeviceNeeds, error) {
	var needs capacity.DeviceNeeds
	exists := map[claimName]bool{}
	for _, ref := range claimsOf(binding) {
		name := claimName{ref.GroupVersionKind.Kind, ref.Namespace, ref.Name}
		obj, err := a.Store.Get(ctx, ref.Ref)
		if exists[name] = exists[name] || err == nil; apierrors.IsNotFound(err) {
			continue // as a rule one of the versions does not exist
		}
		if err != nil {
			return needs, fmt.Errorf("reading what devices it claims: %w", err)
		}
		switch {
		case ref.GroupVersionKind.Kind == resourcev1alpha2.KindResourceClaim:
			needs.Cluster.Add(requestsOf(obj, "spec"), 1)
		case ref.itself: // a template that goes alone claims nothing before pods come
			needs.Cluster.Add(requestsOf(obj, "spec", "spec"), 0)
		default:
			needs.Replica.Add(requestsOf(obj, "spec", "spec"), 1)
		}
	}
	for _, found := range exists {
		needs.Missing = needs.Missing || !found
	}
	return needs, nil
}

// claimName is how pods name a claim or claim template: without its version.
type claimName struct{ kind, namespace, name string }

// claimRef names a claim or claim template that matters to a binding; it may be the binding's own object.
type claimRef struct {
	hubstore.Ref
	itself bool
}

func claimsOf(binding workv1alpha2.Binding) []claimRef {
	spec := binding.BindingSpec()
	own := hubstore.TemplateOf(spec)
	if isClaim(own.GroupVersionKind) {
		return []claimRef{{own, true}}
	}
	raw := binding.GetAnnotations()[workv1alpha2.DependenciesAnnotation]
	if !spec.PropagateDeps || !strings.Contains(raw, resourcev1alpha2.KindResourceClaim) {
		return nil
	}
	var list []interpret.Dependency
	if json.Unmarshal([]byte(raw), &list) != nil {
		return nil // edited by a user; the next change of the template repairs it
	}
	var refs []claimRef
	for _, d := range list {
		if kind := schema.FromAPIVersionAndKind(d.APIVersion, d.Kind); isClaim(kind) && d.Name != "" {
			refs = append(refs, claimRef{Ref: hubstore.Ref{GroupVersionKind: kind, Namespace: d.Namespace, Name: d.Name}})
		}
	}
	return refs
}

// isClaim returns whether objects of a kind can claim devices: claims and claim templates of any version.
func isClaim(kind schema.GroupVersionKind) bool {
	return kind.Group == resourcev1alpha2.GroupName &&
		(kind.Kind == resourcev1alpha2.KindResourceClaim || kind.Kind == resourcev1alpha2.KindResourceClaimTemplate)
}

// requestsOf reads how many devices of each class the claim spec at a path requests.
func requestsOf(obj *unstructured.Unstructured, path ...string) capacity.Devices {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	spec, _ := value.(map[string]any)
	sum := capacity.Devices{Fixed: map[capacity.Class]int64{}}
	if class, _ := spec["resourceClassName"].(string); class != "" {
		sum.Fixed[capacity.Class{Name: class, Old: true}] = 1
	}
	requests, _, _ := unstructured.NestedSlice(spec, "devices", "requests")
	for _, entry := range requests {
		request, _ := entry.(map[string]any)
		if exactly, ok := request["exactly"].(map[string]any); ok {
			request = exactly
		}
		if option, ok := optionOf(request); ok {
			sum.Fixed[option.Class] += option.Count
		}
		if choice := choiceOf(request); len(choice) > 0 {
			sum.Choices = append(sum.Choices, choice)
		}
	}
	return sum
}

// choiceOf reads the alternatives of a request, the one wanted most first.
func choiceOf(request map[string]any) []capacity.Option {
	var choice []capacity.Option
	alternatives, _ := request["firstAvailable"].([]any)
	for _, entry := range alternatives {
		alternative, _ := entry.(map[string]any)
		if option, ok := optionOf(alternative); ok {
			choice = append(choice, option)
		}
	}
	return choice
}

// optionOf reads how many devices of which class one request is for.
func optionOf(request map[string]any) (capacity.Option, bool) {
	class, _ := request["deviceClassName"].(string)
	count := int64(1) // also for all devices of a node, which are one at least
	if n, ok := request["count"].(int64); ok && n > 0 {
		count = n
	}
	if admin, _ := request["adminAccess"].(bool); admin {
		count = 0 // it takes none, but the class has to exist
	}
	return capacity.Option{Class: capacity.Class{Name: class}, Count: count}, class != ""
}
