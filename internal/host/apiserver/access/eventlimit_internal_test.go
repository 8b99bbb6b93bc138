package access

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// TestEventRateLimit exhausts the limit of one namespace as one user.
func TestEventRateLimit(t *testing.T) {
	limit, err := newEventRateLimit()
	if err != nil {
		t.Fatal(err)
	}
	tenant := &user.DefaultInfo{Name: "tenant"}
	write := func(group, namespace string, who user.Info) error {
		resource := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "events"}
		a := admission.NewAttributesRecord(nil, nil, resource.GroupVersion().WithKind("Event"), namespace, "e", resource, "", admission.Create, nil, false, who)
		return limit.Validate(t.Context(), a, nil)
	}
	var refusal error
	for range 10_000 { // far more than the burst and what is added meanwhile
		if refusal = write("events.k8s.io", "shop", tenant); refusal != nil {
			break
		}
	}
	if !apierrors.IsTooManyRequests(refusal) {
		t.Fatalf("a flood ends with %v, want TooManyRequests", refusal)
	}
	for _, c := range []struct {
		reason, group, namespace string
		who                      user.Info
		refused                  bool
	}{
		{"another user of the namespace has the same limit, in the core group too", "", "shop", &user.DefaultInfo{Name: "colleague"}, true},
		{"another namespace has its own", "", "bank", &user.DefaultInfo{Name: "neighbour"}, false},
		{"the control plane has none", "", "shop", &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}, false},
	} {
		refused := false
		for range 5 { // some are added while this runs
			refused = refused || write(c.group, c.namespace, c.who) != nil
		}
		if refused != c.refused {
			t.Errorf("%s: refused is %t, want %t", c.reason, refused, c.refused)
		}
	}
}

// TestAgentsShareNoLimitOfEvents exhausts the limit of one agent in the namespace in which all of them publish.
func TestAgentsShareNoLimitOfEvents(t *testing.T) {
	limit, err := newEventRateLimit()
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	write := func(cluster string) error {
		who := &user.DefaultInfo{Name: clusterv1alpha1.AgentUser(cluster), Groups: clusterv1alpha1.AgentGroups("1")}
		return limit.Validate(t.Context(), admission.NewAttributesRecord(nil, nil, resource.GroupVersion().WithKind("Event"), "default", "e", resource, "", admission.Create, nil, false, who), nil)
	}
	var refusal error
	for range 10_000 {
		if refusal = write("eu"); refusal != nil {
			break
		}
	}
	if !apierrors.IsTooManyRequests(refusal) {
		t.Fatalf("a flood ends with %v, want TooManyRequests", refusal)
	}
	if err := write("us"); err != nil {
		t.Errorf("the agent of another cluster is refused: %v", err)
	}
	tenant := &user.DefaultInfo{Name: "tenant"}
	if err := limit.Validate(t.Context(), admission.NewAttributesRecord(nil, nil, resource.GroupVersion().WithKind("Event"), "default", "e", resource, "", admission.Create, nil, false, tenant), nil); err != nil {
		t.Errorf("a user of the namespace is refused: %v", err)
	}
}
