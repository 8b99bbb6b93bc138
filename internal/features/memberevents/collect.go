package memberevents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

const (
	// waiting is how many Events of one member may wait. Further ones are dropped; those that matter are repeated.
	waiting = 2048 // as bounds.Events says
	// gathering is how long after a new Warning the set is reported, since pods that fail together are in one report then.
	gathering = time.Second
	// refusedAgain is how often it is published that the Events of a member may not be read.
	refusedAgain = time.Hour
)

// Deps is what collecting needs. All fields are required but for Period, Metrics and Clock.
type Deps struct {
	// Works reads Works from Cache.
	Works client.Reader
	Cache cache.Cache
	// Fleet has the connections.
	Fleet *member.Fleet
	// Report takes all Warnings of a member, in place of those before. It is a function because the control plane shows them and an
	// agent writes a record.
	Report func(ctx context.Context, cluster string, warnings []Warning) error
	// Period is the least time between two reports of a member. Default: the second in which Warnings are gathered.
	Period time.Duration
	// Events receives that the Events of a member may not be read.
	Events  events.Recorder
	Metrics prometheus.Registerer
	Clock   clock.WithTicker
}

// Collector keeps the Warnings of the members that have a connection.
type Collector struct {
	Deps
	seen *prometheus.CounterVec

	mu sync.Mutex
	// spaces counts, by cluster, the Works that send objects to a namespace of it; "" is for cluster-scoped objects.
	spaces  map[string]map[string]int
	members map[string]*collected
	group   *memberwatch.Group // since Start
}

// collected is one member.
type collected struct {
	*Collector
	cluster  string
	conn     *member.Conn
	owners   *owners
	incoming chan *corev1.Event
	repairs  chan *Subject // pointers, since 2,048 Subjects of each member are 160 kB
	stop     []context.CancelFunc
	// refusedAt is when it was published last that the Events may not be read. Only the goroutine of the watch uses it.
	refusedAt time.Time
}

// SetupCollector adds collecting to a manager.
func SetupCollector(mgr ctrl.Manager, deps Deps) (*Collector, error) {
	if deps.Works == nil || deps.Cache == nil || deps.Fleet == nil || deps.Report == nil || deps.Events == nil {
		return nil, errors.New("collecting the events of members needs Works, Cache, Fleet, Report and Events")
	}
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	c := &Collector{Deps: deps, spaces: map[string]map[string]int{}, members: map[string]*collected{}, seen: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flagship_member_events_total", Help: "Warnings that members showed.",
	}, []string{"result"})}
	if deps.Metrics != nil {
		if err := deps.Metrics.Register(c.seen); err != nil {
			return nil, fmt.Errorf("registering the metrics of member events: %w", err)
		}
	}
	if err := mgr.Add(c); err != nil {
		return nil, fmt.Errorf("adding the collection of member events: %w", err)
	}
	return c, nil
}

