package objects

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/drifted"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects/results"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects/writes"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/starttimes"
)

// WriterDeps is what a Writer needs. All fields but Retain and Retention are required.
type WriterDeps struct {
	// Hub reads Works and Clusters from a cache.
	Hub        client.Reader
	Events     events.Recorder
	Clock      clock.PassiveClock
	KindPolicy KindPolicy
	Guard      Guard
	Brake      *brake.Brake
	// Retain and Retention are those of Deps.
	Retain    func(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Retention func(schema.GroupVersionKind) string
	// Drift takes the fields that differ.
	Drift drifted.Reporter
}

// Guard decides whether a member is written to. It is an interface because a stage imports no feature.
type Guard interface {
	// Held returns what may not be done in a member until a person allows it.
	Held(ctx context.Context, conn *member.Conn) (member.Hold, error)
	// Writes is called before every write to a member. It does not block.
	Writes(conn *member.Conn)
	// OnResume has f called when more may be done in a member than before.
	OnResume(f func(cluster string))
}

// noGuard allows all writes.
type NoGuard struct{}

func (NoGuard) Held(context.Context, *member.Conn) (member.Hold, error) { return member.Hold{}, nil }

func (NoGuard) Writes(*member.Conn) {}

func (NoGuard) OnResume(func(cluster string)) {}

// Writer applies, deletes and releases single objects in members.
type Writer struct {
	WriterDeps
	metrics *writes.Metrics
	Results results.Set
	doubts  starttimes.ByWork // Works of namespaces of which not everything can be listed
	// leavingWorks has, by the Work of a namespace, the Works that were seen to leave it, so that everything in it is listed again
	// only when these are gone.
	leavingWorks sync.Map
}

// NewWriter returns a writer. The metrics are registered unless the registerer is nil.
func NewWriter(deps WriterDeps, metrics prometheus.Registerer) *Writer {
	return &Writer{WriterDeps: deps, metrics: writes.New(metrics)}
}

// ForgetWork drops what is known of a Work that is gone.
func (w *Writer) ForgetWork(work types.NamespacedName) {
	w.doubts.End(work)
	w.leavingWorks.Delete(work)
	w.Drift.Episodes.Forget(work)
}

// otherOwner returns a function that returns whether another Work exists and contains the object.
func (w *Writer) otherOwner(ctx context.Context) func(types.NamespacedName) bool {
	return func(key types.NamespacedName) bool {
		work := &workv1alpha1.Work{}
		return w.Hub.Get(ctx, key, work) == nil && work.DeletionTimestamp == nil
	}
}
