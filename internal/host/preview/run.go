package preview

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flagship-k8s/flagship/api"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/crds"
	"github.com/flagship-k8s/flagship/internal/features/evict"
	"github.com/flagship-k8s/flagship/internal/features/namespaces"
	"github.com/flagship-k8s/flagship/internal/features/resourceclaims"
	flagshipadmission "github.com/flagship-k8s/flagship/internal/host/admission"
	"github.com/flagship-k8s/flagship/internal/host/preview/loops"
	"github.com/flagship-k8s/flagship/internal/host/preview/overlay"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/policies"
	"github.com/flagship-k8s/flagship/internal/pipeline/render"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
)

const (
	// maxSteps bounds the reconciles of one preview.
	maxSteps = 200_000
	// maxPauses bounds how often time advances while evictions are held.
	maxPauses = 100
	// pause is by how much time advances: less than what the guard of evictions takes for a jump of the clock.
	pause = 15 * time.Second
)

// Config is what a Run is made of.
type Config struct {
	// Hub reads from the cache of the control plane, with the indexes of the loops. Nil: there is nothing but what is set.
	Hub client.Reader
	// Templates are those of the control plane. Nil: there are none but those set.
	Templates overlay.Store
	// Exclude leaves out templates besides those of hubstore.Excluded. Nil: none.
	Exclude func(hubstore.Ref) bool
	// Interpreter is that of the control plane. Required.
	Interpreter *interpret.Chained
	// Customized is that of propagate. Nil: no kind is customized.
	Customized func(schema.GroupVersionKind) string
	// Versions converts objects to other versions. Required.
	Versions crds.Converter
	// MayStore is that of render. Nil: there are no limits.
	MayStore func(namespace string, before, after *workv1alpha1.Work) error
	Evict    evict.Config
	// Clock is where time begins. Required.
	Clock clock.WithTicker
	// NewID returns a new UUID. Nil: a random one.
	NewID func() string
	// Salt makes the order in which the loops reconcile another one. The answer does not depend on it, unless objects compete for
	// capacity.
	Salt string
}

// Run is one preview. It is not safe for concurrent use.
type Run struct {
	Hub       *overlay.Hub
	Templates *overlay.Templates

	config     Config
	clock      *movable
	loops      []loops.Loop
	templates  *loops.Queue[hubstore.Ref]
	namespaces *loops.Queue[namespaces.Namespace]
	warnings   []events.Event
	problems   []error
	steps      int
	// evicted has the reasons of evictions that begin, by binding and cluster; they may have ended since.
	evicted map[client.ObjectKey]map[string]string
	// pauses is how often Settle still advances the clock.
	pauses int
}

// movable is a clock that a preview advances.
type movable struct {
	clock.WithTicker
	ahead time.Duration
}

// Now implements clock.PassiveClock.
func (c *movable) Now() time.Time { return c.WithTicker.Now().Add(c.ahead) }

// Since implements clock.PassiveClock.
func (c *movable) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// New returns a Run on the control plane as it is.
func New(ctx context.Context, config Config) (*Run, error) {
	if config.NewID == nil {
		config.NewID = uuid.NewString
	}
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	r := &Run{
		config: config, clock: &movable{WithTicker: config.Clock}, Templates: overlay.NewTemplates(config.Templates, config.Exclude),
		evicted:   map[client.ObjectKey]map[string]string{},
		templates: loops.NewQueue[hubstore.Ref](config.Salt), namespaces: loops.NewQueue[namespaces.Namespace](config.Salt),
	}
	r.Hub = overlay.NewHub(scheme, config.Hub, r.admit(), config.NewID, r.clock)
	if err := r.build(ctx); err != nil {
		return nil, err
	}
	if config.Hub == nil {
		return r, nil
	}
	return r, r.prime(ctx)
}

// Publish implements events.Recorder: warnings are a part of the answer.
func (r *Run) Publish(e events.Event) {
	if e.Type == "Warning" {
		r.warnings = append(r.warnings, e)
	}
}

// admit is the admission of what the loops write.
func (r *Run) admit() overlay.Admit {
	plugin := flagshipadmission.New(flagshipadmission.Config{NewID: r.config.NewID, Never: func(kind schema.GroupVersionKind, namespace, name string) bool {
		return hubstore.Excluded(hubstore.Ref{GroupVersionKind: kind, Namespace: namespace, Name: name})
	}})
	return func(ctx context.Context, kind schema.GroupVersionKind, object, old client.Object) error {
		return Admitted(ctx, plugin, kind, object, old, user.APIServerUser)
	}
}

