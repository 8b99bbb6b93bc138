package endpointslices

import (
	"bytes"
	"fmt"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
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
	// Raw is the manifest of its record; nil for a slice that is refused.
	Raw []byte
	// Refused is why it is not recorded; empty if it is.
	Refused   string
	Service   types.NamespacedName
	Endpoints int
}

// Of matches the slices of a Service.
func Of(service types.NamespacedName) func(Slice) bool {
	return func(slice Slice) bool { return slice.Service == service }
}

// StartSlices watches the slices of a scope.
func StartSlices(group *memberwatch.Group, conn *member.Conn, s Scope, store *memberwatch.Store[Slice]) *memberwatch.Watch[Slice] {
	all := conn.Patient().Typed(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), s.Namespace)
	selected := memberwatch.Selecting(all, func(o *metav1.ListOptions) { o.LabelSelector = s.selector() })
	return memberwatch.Start(group, conn.Name()+"/"+types.NamespacedName(s).String()+"/endpointslices", selected.Within(bounds.EndpointSlices), store)
}

// NewSlices returns the store of a watch of slices. Project returns what a record has of a slice; nil if the slice does not matter.
func NewSlices(project func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice, changed func(types.NamespacedName), listed func()) *memberwatch.Store[Slice] {
	store := memberwatch.NewStore(func(slice *discoveryv1.EndpointSlice) (Slice, bool, error) {
		wanted := project(slice)
		if wanted == nil {
			return Slice{}, false, nil
		}
		kept := Slice{
			Service:   types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]},
			Endpoints: len(slice.Endpoints),
		}
		if err := Check(wanted); err != nil {
			kept.Refused = bounds.Message(err.Error())
			return kept, true, nil
		}
		raw, err := Encode(wanted)
		if len(raw) > bounds.MaxSliceBytes {
			kept.Refused = fmt.Sprintf("it has %d bytes, and may have %d", len(raw), bounds.MaxSliceBytes)
		} else {
			kept.Raw = raw
		}
		return kept, true, err
	}, changed, listed)
	store.Same = func(a, b Slice) bool { return a.Refused == b.Refused && bytes.Equal(a.Raw, b.Raw) }
	return store
}
