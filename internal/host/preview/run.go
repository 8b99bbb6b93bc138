package preview

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flagship-k8s/flagship/api"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/autoscaled"
	"github.com/flagship-k8s/flagship/internal/features/crds"
	"github.com/flagship-k8s/flagship/internal/features/enroll"
	"github.com/flagship-k8s/flagship/internal/features/evict"
	"github.com/flagship-k8s/flagship/internal/features/mcs"
	"github.com/flagship-k8s/flagship/internal/features/namespaces"
	"github.com/flagship-k8s/flagship/internal/features/resourceclaims"
	"github.com/flagship-k8s/flagship/internal/features/taintpolicies"
	flagshipadmission "github.com/flagship-k8s/flagship/internal/host/admission"
	"github.com/flagship-k8s/flagship/internal/host/preview/autoscaling"
	"github.com/flagship-k8s/flagship/internal/host/preview/loops"
	"github.com/flagship-k8s/flagship/internal/host/preview/overlay"
	"github.com/flagship-k8s/flagship/internal/host/preview/scripts"
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
	// maxSteps bounds the reconciles of one preview, maxObjectBytes the objects of its change as they are and will be, and maxWorkBytes the manifests
	// that these become: twenty objects of 1 MB in a hundred clusters have 2 GB.
	maxSteps       = 200_000
	maxObjectBytes = 32 << 20
	maxWorkBytes   = 128 << 20
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
	// Customized is the part of it that users wrote, and Scripts the layer in both that has their ResourceInterpreterCustomizations. Nil: no
	// kind is customized.
	Customized *interpret.Chained
	Scripts    interpret.Layer
	// Versions converts objects to other versions. Required.
	Versions crds.Converter
	// MayStore is that of render. Nil: there are no limits.
	MayStore func(namespace string, before, after *workv1alpha1.Work) error
	// TokenKey is that of compose.Composer.
	TokenKey string
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

	config Config
	// later is the clock of evictions, and of render, which counts from when they begin. Function foresee advances it.
	later     *movable
	evictions *loops.Queue[types.NamespacedName]
	loops     []loops.Loop
	// leaving is the loop of evictions.
	leaving, scheduler loops.Loop
	renderers          []loops.Loop
	templates          *loops.Queue[hubstore.Ref]
	warnings           []events.Event
	problems           []error
	steps              int
	bytes              int // of the objects of the change, as they are and will be
	scripts            *scripts.Layer
	// interpreter and customized are those of Config with scripts in them, and changes has the kinds whose meaning changes.
	interpreter, customized *interpret.Chained
	changes                 *interpret.Changes
	// meanings are kinds that changed, and whose objects are not reconciled again yet.
	meanings []interpret.Kinds
	noted
}

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
		config: config, later: &movable{WithTicker: config.Clock}, Templates: overlay.NewTemplates(config.Templates, config.Exclude),
		templates: loops.NewQueue[hubstore.Ref](config.Salt, config.Clock),
		scripts:   scripts.New(config.Scripts), changes: &interpret.Changes{}, noted: newNoted(),
	}
	r.evictions = loops.NewQueue[types.NamespacedName](config.Salt, r.later)
	r.interpreter, r.customized = config.Interpreter.With(config.Scripts, r.scripts), interpret.Chain()
	if config.Customized != nil {
		r.customized = config.Customized.With(config.Scripts, r.scripts)
	}
	r.Hub = overlay.NewHub(scheme, config.Hub, r.admit(), config.NewID, config.Clock)
	if err := r.build(ctx); err != nil {
		return nil, err
	}
	if config.Hub == nil {
		return r, nil
	}
	return r, r.prime(ctx)
}

// NewID returns a new UUID.
func (r *Run) NewID() string { return r.config.NewID() }

// Now is when the change is made.
func (r *Run) Now() time.Time { return r.config.Clock.Now() }

