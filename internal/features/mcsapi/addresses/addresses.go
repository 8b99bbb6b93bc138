package addresses

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// addresser writes into each import in a member the address that its derived Service got there, and its status. Both objects are
// watched for the Works that carry them, so no request is needed to read them. It runs wherever a connection is.
type addresser struct {
	client client.Client
	cache  cache.Cache
	fleet  *member.Fleet
	clock  clock.PassiveClock
	queues *memberqueue.Queues
}

// Setup adds the loop over imports in members.
func Setup(mgr ctrl.Manager, c client.Client, fleet *member.Fleet, clock clock.WithTicker, workers int) error {
	a := &addresser{client: c, cache: mgr.GetCache(), fleet: fleet, clock: clock}
	a.queues = memberqueue.New("imports", fleet, clock, workers, a.reconcile)
	fleet.OnChange(a.memberChanged)
	if err := mgr.Add(a); err != nil {
		return fmt.Errorf("adding the loop over imports: %w", err)
	}
	return nil
}

// Start implements manager.Runnable.
func (a *addresser) Start(ctx context.Context) error {
	_, stop, err := hubclient.Follow(ctx, a.cache, func(_, work *workv1alpha1.Work, _ bool) {
		if work == nil || exportwork.RoleOf(work) != multiclusterv1beta1.RoleDerived {
			return
		}
		if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace); ok {
			a.queues.Add(cluster, exportwork.ServiceOf(work))
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	return a.queues.Start(ctx)
}

// memberChanged enqueues the import that a managed object in a member is, or belongs to.
func (a *addresser) memberChanged(change objectcache.Change) {
	switch {
	case change.Synced || change.Gone:
	case change.Resource == exportwork.ServiceImports:
		a.queues.Add(change.Cluster, change.Object)
	case change.Resource == exportwork.Services:
		if name, derived := strings.CutPrefix(change.Object.Name, networkingv1alpha1.DerivedServiceName("")); derived {
			a.queues.Add(change.Cluster, types.NamespacedName{Namespace: change.Object.Namespace, Name: name})
		}
	}
}

// reconcile is the memberqueue.ReconcileFunc: it writes addresses and status of one import.
func (a *addresser) reconcile(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
	conn, connected := a.fleet.Get(cluster)
	if !connected {
		return 0, nil
	}
	work, err := hubclient.GetWork(ctx, a.client, exportwork.DerivedKey(cluster, key))
	if err != nil || work == nil || exportwork.RoleOf(work) != multiclusterv1beta1.RoleDerived || work.DeletionTimestamp != nil {
		return 0, err
	}
	live, found := conn.Lookup(exportwork.ServiceImports, key.Namespace, key.Name)
	if !found || live.GetDeletionTimestamp() != nil {
		return 0, nil // Its creation is an event.
	}
	derived, err := lookupService(conn, types.NamespacedName{Namespace: key.Namespace, Name: networkingv1alpha1.DerivedServiceName(key.Name)})
	if err != nil {
		return 0, err
	}
	if derived == nil && !conn.HasSynced(exportwork.Services) {
		// After a start it is not certain that it is missing; an address that is removed would be back a moment later.
		conn.WhenSynced(exportwork.Services, func() { a.queues.Add(cluster, key) })
		return 0, nil
	}
	if live, err = a.address(ctx, conn, live, derived); err != nil {
		return 0, err
	}
	return 0, a.setStatus(ctx, conn, live, exportingClusters(work), exportwork.Refusal(work))
}

// address writes the addresses of an import, unless its owner chose some, and returns the import.
func (a *addresser) address(ctx context.Context, conn *member.Conn, live *unstructured.Unstructured, derived *corev1.Service) (*unstructured.Unstructured, error) {
	if _, chosen, _ := unstructured.NestedFieldNoCopy(conn.ControlPlane().OurFields(live), "f:spec", "f:ips"); chosen {
		return live, nil
	}
	object, err := readImport(live)
	if err != nil {
		return nil, err
	}
	ips := addressesFor(&object.Spec, derived)
	if slices.Equal(ips, object.Spec.IPs) {
		return live, nil
	}
	return a.patch(ctx, conn, live, map[string]any{"spec": map[string]any{"ips": ips}}, exportwork.AddressesManager)
}

func (a *addresser) setStatus(ctx context.Context, conn *member.Conn, live *unstructured.Unstructured, exporting []string, refusal *metav1.Condition) error {
	object, err := readImport(live)
	if err != nil {
		return err
	}
	status := importStatus(object, exporting, object.Spec.IPs, refusal, a.clock.Now())
	if equality.Semantic.DeepEqual(status, object.Status) {
		return nil
	}
	_, err = a.patch(ctx, conn, live, map[string]any{"status": status}, exportwork.ConditionsManager, "status")
	return err
}

// patch sends a change of an object. One that others changed meanwhile is a conflict, and is reconciled again.
func (a *addresser) patch(ctx context.Context, conn *member.Conn, live *unstructured.Unstructured, change map[string]any, manager string, subresources ...string) (*unstructured.Unstructured, error) {
	change["metadata"] = map[string]any{"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion()}
	raw, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encoding a change of ServiceImport %s: %w", client.ObjectKeyFromObject(live), err)
	}
	changed, err := conn.Dynamic().Resource(exportwork.ServiceImports).Namespace(live.GetNamespace()).Patch(ctx, live.GetName(),
		types.MergePatchType, raw, metav1.PatchOptions{FieldManager: manager}, subresources...)
	if err != nil {
		return nil, fmt.Errorf("writing ServiceImport %s: %w", client.ObjectKeyFromObject(live), err)
	}
	conn.AddWritten(exportwork.ServiceImports, changed.DeepCopy())
	return changed, nil
}

func readImport(live *unstructured.Unstructured) (*multiclusterv1beta1.ServiceImport, error) {
	object := &multiclusterv1beta1.ServiceImport{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, object); err != nil {
		return nil, fmt.Errorf("reading ServiceImport %s: %w", client.ObjectKeyFromObject(live), err)
	}
	return object, nil
}

// lookupService finds a managed Service in a member; nil if there is none.
func lookupService(conn *member.Conn, key types.NamespacedName) (*corev1.Service, error) {
	live, found := conn.Lookup(exportwork.Services, key.Namespace, key.Name)
	if !found {
		return nil, nil
	}
	service := &corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, service); err != nil {
		return nil, fmt.Errorf("reading Service %s: %w", key, err)
	}
	return service, nil
}

func exportingClusters(derived *workv1alpha1.Work) []string {
	text := derived.Annotations[multiclusterv1beta1.ExportingClustersAnnotation]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
