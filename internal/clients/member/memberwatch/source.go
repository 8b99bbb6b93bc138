package memberwatch

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Source is how objects are listed and watched.
type Source struct {
	// List reads a page.
	List func(context.Context, metav1.ListOptions) (runtime.Object, error)
	// Watch begins a watch, which ends with the context.
	Watch func(context.Context, metav1.ListOptions) (Stream, error)
	// Lists bounds how many lists are read at a time, those of other sources included. Nil: there is no bound.
	Lists *controlloop.Limiter
	// Accounts are those of the member. Nil: what is shown has no bound.
	Accounts *bounds.Accounts
	// Account is that of what is kept. Nil: there is no bound.
	Account *bounds.Account
}

// Within bounds what is kept of what a source shows.
func (s Source) Within(row bounds.Row) Source {
	s.Account = s.Accounts.Of(row, nil)
	return s
}

// WithinMost is Within with a bound in place of that of the row.
func (s Source) WithinMost(row bounds.Row, most func() bounds.Amount) Source {
	s.Account = s.Accounts.Of(row, most)
	return s
}

// Stream is a watch that has begun. Its events are read and decoded by the goroutine that calls Next; a watch.Interface has another one for
// that.
type Stream interface {
	// Next waits for an event. The error is io.EOF when the watch has ended.
	Next() (watch.Event, error)
	Close()
}

// Selecting changes the options of every list and watch.
func Selecting(source Source, set func(*metav1.ListOptions)) Source {
	list, begin := source.List, source.Watch
	source.List = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		set(&o)
		return list(ctx, o)
	}
	source.Watch = func(ctx context.Context, o metav1.ListOptions) (Stream, error) {
		set(&o)
		return begin(ctx, o)
	}
	return source
}

// Filtered changes the events of a stream, and leaves out those for which change returns false.
func Filtered(stream Stream, change func(watch.Event) (watch.Event, bool)) Stream {
	return filtered{stream, change}
}

type filtered struct {
	Stream
	change func(watch.Event) (watch.Event, bool)
}

// Next implements Stream.
func (f filtered) Next() (watch.Event, error) {
	for {
		event, err := f.Stream.Next()
		if err != nil {
			return event, err
		}
		if event, needed := f.change(event); needed {
			return event, nil
		}
	}
}

// FromClient is the source of a client that has a watch.Interface. Its watches have a goroutine more than those of a Client.
func FromClient[L runtime.Object](
	accounts *bounds.Accounts, list func(context.Context, metav1.ListOptions) (L, error),
	begin func(context.Context, metav1.ListOptions) (watch.Interface, error),
) Source {
	return Source{
		Accounts: accounts,
		List:     func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) },
		Watch: func(ctx context.Context, o metav1.ListOptions) (Stream, error) {
			running, err := begin(ctx, o)
			if err != nil {
				return nil, err
			}
			return received{running}, nil
		},
	}
}

// Client lists and watches resources of any kind.
type Client struct {
	rest     rest.Interface
	lists    *controlloop.Limiter
	accounts *bounds.Accounts
	// large is held while a large answer or event is decoded: one at a time, since it takes many times its size then.
	large *sync.Mutex
}

// largeBytes is what is large. Objects that people write are smaller, and are decoded side by side.
const largeBytes = 256 << 10

// NewClient returns a client that decodes the kinds of Kubernetes, and names them in errors. Lists are the limit of its sources, and the
// accounts are those of the member.
func NewClient(client rest.Interface, lists *controlloop.Limiter, accounts *bounds.Accounts) Client {
	return Client{client, lists, accounts, &sync.Mutex{}}
}

// Typed has objects of Kubernetes' own kinds, which are requested as protobuf.
func (c Client) Typed(resource schema.GroupVersionResource, namespace string) Source {
	accept := runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return c.source(resource, namespace, accept, accept, func(raw []byte) (runtime.Object, error) {
		return runtime.Decode(scheme.Codecs.UniversalDeserializer(), raw)
	})
}

// Metadata has PartialObjectMetadata of any kind.
func (c Client) Metadata(resource schema.GroupVersionResource, namespace string) Source {
	accept := func(kind string) string { return runtime.ContentTypeJSON + ";as=" + kind + ";g=meta.k8s.io;v=v1" }
	return c.source(resource, namespace, accept("PartialObjectMetadataList"), accept("PartialObjectMetadata"), decodeMetadata)
}

// Objects has unstructured objects of any kind.
func (c Client) Objects(resource schema.GroupVersionResource, namespace string) Source {
	return c.source(resource, namespace, runtime.ContentTypeJSON, runtime.ContentTypeJSON, func(raw []byte) (runtime.Object, error) {
		return runtime.Decode(unstructured.UnstructuredJSONScheme, raw)
	})
}

func decodeMetadata(raw []byte) (runtime.Object, error) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, fmt.Errorf("reading the kind of an object: %w", err)
	}
	var object runtime.Object
	switch kind.Kind {
	case "Status":
		object = &metav1.Status{}
	case "PartialObjectMetadataList":
		object = &metav1.PartialObjectMetadataList{}
	default:
		object = &metav1.PartialObjectMetadata{}
	}
	if err := json.Unmarshal(raw, object); err != nil {
		return nil, fmt.Errorf("reading a %s: %w", kind.Kind, err)
	}
	return object, nil
}

func (c Client) source(resource schema.GroupVersionResource, namespace, listed, watched string, decode func([]byte) (runtime.Object, error)) Source {
	path := []string{"/apis", resource.Group, resource.Version}
	if resource.Group == "" {
		path = []string{"/api", resource.Version}
	}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	path = append(path, resource.Resource)
	bounded := func(raw []byte, limit bounds.Limit) (runtime.Object, error) {
		if err := bounds.Values(raw, limit); err != nil {
			return nil, err
		}
		if len(raw) > largeBytes {
			c.large.Lock()
			defer c.large.Unlock()
		}
		return decode(raw)
	}
	request := func(accept string, o metav1.ListOptions) *rest.Request {
		return c.rest.Get().AbsPath(path...).SetHeader("Accept", accept).VersionedParams(&o, scheme.ParameterCodec)
	}
	return Source{
		List: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			result := request(listed, o).Do(ctx)
			if err := result.Error(); err != nil {
				return nil, err
			}
			raw, err := result.Raw()
			if err != nil {
				return nil, err
			}
			return bounded(raw, bounds.Page.Piece)
		},
		Watch: func(ctx context.Context, o metav1.ListOptions) (Stream, error) {
			o.Watch = true
			body, err := request(watched, o).Stream(ctx)
			if err != nil {
				return nil, err
			}
			return newStream(body, func(raw []byte) (runtime.Object, error) { return bounded(raw, bounds.Event.Piece) }), nil
		},
		Lists: c.lists, Accounts: c.accounts,
	}
}