// Start implements manager.Runnable: it collects until ctx is done.
func (c *Collector) Start(ctx context.Context) error {
	synced, stop, err := hubclient.Follow(ctx, c.Cache, func(before, after *workv1alpha1.Work, _ bool) {
		if before == nil || after == nil || workv1alpha2.BoundTo(before) != workv1alpha2.BoundTo(after) {
			c.count(before, -1)
			c.count(after, 1)
			c.follow(ctx, clusterOf(before))
			c.follow(ctx, clusterOf(after))
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	if !toolscache.WaitForCacheSync(ctx.Done(), synced) {
		return nil
	}
	c.mu.Lock()
	c.group = memberwatch.NewGroup(ctx)
	c.mu.Unlock()
	defer c.group.Close()
	c.Fleet.Subscribe(func(cluster string) { c.follow(ctx, cluster) })
	<-ctx.Done()
	return nil
}

// clusterOf returns the cluster of a Work whose Warnings are shown, or none.
func clusterOf(work *workv1alpha1.Work) string {
	if work == nil || workv1alpha2.BoundTo(work) == "" {
		return ""
	}
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	return cluster
}

// count counts the Works of a namespace.
func (c *Collector) count(work *workv1alpha1.Work, change int) {
	cluster := clusterOf(work)
	if cluster == "" {
		return
	}
	namespace := work.Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spaces[cluster] == nil {
		c.spaces[cluster] = map[string]int{}
	}
	if c.spaces[cluster][namespace] += change; c.spaces[cluster][namespace] == 0 {
		delete(c.spaces[cluster], namespace)
	}
	if len(c.spaces[cluster]) == 0 {
		delete(c.spaces, cluster)
	}
}

// follow starts the watch of a member that has a connection and Works whose Warnings are shown, and ends that of one which has lost them.
func (c *Collector) follow(ctx context.Context, cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group == nil {
		return // the Works are being listed
	}
	conn, connected := c.Fleet.Get(cluster)
	wanted := connected && len(c.spaces[cluster]) > 0
	if m := c.members[cluster]; m != nil {
		if wanted && m.conn == conn {
			return
		}
		for _, stop := range m.stop {
			stop()
		}
		delete(c.members, cluster)
	}
	if !wanted {
		return
	}
	m := &collected{Collector: c, cluster: cluster, conn: conn, incoming: make(chan *corev1.Event, waiting), repairs: make(chan *Subject, waiting)}
	m.owners = newOwners(cluster, conn.ControlPlane(), c.Works, c.Clock)
	m.owners.metadata = m.metadata
	all := conn.Patient().Typed(corev1.SchemeGroupVersion.WithResource("events"), metav1.NamespaceAll)
	warnings := memberwatch.Selecting(all, func(o *metav1.ListOptions) {
		o.FieldSelector = "type=" + corev1.EventTypeWarning
	})
	c.members[cluster] = m
	m.stop = []context.CancelFunc{
		c.group.Go(func(watching context.Context) { m.run(ctx, watching) }), //nolint:contextcheck // m.run ends with both
		c.group.Follow("member-events", m.reduced(warnings), m),
	}
}

// Drifted adds to the Warnings of a Work that a field of its object was changed by others, or that the object was deleted, and what happens
// to it. It does not block.
func (c *Collector) Drifted(work types.NamespacedName, kind, name string, field fleetv1alpha1.DriftedField) {
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	c.mu.Lock()
	m := c.members[cluster]
	c.mu.Unlock()
	if m == nil {
		return
	}
	by := ""
	if field.Manager != "" {
		by = " by " + strconv.Quote(field.Manager)
	}
	reason, message := events.FieldPutBack, field.Path+" was changed"+by+" and is put back"
	switch field.Outcome {
	case fleetv1alpha1.DriftReported:
		reason, message = events.FieldDrifted, field.Path+" was changed"+by+", and stays so by the policy"
	case fleetv1alpha1.DriftPaused:
		reason, message = events.FieldDrifted, field.Path+" was changed"+by+": nothing is written to the object until that is acknowledged"
	case fleetv1alpha1.DriftCreatedAgain:
		reason, message = events.ObjectCreatedAgain, "was deleted there by others, and is created again"
	}
	subject := Subject{Work: work.Name, Kind: kind, Object: name, FieldPath: field.Path, Reason: reason, Message: message}.bounded()
	select {
	case m.repairs <- &subject:
	default:
		c.seen.WithLabelValues("dropped").Inc()
	}
}

// metadata reads the metadata of an object in the member.
func (m *collected) metadata(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	mapping, err := m.conn.Mapping(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", kind, err)
	}
	object, err := m.conn.Metadata().Resource(mapping.Resource).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading its metadata: %w", err)
	}
	return object, nil
}

// reduced leaves Events out that cannot concern a Work, before all of a list is collected, and what is not read of the others.
func (m *collected) reduced(source memberwatch.Source) memberwatch.Source {
	list, begin := source.List, source.Watch
	source.List = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		object, err := list(ctx, o)
		m.refused(err)
		if events, ok := object.(*corev1.EventList); ok && err == nil {
			events.Items = slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return !m.needed(&e) })
			for i := range events.Items {
				reduce(&events.Items[i])
			}
		}
		return object, err
	}
	source.Watch = func(ctx context.Context, o metav1.ListOptions) (memberwatch.Stream, error) {
		changes, err := begin(ctx, o)
		if err != nil {
			m.refused(err)
			return nil, err
		}
		return memberwatch.Filtered(changes, func(change watch.Event) (watch.Event, bool) {
			e, ok := change.Object.(*corev1.Event)
			if !ok || change.Type == watch.Bookmark {
				return change, true
			}
			if change.Type == watch.Deleted || !m.needed(e) {
				return change, false
			}
			reduce(e)
			return change, true
		}), nil
	}
	return source
}

// needed returns whether a Work sends objects to the namespace of an Event.
func (m *collected) needed(e *corev1.Event) bool {
	namespace := e.InvolvedObject.Namespace
	m.mu.Lock()
	_, ours := m.spaces[m.cluster][namespace]
	m.mu.Unlock()
	needed := ours && e.Type == corev1.EventTypeWarning && (namespace == "" || namespace == e.Namespace) && m.Clock.Since(m.timeOf(e)) < lifetime
	if !needed {
		m.seen.WithLabelValues("other").Inc()
	}
	return needed
}

// timeOf is when an Event was last repeated, by the clock of this process.
func (m *collected) timeOf(e *corev1.Event) time.Time {
	return repeated(e).Add(-m.conn.ClockAhead())
}

