package propagate

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/bindings"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// panicsAbout is an interpreter that panics about the object named bad.
type panicsAbout struct {
	*interpret.Chained
	panics *atomic.Bool
}

func (p panicsAbout) Replicas(ctx context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	if obj.GetName() == "bad" && p.panics.Load() {
		panic("an unexpected object")
	}
	return p.Chained.Replicas(ctx, obj)
}

// lockedTemplates are templates for several workers. Subscribers are notified of all of them.
type lockedTemplates struct {
	*fakeTemplates
	mu sync.Mutex
}

func (l *lockedTemplates) Subscribe(notify func(hubstore.Ref)) {
	for ref := range l.objects {
		notify(ref)
	}
}

func (l *lockedTemplates) Meta(ref hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fakeTemplates.Meta(ref)
}

func (l *lockedTemplates) List(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*metav1.PartialObjectMetadata {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fakeTemplates.List(gvk, namespace, selector)
}

func (l *lockedTemplates) Get(ctx context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fakeTemplates.Get(ctx, ref)
}

func (l *lockedTemplates) Read(ctx context.Context, ref hubstore.Ref, _ string) (*unstructured.Unstructured, error) {
	return l.Get(ctx, ref)
}

func (l *lockedTemplates) PatchMetadata(ctx context.Context, ref hubstore.Ref, patch []byte) (*unstructured.Unstructured, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fakeTemplates.PatchMetadata(ctx, ref, patch)
}

// TestAPanicAboutOneTemplateStopsNoOther: the other template gets its binding, and this one gets it once the panics end.
func TestAPanicAboutOneTemplateStopsNoOther(t *testing.T) {
	h := newHub(t, pp("p"))
	bad, good := h.deployment("bad"), h.deployment("good")
	h.templates.note = func(string, string) {}
	hub := h.client.(client.WithWatch)
	mgr, before := fleettest.Manager(t, hub), fleettest.Panics(t, "propagate")
	interpreter := panicsAbout{interpret.Chain(builtin.New(clock.RealClock{})), &atomic.Bool{}}
	interpreter.panics.Store(true)
	err := Setup(t.Context(), controlloop.NewSet(nil, clock.RealClock{}).Loop("propagate").Manager(mgr), Deps{
		Client: hub, Templates: &lockedTemplates{fakeTemplates: h.templates}, Interpreter: interpreter, Clock: clock.RealClock{},
		Events: events.RecorderFunc(func(events.Event) {}),
	})
	if err != nil {
		t.Fatal(err)
	}
	fleettest.Run(t, mgr)
	fleettest.Eventually(t, "the other template has a binding", func() bool { return !h.bindingGone(good) })
	fleettest.Eventually(t, "the template is tried again", func() bool { return fleettest.Panics(t, "propagate")-before >= 3 })
	if !h.bindingGone(bad) {
		t.Errorf("there is a binding %s", bindings.Key(bad))
	}
	interpreter.panics.Store(false)
	fleettest.Eventually(t, "it has a binding after the panics", func() bool { return !h.bindingGone(bad) })
}
