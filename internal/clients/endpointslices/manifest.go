package endpointslices

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// TypeMeta is the type of a slice; objects of typed clients lack it.
var TypeMeta = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}

// dispatchedManagers are the values of the label managed-by on slices that came from another cluster. To record those too would send
// endpoints in circles.
var dispatchedManagers = []string{
	networkingv1alpha1.EndpointSliceDispatchControllerLabelValue, networkingv1alpha1.EndpointSliceControllerLabelValue,
}

// Collected returns the part of a slice that other clusters may have: addresses, conditions, ports, host names and zones. Nodes, pods and
// topology hints mean nothing outside the cluster. It is nil for a slice that is not to be recorded.
func Collected(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	if slice.Labels[discoveryv1.LabelServiceName] == "" || slices.Contains(dispatchedManagers, slice.Labels[discoveryv1.LabelManagedBy]) {
		return nil
	}
	out := &discoveryv1.EndpointSlice{
		TypeMeta:    TypeMeta,
		ObjectMeta:  metav1.ObjectMeta{Namespace: slice.Namespace, Name: slice.Name, Labels: map[string]string{}},
		AddressType: slice.AddressType,
		Ports:       slice.Ports,
		Endpoints:   make([]discoveryv1.Endpoint, 0, len(slice.Endpoints)),
	}
	// The label of headless Services makes proxies ignore slices that are for DNS only.
	if _, headless := slice.Labels[corev1.IsHeadlessService]; headless {
		out.Labels[corev1.IsHeadlessService] = ""
	}
	for _, key := range []string{discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy} {
		if value, ok := slice.Labels[key]; ok {
			out.Labels[key] = value
		}
	}
	for _, e := range slice.Endpoints {
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
			Addresses: e.Addresses, Conditions: e.Conditions, Hostname: e.Hostname, Zone: e.Zone,
		})
	}
	return out
}

// Dispatched returns a recorded slice as consumers get it. No endpoint of a provider that is expired is ready.
func Dispatched(slice *discoveryv1.EndpointSlice, name string, expired bool) *discoveryv1.EndpointSlice {
	out := slice.DeepCopy()
	out.TypeMeta = TypeMeta
	out.Name = name
	out.Labels[discoveryv1.LabelManagedBy] = networkingv1alpha1.EndpointSliceDispatchControllerLabelValue
	if expired {
		for i := range out.Endpoints {
			out.Endpoints[i].Conditions.Ready = new(false)
			out.Endpoints[i].Conditions.Serving = new(false)
		}
	}
	return out
}

// DistinctName is the name of a provider's slice in other clusters: the given name, which begins with that of the provider. If the
// name of one cluster is the first part of another's, as with "eu" and "eu-west", two slices could have one name, so a hash is added to
// those of the longer one, and to those of the shorter one that begin with the rest; also if the name is too long.
func DistinctName(name, provider, slice string, registered []string) string {
	const longest = 253
	ambiguous := slices.ContainsFunc(registered, func(other string) bool {
		rest, longer := strings.CutPrefix(other, provider+"-")
		return strings.HasPrefix(provider, other+"-") || longer && strings.HasPrefix(slice, rest+"-")
	})
	if !ambiguous && len(name) <= longest {
		return name
	}
	hash := "-" + workv1alpha1.NameHash(provider+"/"+slice)
	return strings.TrimRight(name[:min(len(name), longest-len(hash))], "-.") + hash
}

// Encode returns the manifest of a slice.
func Encode(slice *discoveryv1.EndpointSlice) ([]byte, error) {
	raw, err := json.Marshal(slice)
	if err != nil {
		return nil, fmt.Errorf("encoding EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err)
	}
	return raw, nil
}

// DecodeRecord returns the slice of a record, reduced to what project keeps. A member's agent writes its records itself, so that nothing in
// one is certain.
func DecodeRecord(raw []byte, project func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	if len(raw) > bounds.MaxSliceBytes {
		return nil, fmt.Errorf("an EndpointSlice has %d bytes, and may have %d", len(raw), bounds.MaxSliceBytes)
	}
	slice, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	reduced := project(slice)
	if reduced == nil || slice.Kind != TypeMeta.Kind {
		return nil, fmt.Errorf("%s %s/%s is no EndpointSlice of a Service of its cluster", slice.Kind, slice.Namespace, slice.Name)
	}
	if err := Check(reduced); err != nil {
		return nil, fmt.Errorf("EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, err)
	}
	return reduced, nil
}

// Decode returns the slice of a manifest.
func Decode(raw []byte) (*discoveryv1.EndpointSlice, error) {
	slice := &discoveryv1.EndpointSlice{}
	if err := json.Unmarshal(raw, slice); err != nil {
		return nil, fmt.Errorf("reading an EndpointSlice: %w", err)
	}
	return slice, nil
}