// repeated is when an Event was last repeated, by the clock of the member.
func repeated(e *corev1.Event) time.Time {
	last := e.CreationTimestamp.Time
	times := []time.Time{e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// reduce leaves what is read of an Event, and cuts its texts: many wait for run.
func reduce(e *corev1.Event) {
	meta, about := e.ObjectMeta, e.InvolvedObject
	cut := func(text string) string { return bounds.Cut(text, int(bounds.Events.Piece.Bytes)) }
	*e = corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: meta.Namespace, Name: meta.Name, ResourceVersion: meta.ResourceVersion, UID: meta.UID, CreationTimestamp: meta.CreationTimestamp,
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: cut(about.APIVersion), Kind: cut(about.Kind), Namespace: cut(about.Namespace), Name: cut(about.Name),
			UID: types.UID(cut(string(about.UID))), FieldPath: cut(about.FieldPath),
		},
		Type: e.Type, Reason: cut(e.Reason), Message: cut(e.Message), FirstTimestamp: e.FirstTimestamp, LastTimestamp: e.LastTimestamp,
		EventTime: e.EventTime, Series: e.Series,
	}
}

// Reduce has the Events of a list wait for run as they are read; the list itself is kept nowhere.
func (m *collected) Reduce(obj any) (any, bounds.Amount, error) {
	return nil, bounds.Amount{}, m.Add(obj)
}

// Held returns that the store keeps nothing.
func (m *collected) Held() bounds.Amount { return bounds.Amount{} }

// Charge does nothing: nothing is kept.
func (m *collected) Charge(*bounds.Account) {}

// refused publishes that the Events of the member may not be read. It is called by the goroutine of the watch alone.
func (m *collected) refused(err error) {
	if now := m.Clock.Now(); apierrors.IsForbidden(err) && now.Sub(m.refusedAt) >= refusedAgain {
		m.refusedAt = now
		m.Events.Publish(events.Warning(events.Reference(clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"), m.conn.Cluster()),
			events.MemberEventsNotReadable, "Warnings of this cluster are not shown on templates: the control plane may not read its Events. "+
				"Run flagship join again to grant the right, or set --no-member-events. "+err.Error()))
	}
}

// The store of the reflector keeps nothing: what it receives waits for run.

// Add implements cache.ReflectorStore.
func (m *collected) Add(obj any) error {
	e, ok := obj.(*corev1.Event)
	if !ok {
		return fmt.Errorf("receiving a %T: not an Event", obj)
	}
	select {
	case m.incoming <- e:
	default:
		m.seen.WithLabelValues("dropped").Inc()
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (m *collected) Update(obj any) error { return m.Add(obj) }

// Delete implements cache.ReflectorStore.
func (m *collected) Delete(any) error { return nil }

// Replace implements cache.ReflectorStore.
func (m *collected) Replace(list []any, _ string) error {
	for _, obj := range list {
		if err := m.Add(obj); err != nil {
			return err
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (m *collected) Resync() error { return nil }

// run adds Events to the set and reports it, until watching is done. If the process goes on, the member has no Warnings then.
func (m *collected) run(process, watching context.Context) {
	warnings, logger := set{}, log.FromContext(process).WithName("member-events").WithValues("cluster", m.cluster)
	var due <-chan time.Time
	var reported time.Time
	report := func(ctx context.Context, warnings []Warning) error {
		return controlloop.CatchPanic(func() error { return m.Report(ctx, m.cluster, warnings) })
	}
	for {
		select {
		case e := <-m.incoming:
			var news bool
			err := controlloop.CatchPanic(func() (err error) { news, err = m.take(watching, warnings, e); return err })
			if err != nil && watching.Err() == nil {
				m.seen.WithLabelValues("dropped").Inc()
				logger.V(1).Info("An Event of a member is dropped", "reason", err.Error())
			}
			if news && due == nil {
				due = m.Clock.After(max(gathering, m.Period-m.Clock.Since(reported)))
			}
		case subject := <-m.repairs:
			if warnings.add(*subject, m.Clock.Now()) && due == nil {
				due = m.Clock.After(max(gathering, m.Period-m.Clock.Since(reported)))
			}
		case <-due:
			due, reported = nil, m.Clock.Now()
			if err := report(watching, warnings.report(reported)); err != nil && watching.Err() == nil {
				logger.V(1).Info("Warnings of a member are reported again", "reason", err.Error())
				due = m.Clock.After(max(gathering, m.Period))
			}
		case <-watching.Done():
			if process.Err() == nil {
				_ = report(process, nil) // a failure does no harm: old Warnings are dropped by their age
			}
			return
		}
	}
}

// take adds an Event to the set if it belongs to a Work, and returns whether that is to be reported.
func (m *collected) take(ctx context.Context, warnings set, e *corev1.Event) (news bool, err error) {
	found, err := m.owners.of(ctx, e.InvolvedObject, maxLevels)
	if err != nil {
		return false, err
	}
	if found.work == "" {
		m.seen.WithLabelValues("other").Inc()
		return false, nil
	}
	m.seen.WithLabelValues("shown").Inc()
	at, now := m.timeOf(e), m.Clock.Now()
	if at.After(now) {
		at = now
	}
	return warnings.add(subjectOf(e, found.work, found.root), at), nil
}
