package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Config describes what to carry and where to show it.
type Config struct {
	// Hub reaches the control plane.
	Hub *rest.Config
	// Namespace is where objects go whose manifest names none.
	Namespace string
	// Manifests hold one object each.
	Manifests [][]byte
	// Out receives a table that is drawn over itself if Redraw, else a line for each step.
	Out    io.Writer
	Redraw bool
}

var bindings = schema.GroupVersionResource{Group: workv1alpha2.GroupVersion.Group, Version: workv1alpha2.GroupVersion.Version, Resource: "resourcebindings"}

// Run applies the manifests and shows how they fare until the status of each is back. If the context ends first, the
// error states what was missing.
func Run(ctx context.Context, c Config) error {
	client, err := dynamic.NewForConfig(c.Hub)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	objects, err := apply(ctx, c.Hub, client, c.Namespace, c.Manifests)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, c.Namespace, nil)
	defer factory.Shutdown()
	defer stop()
	w, err := watch(watching, factory, objects)
	if err != nil {
		return err
	}
	s := &screen{out: c.Out, redraw: c.Redraw}
	for {
		journeys, err := w.journeys()
		if err != nil {
			return err
		}
		s.show(journeys)
		open := unfinished(journeys)
		if open == nil {
			return nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), open)
		}
	}
}

// unfinished is what the journeys miss, in one line; nil when all are over.
func unfinished(journeys []journey) error {
	var open []string
	for _, j := range journeys {
		if j.missing != "" {
			open = append(open, j.name+": "+j.missing)
		}
	}
	if open == nil {
		return nil
	}
	return errors.New(strings.Join(open, "; "))
}

// watcher keeps the travelling objects and the bindings of their namespace at hand.
type watcher struct {
	objects []applied
	caches  map[schema.GroupVersionResource]cache.Indexer
	changed chan struct{}
}

func watch(ctx context.Context, factory dynamicinformer.DynamicSharedInformerFactory, objects []applied) (*watcher, error) {
	w := &watcher{caches: map[schema.GroupVersionResource]cache.Indexer{}, changed: make(chan struct{}, 1)}
	if err := w.follow(factory, bindings); err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.isPolicy() {
			continue
		}
		w.objects = append(w.objects, o)
		if err := w.follow(factory, o.resource); err != nil {
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return w, nil
}

func (w *watcher) follow(factory dynamicinformer.DynamicSharedInformerFactory, r schema.GroupVersionResource) error {
	if w.caches[r] != nil {
		return nil
	}
	informer := factory.ForResource(r).Informer()
	notify := func() {
		select {
		case w.changed <- struct{}{}:
		default: // a change is pending already
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(_, _ any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", r.Resource, err)
	}
	w.caches[r] = informer.GetIndexer()
	return nil
}

func (w *watcher) journeys() ([]journey, error) {
	out := make([]journey, 0, len(w.objects))
	for _, o := range w.objects {
		namespace, name, kind := o.object.GetNamespace(), o.object.GetName(), o.object.GetKind()
		template, err := w.get(o.resource, namespace, name)
		if err != nil {
			return nil, err
		}
		raw, err := w.get(bindings, namespace, workv1alpha2.BindingName(kind, name))
		if err != nil {
			return nil, err
		}
		var binding *workv1alpha2.ResourceBinding
		if raw != nil {
			binding = &workv1alpha2.ResourceBinding{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, binding); err != nil {
				return nil, fmt.Errorf("reading the binding of %s: %w", name, err)
			}
		}
		out = append(out, look(kind, name, template, binding))
	}
	return out, nil
}

// get returns nil for an object that does not exist.
func (w *watcher) get(r schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	object, exists, err := w.caches[r].GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !exists {
		return nil, err
	}
	return object.(*unstructured.Unstructured), nil
}
