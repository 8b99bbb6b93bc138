package service

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

// scope is what one watch in a member sees: the slices that carry the mark of a claimed Service, in all namespaces, those
// of the one Service it names, or those of all Services in a namespace.
type scope types.NamespacedName

// scopeOf is the scope in which a Service's slices are seen. Where the member's own controller makes them it copies the
// labels of the Service, and with them our claim.
func scopeOf(service types.NamespacedName, selectorless bool) scope {
	if selectorless {
		return scope(service)
	}
	return scope{}
}

func (s scope) selector() string {
	switch {
	case s == (scope{}):
		return networkingv1alpha1.MultiClusterServicePermanentIDLabel
	case s.Name == "":
		return fmt.Sprintf("%s,%s notin (%s)", discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy, strings.Join(madeHere, ","))
	}
	return discoveryv1.LabelServiceName + "=" + s.Name
}

// kept is what is remembered of a slice: the manifest of its record, a fraction of the slice in size.
type kept struct {
	raw       []byte
	service   types.NamespacedName
	endpoints int
}

// sliceWatch follows the slices of one scope.
type sliceWatch = following[kept]

// startWatch watches until ctx ends or stop is called. Project is what matters of a slice; nil for one that does not
// matter.
func startWatch(ctx context.Context, conn *member.Conn, s scope, project func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice, tell followHandlers) (*sliceWatch, error) {
	discovery, err := discoveryclient.NewForConfigAndClient(inProtobuf(conn), conn.PatientHTTPClient())
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
	return follow(ctx, conn, &discoveryv1.EndpointSlice{}, "endpointslices", lw, keptSlices(project), tell), nil
}

// keptSlices is what is kept of slices. Only what a record would have is news.
func keptSlices(project func(*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice) view[kept] {
	return view[kept]{
		keep: func(obj any) (kept, bool, error) {
			slice, ok := obj.(*discoveryv1.EndpointSlice)
			if !ok {
				return kept{}, false, fmt.Errorf("keeping a %T: not an EndpointSlice", obj)
			}
			wanted := project(slice)
			if wanted == nil {
				return kept{}, false, nil
			}
			raw, err := encodeSlice(wanted)
			service := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
			return kept{raw: raw, service: service, endpoints: len(slice.Endpoints)}, true, err
		},
		same: func(a, b kept) bool { return bytes.Equal(a.raw, b.raw) },
	}
}

// inProtobuf is for clients of built-in kinds.
func inProtobuf(conn *member.Conn) *rest.Config {
	config := conn.RESTConfig()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	return config
}

// behind wants the slices of a Service.
func behind(service types.NamespacedName) func(kept) bool {
	return func(slice kept) bool { return slice.service == service }
}