// Upon is the Config of a preview for which this run is the control plane. Clock, NewID, Salt and Evict are those of this run.
func (r *Run) Upon() Config {
	config := r.config
	config.Hub, config.Templates, config.Interpreter, config.Customized, config.Scripts = r.Hub, r.Templates, r.interpreter, r.customized, r.scripts
	return config
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
	for _, index := range []func(context.Context, client.FieldIndexer) error{propagate.Indexes, render.Indexes, namespaces.Indexes, mcs.Indexes} {
		if err := index(ctx, r.Hub); err != nil {
			return err
		}
	}
	carrier, err := crds.New(crds.Deps{Templates: r.Templates, Versions: r.config.Versions, Works: r.Hub, Changes: r.changes})
	if err != nil {
		return fmt.Errorf("building the carrier of definitions: %w", err)
	}
	r.changes.Subscribe(func(kinds interpret.Kinds) { r.meanings = append(r.meanings, kinds) })
	adviser := conversion.Chain(resourceclaims.Adviser{Store: r.Templates}, carrier)
	hasWorks := render.HasWorks(r.Hub)
	clk := r.config.Clock
	templates, selecting := propagate.Steps(propagate.Deps{
		Client: r.Hub, Templates: r.Templates, Interpreter: r.interpreter, Customized: propagate.Rules(r.customized), Conversion: adviser,
		HasWorks: hasWorks, Events: r, Clock: clk,
	}, r.templates)
	r.loops = []loops.Loop{
		loops.New("enroll", enroll.Steps(r.Hub, r), requests(r), r.problem),
		loops.New("taint policies", taintpolicies.Steps(taintpolicies.Deps{Client: r.Hub, Events: r, Clock: clk}), requests(r), r.problem),
		loops.New("propagate", selecting, loops.NewQueue[policies.Request](r.config.Salt, clk), r.problem),
		loops.New("propagate", templates, r.templates, r.problem),
	}
	r.leaving = loops.New("evict", evict.Steps(evict.Deps{
		Config: func() evict.Config { return unpaced(r.config.Evict) }, Client: r.Hub, Templates: r.Templates,
		EvictionRate: eviction.NewRate(func() float64 { return atOnce }, r.later, nil), Events: r, Clock: r.later,
	}), r.evictions, r.problem)
	r.loops = append(r.loops, r.fromTemplates()...)
	r.scheduler = loops.New("schedule", schedule.Steps(schedule.Deps{
		Client: r.Hub, Events: r, Clock: clk, Conversion: adviser, NoExecute: r.config.Evict.NoExecute,
	}),
		loops.NewQueue[types.NamespacedName](r.config.Salt, clk), r.problem)
	r.loops = append(r.loops, r.leaving, r.scheduler)
	rendering := render.Steps(r.Hub, render.Deps{
		Templates: r.Templates, Interpreter: r.interpreter, Conversion: adviser, Wanted: propagate.Recreates(r.Hub, r.Templates, hasWorks),
		MayStore: r.config.MayStore, TokenKey: r.config.TokenKey, Events: r, Clock: r.later, NewID: r.config.NewID, EvictionTimeout: func() time.Duration { return 0 },
	})
	for _, steps := range rendering {
		r.renderers = append(r.renderers, loops.New("render", steps, requests(r), r.problem))
	}
	r.loops = append(r.loops, r.renderers...)
	return nil
}

// fromTemplates makes the loops to which the owner brings the templates that change.
func (r *Run) fromTemplates() []loops.Loop {
	services, grace := requests(r), func() time.Duration { return endpointslices.DefaultGrace }
	targets := loops.NewQueue[hubstore.Ref](r.config.Salt, r.config.Clock)
	hpas := autoscaling.New(r.Templates, targets)
	spaces := loops.NewQueue[namespaces.Namespace](r.config.Salt, r.config.Clock)
	r.Templates.OnChange(func(ref hubstore.Ref) {
		r.templates.Add(ref)
		hpas.Changed(ref)
		if service, ok := mcs.Request(ref); ok {
			services.Add(service)
		}
		if ref == hubstore.NamespaceRef(ref.Name) {
			spaces.Add(namespaces.Namespace(ref.Name))
		}
	})
	return []loops.Loop{
		loops.New("namespaces", namespaces.Steps(namespaces.Deps{Client: r.Hub, Templates: r.Templates, Events: r, NewID: r.config.NewID}), spaces, r.problem),
		loops.New("autoscaled", autoscaled.Steps(r.Templates, hpas.In), targets, r.problem),
		loops.New("service", mcs.Steps(mcs.Deps{Client: r.Hub, Templates: r.Templates, Events: r, Clock: r.config.Clock, Grace: grace}), services, r.problem),
	}
}