// Admitted runs the admission of our kinds on an object that a user writes; old is nil for a new one.
func Admitted(ctx context.Context, plugin *flagshipadmission.Plugin, kind schema.GroupVersionKind, object, old client.Object, name string) error {
	operation, before := admission.Create, runtime.Object(nil)
	if old != nil {
		operation, before = admission.Update, old
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	attributes := admission.NewAttributesRecord(object, before, kind, object.GetNamespace(), object.GetName(), resource, "", operation,
		&metav1.CreateOptions{}, false, &user.DefaultInfo{Name: name})
	if err := plugin.Admit(ctx, attributes, nil); err != nil {
		return err
	}
	return plugin.Validate(ctx, attributes, nil)
}

// build makes the loops, in the order in which an object meets them.
func (r *Run) build(ctx context.Context) error {
	for _, index := range []func(context.Context, client.FieldIndexer) error{propagate.Indexes, render.Indexes, namespaces.Indexes} {
		if err := index(ctx, r.Hub); err != nil {
			return err
		}
	}
	changes := &interpret.Changes{}
	carrier, err := crds.New(crds.Deps{Templates: r.Templates, Versions: r.config.Versions, Works: r.Hub, Changes: changes})
	if err != nil {
		return fmt.Errorf("building the carrier of definitions: %w", err)
	}
	adviser := conversion.Chain(resourceclaims.Adviser{Store: r.Templates}, carrier)
	hasWorks := render.HasWorks(r.Hub)
	templates, selecting := propagate.Steps(propagate.Deps{
		Client: r.Hub, Templates: r.Templates, Interpreter: r.config.Interpreter, Customized: r.config.Customized, Conversion: adviser,
		HasWorks: hasWorks, Events: r, Clock: r.clock,
	}, r.templates)
	r.loops = []loops.Loop{
		loops.New("propagate", selecting, loops.NewQueue[policies.Request](r.config.Salt), r.problem),
		loops.New("propagate", templates, r.templates, r.problem),
		loops.New("namespaces", namespaces.Steps(namespaces.Deps{Client: r.Hub, Templates: r.Templates, Events: r, NewID: r.config.NewID}), r.namespaces, r.problem),
		loops.New("evict", evict.Steps(evict.Deps{
			Config: r.config.Evict, Client: r.Hub, Templates: r.Templates, EvictionRate: eviction.NewRate(0, r.clock, nil), Events: r, Clock: r.clock,
		}), loops.NewQueue[types.NamespacedName](r.config.Salt), r.problem),
		loops.New("schedule", schedule.Steps(schedule.Deps{Client: r.Hub, Events: r, Clock: r.clock, Conversion: adviser}), loops.NewQueue[types.NamespacedName](r.config.Salt), r.problem),
	}
	rendering := render.Steps(r.Hub, render.Deps{
		Templates: r.Templates, Interpreter: r.config.Interpreter, Conversion: adviser, Wanted: propagate.Wants(r.Hub, r.Templates, hasWorks),
		MayStore: r.config.MayStore, Events: r, Clock: r.clock, NewID: r.config.NewID,
	})
	for _, steps := range rendering {
		r.loops = append(r.loops, loops.New("render", steps, loops.NewQueue[reconcile.Request](r.config.Salt), r.problem))
	}
	r.Templates.OnChange(func(ref hubstore.Ref) {
		r.templates.Add(ref)
		if ref == hubstore.NamespaceRef(ref.Name) {
			r.namespaces.Add(namespaces.Namespace(ref.Name))
		}
	})
	return nil
}

func (r *Run) problem(err error) { r.problems = append(r.problems, err) }

// prime gives the loops what is there already. What was reconciled by the control plane is not reconciled again, but for bindings
// that wait for a place: the scheduler has to know them.
func (r *Run) prime(ctx context.Context) error {
	bound, err := hubclient.Bindings(ctx, r.config.Hub)
	if err != nil {
		return err
	}
	for _, l := range r.loops {
		if err := l.Settle(ctx); err != nil {
			return err
		}
		for _, binding := range bound {
			l.Changed(ctx, controlloop.Change{After: binding.(client.Object), Initial: true})
		}
		l.Drop()
	}
	for _, binding := range bound {
		if !meta.IsStatusConditionTrue(binding.BindingStatus().Conditions, workv1alpha2.Scheduled) {
			r.loops[scheduling].Changed(ctx, controlloop.Change{After: binding.(client.Object)})
		}
	}
	return r.Settle(ctx)
}

// scheduling is the place of the scheduler among the loops.
const scheduling = 4

// Settle has the loops reconcile until nothing is left to do. After a change of Clusters it advances the clock, since clusters are evicted
// from one after the other.
func (r *Run) Settle(ctx context.Context) error {
	settled := int64(-1)
	for {
		if err := r.drain(ctx); err != nil {
			return err
		}
		if now := r.Hub.Version() + r.Templates.Version(); now == settled {
			if r.pauses == 0 {
				return nil
			}
			r.pauses--
			r.clock.ahead += pause
		} else {
			settled = now
		}
		for _, l := range r.loops {
			if err := l.Settle(ctx); err != nil {
				return err
			}
		}
	}
}

// drain reconciles all requests, the earliest stage first.
func (r *Run) drain(ctx context.Context) error {
	for {
		if err := r.deliver(ctx); err != nil {
			return err
		}
		did := false
		for i := range r.loops {
			l := r.loops[i]
			if r.config.Salt != "" {
				l = r.loops[(i+r.steps*7)%len(r.loops)]
			}
			var err error
			if did, err = l.Step(ctx); err != nil {
				return err
			}
			if did {
				break
			}
		}
		if !did {
			return nil
		}
		if r.steps++; r.steps > maxSteps {
			return errors.New("the change concerns too many objects for a preview")
		}
	}
}

// deliver passes the changes to all loops. A Work that is deleted is gone at once, as after apply has removed its objects.
func (r *Run) deliver(ctx context.Context) error {
	for changes := r.Hub.TakeEvents(); len(changes) > 0; changes = r.Hub.TakeEvents() {
		for _, change := range changes {
			for _, l := range r.loops {
				l.Changed(ctx, change)
			}
			r.noteEvictions(change)
			if _, ok := change.After.(*clusterv1alpha1.Cluster); ok {
				r.pauses = min(r.pauses+2, maxPauses)
			}
			if work, ok := change.After.(*workv1alpha1.Work); ok && work.DeletionTimestamp != nil {
				if err := r.Hub.Remove(ctx, work); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Mark makes the present state the one that a change is compared with.
func (r *Run) Mark() {
	r.Hub.Mark()
	r.Templates.Mark()
	r.warnings, r.problems, r.evicted = nil, nil, map[client.ObjectKey]map[string]string{}
}
