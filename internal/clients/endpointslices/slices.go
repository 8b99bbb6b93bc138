package endpointslices

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// Seen is what is known about one slice in a member.
type Seen struct {
	// raw is the record's manifest; nil if there is no such slice.
	Raw       []byte
	Service   types.NamespacedName
	Endpoints int
	// certain is false while not everything has been seen that could have the slice.
	Certain bool
}

// Scope is what one watch in a member sees: the slices that carry the mark of a claimed Service, in all namespaces, those
// of the one Service it names, or those of all Services in a namespace.
type Scope types.NamespacedName

// ScopeOf is the scope in which a Service's slices are seen. Where the member's own controller makes them it copies the
// labels of the Service, and with them our claim.
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
		return fmt.Sprintf("%s,%s notin (%s)", discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy, strings.Join(madeHere, ","))
	}
	return discoveryv1.LabelServiceName + "=" + s.Name
}

// Slice is what is remembered of a slice: the manifest of its record, a fraction of the slice in size.
type Slice struct {
	Raw       []byte
	Service   types.NamespacedName
	Endpoints int
}

// SliceWatch follows the slices of one scope.
type SliceWatch = Watch[Slice]

// StartSlices watches until ctx ends or stop is called. Project is what matters of a slice; nil for one that does not
// matter.
func StartSlices(ctx context.Context, conn *member.Conn, s Scope, project func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice, tell Handlers) (*SliceWatch, error) {
	discovery, err := discoveryclient.NewForConfigAndClient(Protobuf(conn), conn.PatientHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building a client for EndpointSlices: %w", err)
	}
	client := discovery.EndpointSlices(s.Namespace)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = s.selector()
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = s.selector()
			return client.Watch(ctx, options)
		},
	}
	return Start(ctx, conn, &discoveryv1.EndpointSlice{}, "endpointslices", lw, SliceView(project), tell), nil
}

// SliceView is what is kept of slices. Only what a record would have is news.
func SliceView(project func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice) View[Slice] {
	return View[Slice]{
		keep: func(obj any) (Slice, bool, error) {
			slice, ok := obj.(*discoveryv1.EndpointSlice)
			if !ok {
				return Slice{}, false, fmt.Errorf("keeping a %T: not an EndpointSlice", obj)
			}
			wanted := project(slice)
			if wanted == nil {
				return Slice{}, false, nil
			}
			raw, err := Encode(wanted)
			service := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
			return Slice{Raw: raw, Service: service, Endpoints: len(slice.Endpoints)}, true, err
		},
		same: func(a, b Slice) bool { return bytes.Equal(a.Raw, b.Raw) },
	}
}

// Protobuf is for clients of built-in kinds.
func Protobuf(conn *member.Conn) *rest.Config {
	config := conn.RESTConfig()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	return config
}

// OfService wants the slices of a Service.
func OfService(service types.NamespacedName) func(Slice) bool {
	return func(slice Slice) bool { return slice.Service == service }
}