// requests is the queue of a loop over objects by their names.
func requests(r *Run) *loops.Queue[reconcile.Request] {
	return loops.NewQueue[reconcile.Request](r.config.Salt, r.config.Clock)
}

func (r *Run) problem(err error) { r.problems = append(r.problems, err) }

// prime gives the loops what is there already. What was reconciled by the control plane is not reconciled again, but for bindings
// that wait for a place, and those in clusters that fail: the scheduler and the guard of evictions need them.
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
		r.leaving.Changed(ctx, controlloop.Change{After: binding.(client.Object), Initial: true})
		if !meta.IsStatusConditionTrue(binding.BindingStatus().Conditions, workv1alpha2.Scheduled) {
			r.scheduler.Changed(ctx, controlloop.Change{After: binding.(client.Object)})
		}
	}
	return r.Settle(ctx)
}

// Settle has the loops reconcile until nothing is left to do now. What a reconcile has in memory alone, such as which evictions wait, is
// reported when the loops settle once more.
func (r *Run) Settle(ctx context.Context) error {
	settled, quiet := int64(-1), 0
	for {
		if err := r.drain(ctx); err != nil {
			return err
		}
		now := r.Hub.Version() + r.Templates.Version()
		if quiet++; now != settled {
			settled, quiet = now, 0
		} else if quiet > 1 {
			return nil
		}
		if err := r.takeMeanings(ctx); err != nil {
			return err
		}
		for _, l := range r.loops {
			if err := l.Settle(ctx); err != nil {
				return err
			}
		}
	}
}

// ofClusters is how many loops, the first ones, make Clusters what they are. They come first in every order: a change counts as made at once.
const ofClusters = 2

// drain reconciles all requests, the earliest stage first.
func (r *Run) drain(ctx context.Context) error {
	for {
		if err := r.deliver(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil { // what is in memory does not read it
			return fmt.Errorf("computing what the change does: %w", err)
		}
		did := false
		for i := range r.loops {
			l := r.loops[i]
			if r.config.Salt != "" && i >= ofClusters {
				l = r.loops[ofClusters+(i+r.steps*7)%(len(r.loops)-ofClusters)]
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
			return apierrors.NewRequestEntityTooLargeError("the change concerns too many objects for a preview")
		}
		if r.Hub.Bytes() > maxWorkBytes {
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
				"the copies that the change concerns have more than %d bytes together: preview fewer objects, or smaller ones", maxWorkBytes))
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
			r.note(change, r.later.ahead)
			if scripts.Concerns(change) {
				if err := r.interpretAnew(ctx); err != nil {
					return err
				}
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

// interpretAnew has the objects be interpreted again that a change of customizations concerns.
func (r *Run) interpretAnew(ctx context.Context) error {
	kinds, err := r.scripts.Update(ctx, r.config.Hub, r.Hub)
	if changed := sets.New(kinds...); len(changed) > 0 {
		r.changes.Publish(changed.Has)
	}
	return err
}

// takeMeanings has the objects of kinds that changed be propagated and rendered again, as the store of templates and render do.
func (r *Run) takeMeanings(ctx context.Context) error {
	meanings := r.meanings
	if r.meanings = nil; len(meanings) == 0 {
		return nil
	}
	bound, err := hubclient.Bindings(ctx, r.Hub)
	for _, kinds := range meanings {
		r.Templates.Touch(kinds)
		for _, binding := range bound {
			if !kinds(binding.BindingSpec().Resource.GroupVersionKind()) {
				continue
			}
			for _, l := range r.renderers {
				l.Changed(ctx, controlloop.Change{After: binding.(client.Object)})
			}
		}
	}
	return err
}

// Mark makes the present state the one that a change is compared with. What waits for a time does so whatever the change, and is no part
// of it.
func (r *Run) Mark() {
	r.Hub.Mark()
	r.Templates.Mark()
	r.warnings, r.problems, r.noted = nil, nil, newNoted()
	for _, l := range r.loops {
		l.Rest()
	}
}
