package aggregate

import (
	"context"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// panicking has all templates and their metadata. It panics about each object named bad as often as panics has for the method.
type panicking struct {
	mu      sync.Mutex
	panics  map[string]int
	written map[string]bool
	noted   map[string]bool
}

func (p *panicking) maybe(method, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == "bad" && p.panics[method] > 0 {
		p.panics[method]--
		panic("an unexpected object")
	}
}

func (p *panicking) has(in map[string]bool, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return in[name]
}

func (*panicking) HasStatus(schema.GroupVersionKind) bool { return true }

func (*panicking) Supports(schema.GroupVersionKind, configv1alpha1.InterpreterOperation) bool {
	return true
}

func (p *panicking) Read(_ context.Context, ref hubstore.Ref, _ string) (*unstructured.Unstructured, error) {
	u := deployment()
	u.SetName(ref.Name)
	return u, nil
}

func (p *panicking) Finished(context.Context, *unstructured.Unstructured) (bool, error) {
	return false, nil
}

func (p *panicking) Aggregate(_ context.Context, obj *unstructured.Unstructured, _ []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	p.maybe("Aggregate", obj.GetName())
	return obj.DeepCopy(), nil
}

func (p *panicking) UpdateStatus(_ context.Context, _, after *unstructured.Unstructured) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written[after.GetName()] = true
	return true, nil
}

func (p *panicking) Follow(hubstore.Follower) {}

func (p *panicking) Meta(ref hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	p.maybe("Meta", ref.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noted[ref.Name] = true
	return nil, false
}

// bindingOf is the binding of a Deployment, which is in member a.
func bindingOf(name string) *workv1alpha2.ResourceBinding {
	b := binding()
	b.Name, b.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] = name+"-deployment", name
	b.Spec = specWith("a")
	b.Spec.Resource.Name = name
	return b
}

func workOf(name string) *workv1alpha1.Work {
	w := work("a", appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy))
	w.Name = workv1alpha1.WorkName("Deployment", "shop", name)
	w.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] = name
	w.Annotations[workv1alpha2.ResourceBindingNameAnnotation] = name + "-deployment"
	w.Status.ManifestStatuses[0].Identifier.Name = name
	return w
}

func runPanicking(t *testing.T, p *panicking, objects ...*workv1alpha2.ResourceBinding) client.Client {
	t.Helper()
	p.written, p.noted = map[string]bool{}, map[string]bool{}
	hub := newFixture(t, binding(), workOf("bad"), workOf("good")).client.(client.WithWatch)
	for _, b := range objects {
		if err := hub.Create(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		b.Status = binding().Status
		if err := hub.Status().Update(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	mgr := fleettest.Manager(t, hub)
	err := Setup(t.Context(), controlloop.NewSet(nil, clock.RealClock{}).Loop("aggregate").Manager(mgr), Deps{
		Client: hub, Templates: p, Statuses: p, Metadata: p, Events: events.RecorderFunc(func(events.Event) {}), Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	fleettest.Run(t, mgr)
	return hub
}

// TestAPanicAboutOneTemplateStopsNoOther: the status of the others is aggregated, and that of this one is when the panic is over.
func TestAPanicAboutOneTemplateStopsNoOther(t *testing.T) {
	before := fleettest.Panics(t, "aggregate")
	p := &panicking{panics: map[string]int{"Aggregate": 1000}}
	runPanicking(t, p, bindingOf("bad"), bindingOf("good"))
	fleettest.Eventually(t, "the status of the other template is written", func() bool { return p.has(p.written, "good") })
	fleettest.Eventually(t, "the template is tried again", func() bool { return fleettest.Panics(t, "aggregate")-before >= 3 })
	p.mu.Lock()
	p.panics["Aggregate"] = 0
	p.mu.Unlock()
	fleettest.Eventually(t, "its status is written after the panics", func() bool { return p.has(p.written, "bad") })
}

// TestAPanicAboutANewBindingStopsNoOther: it is noted when it is created, before it is reconciled.
func TestAPanicAboutANewBindingStopsNoOther(t *testing.T) {
	p := &panicking{panics: map[string]int{"Meta": 2}}
	hub := runPanicking(t, p, bindingOf("good"))
	fleettest.Eventually(t, "the loop runs", func() bool { return p.has(p.written, "good") })
	for _, name := range []string{"bad", "other"} {
		if err := hub.Create(t.Context(), bindingOf(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"other", "bad"} {
		fleettest.Eventually(t, name+" is noted", func() bool { return p.has(p.noted, name) })
	}
}
