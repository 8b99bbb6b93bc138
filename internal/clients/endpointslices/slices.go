package endpointslices

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// Scope is which slices one watch in a member shows: those with the label of a claimed Service, in all namespaces; those of the one
// Service it names; or those of all Services in a namespace.
type Scope types.NamespacedName

// ScopeOf returns the scope that shows the slices of a Service. Where the member's own controller makes them, it copies the labels of
// the Service to them, and with these the claim.
func ScopeOf(service types.NamespacedName, selectorless bool) Scope {
	if selectorless {
		return Scope(service)
	}
	return Scope{}
}

func (s Scope) selector() string {
	switch {
	case s == (Scope{}):
		return networkingv1alpha1.MultiClusterServicePermanentIDLabel
	case s.Name == "":
		return fmt.Sprintf("%s,%s notin (%s)", discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy, strings.Join(dispatchedManagers, ","))
	}
	return discoveryv1.LabelServiceName + "=" + s.Name
}

// Slice is what a watch keeps of a slice. The zero value stands for a slice that does not exist.
type Slice struct {
	// Raw is the manifest of its record.
	Raw       []byte
	Service   types.NamespacedName
	Endpoints int
}

// Of matches the slices of a Service.
func Of(service types.NamespacedName) func(Slice) bool {
	return func(slice Slice) bool { return slice.Service == service }
}

// StartSlices watches the slices of a scope. Project returns what a record has of a slice; nil if the slice does not matter.
func StartSlices(ctx context.Context, watches *Watches, conn *member.Conn, s Scope, project func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice, handlers Handlers) (*Watch[Slice], error) {
	discovery, err := discoveryclient.NewForConfigAndClient(Protobuf(conn), conn.PatientHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building a client for EndpointSlices: %w", err)
	}
	client := discovery.EndpointSlices(s.Namespace)
	lw := ListWatch(
		func(ctx context.Context, o metav1.ListOptions) (*discoveryv1.EndpointSliceList, error) {
			o.LabelSelector = s.selector()
			return client.List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = s.selector()
			return client.Watch(ctx, o)
		})
	return Start(ctx, watches, conn, &discoveryv1.EndpointSlice{}, "endpointslices", lw, SliceView(project), handlers), nil
}

// SliceView keeps of slices what their records have.
func SliceView(project func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice) View[*discoveryv1.EndpointSlice, Slice] {
	return View[*discoveryv1.EndpointSlice, Slice]{
		Keep: func(slice *discoveryv1.EndpointSlice) (Slice, bool, error) {
			wanted := project(slice)
			if wanted == nil {
				return Slice{}, false, nil
			}
			raw, err := Encode(wanted)
			service := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
			return Slice{Raw: raw, Service: service, Endpoints: len(slice.Endpoints)}, true, err
		},
		Same: func(a, b Slice) bool { return bytes.Equal(a.Raw, b.Raw) },
	}
}
