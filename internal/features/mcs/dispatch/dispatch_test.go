package dispatch

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/features/mcs/metrics"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// hub is a control plane in memory with a clock.
type hub struct {
	*fleettest.Memory
	clock *clocktesting.FakeClock
}

func newHub(t *testing.T, objects ...client.Object) *hub {
	t.Helper()
	h := &hub{clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	h.Memory = fleettest.InMemory(t, []fleettest.Index{mcswork.AddIndexes}, objects...)
	return h
}

func (h *hub) clusters() endpointslices.Clusters {
	return endpointslices.Clusters{Reader: h.Client, Clock: h.clock, Grace: func() time.Duration { return time.Minute }}
}

// dispatching is a dispatcher on a control plane in memory.
type dispatching struct {
	*hub
	dispatcher *dispatcher
}

func newDispatching(t *testing.T, objects ...client.Object) *dispatching {
	t.Helper()
	h := newHub(t, objects...)
	return &dispatching{h, &dispatcher{client: h.Client, metrics: metrics.NewDispatch(nil, h.clock), clusters: h.clusters()}}
}

func registeredCluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// run reconciles a record and returns how many writes it took.
func (h *dispatching) run(t *testing.T, record *workv1alpha1.Work) (reconcile.Result, int) {
	t.Helper()
	before := h.Writes
	result, err := h.dispatcher.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(record)})
	if err != nil {
		t.Fatal(err)
	}
	return result, h.Writes - before
}

// carried lists the consumers that have a record's slice, each with what it is called there and what is ready.
func (h *dispatching) carried(t *testing.T, record *workv1alpha1.Work) (list []string) {
	t.Helper()
	works, err := mcswork.ListFrom(t.Context(), h.Client, client.ObjectKeyFromObject(record))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range works {
		if w.DeletionTimestamp != nil {
			continue // waits for its finalizer
		}
		slice, err := endpointslices.Decode(w.Spec.Workload.Manifests[0].Raw)
		if err != nil {
			t.Fatal(err)
		}
		ready := 0
		for _, e := range slice.Endpoints {
			if *e.Conditions.Ready {
				ready++
			}
		}
		list = append(list, fmt.Sprintf("%s: %s, %d of %d ready", strings.TrimPrefix(w.Namespace, "karmada-es-"), slice.Name, ready, len(slice.Endpoints)))
	}
	slices.Sort(list)
	return list
}

// fullRecord is the record of the slice full in a provider.
func fullRecord(t *testing.T, provider string, owner *networkingv1alpha1.MultiClusterService) *workv1alpha1.Work {
	t.Helper()
	raw, err := endpointslices.Encode(endpointslices.Collected(full()))
	if err != nil {
		t.Fatal(err)
	}
	return mcswork.Collected(provider, mcswork.OwnerLabels(owner), client.ObjectKeyFromObject(full()), raw, nil)
}

func TestDispatchGoesToEveryOtherConsumer(t *testing.T) {
	mcs := exposed(networkingv1alpha1.ExposureTypeCrossCluster)
	record := fullRecord(t, "a", mcs)
	h := newDispatching(t, mcs, record, registeredCluster("a"), registeredCluster("b"), registeredCluster("c"))
	if _, writes := h.run(t, record); writes != 2 {
		t.Errorf("%d writes for two consumers", writes)
	}
	want := []string{"b: a-web-x7k2p, 1 of 2 ready", "c: a-web-x7k2p, 1 of 2 ready"}
	if got := h.carried(t, record); !slices.Equal(got, want) {
		t.Errorf("consumers have %v, want %v", got, want)
	}
	if _, writes := h.run(t, record); writes != 0 {
		t.Errorf("%d writes for nothing new", writes)
	}
	mcs.Spec.ConsumerClusters = clusters("c", "nowhere")
	if err := h.Client.Update(t.Context(), mcs); err != nil {
		t.Fatal(err)
	}
	h.run(t, record)
	if got := h.carried(t, record); !slices.Equal(got, want[1:]) {
		t.Errorf("consumers have %v, want %v", got, want[1:])
	}
}

// TestDispatchPutsRight: what others changed of a dispatched Work is reverted when its record is reconciled.
func TestDispatchPutsRight(t *testing.T) {
	for reason, spoil := range map[string]func(*workv1alpha1.Work){
		"another manifest": func(w *workv1alpha1.Work) {
			w.Spec.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}`)
		},
		"no manifest":       func(w *workv1alpha1.Work) { w.Spec.Workload.Manifests = nil },
		"suspended":         func(w *workv1alpha1.Work) { w.Spec.SuspendDispatching = new(true) },
		"kept for ever":     func(w *workv1alpha1.Work) { w.Spec.PreserveResourcesOnDeletion = new(true) },
		"no labels":         func(w *workv1alpha1.Work) { w.Labels = nil },
		"no annotations":    func(w *workv1alpha1.Work) { w.Annotations = nil },
		"another provider":  func(w *workv1alpha1.Work) { w.Annotations["endpointslice.karmada.io/provision-cluster"] = "c" },
		"another's service": func(w *workv1alpha1.Work) { w.Labels[networkingv1alpha1.MultiClusterServiceNameLabel] = "other" },
	} {
		t.Run(reason, func(t *testing.T) {
			mcs := exposed(networkingv1alpha1.ExposureTypeCrossCluster)
			record := fullRecord(t, "a", mcs)
			h := newDispatching(t, mcs, record, registeredCluster("a"), registeredCluster("b"))
			h.run(t, record)
			key := mcswork.DispatchedKey("a", "b", client.ObjectKeyFromObject(full()))
			before, spoilt := must(hubclient.GetWork(t.Context(), h.Client, key)), must(hubclient.GetWork(t.Context(), h.Client, key)).DeepCopy()
			spoil(spoilt)
			if err := h.Client.Update(t.Context(), spoilt); err != nil {
				t.Fatal(err)
			}
			if _, writes := h.run(t, record); writes != 1 {
				t.Errorf("%d writes, want 1", writes)
			}
			after := must(hubclient.GetWork(t.Context(), h.Client, key))
			if !reflect.DeepEqual(before.Spec.SuspendDispatching, after.Spec.SuspendDispatching) || after.Spec.PreserveResourcesOnDeletion != nil ||
				!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
				len(after.Spec.Workload.Manifests) != 1 || !workv1alpha1.SameRaw(&before.Spec.Workload.Manifests[0].RawExtension, &after.Spec.Workload.Manifests[0].RawExtension) {
				t.Errorf("it is\n%+v\nwant\n%+v", after, before)
			}
			if _, writes := h.run(t, record); writes != 0 {
				t.Errorf("%d writes for nothing new", writes)
			}
		})
	}
}

// TestStrangeCopiesGo: a Work that says it carries a record's slice but is none of ours is deleted, ours stays.
func TestStrangeCopiesGo(t *testing.T) {
	mcs := exposed(networkingv1alpha1.ExposureTypeCrossCluster)
	record := fullRecord(t, "a", mcs)
	h := newDispatching(t, mcs, record, registeredCluster("a"), registeredCluster("b"))
	h.run(t, record)
	strange := must(hubclient.GetWork(t.Context(), h.Client, mcswork.DispatchedKey("a", "b", client.ObjectKeyFromObject(full())))).DeepCopy()
	strange.Name, strange.ResourceVersion, strange.Finalizers = "0-strange", "", nil
	if err := h.Client.Create(t.Context(), strange); err != nil {
		t.Fatal(err)
	}
	h.run(t, record)
	if got := h.carried(t, record); len(got) != 1 {
		t.Errorf("Works are %v, want one", got)
	}
}

func TestDispatchEndsWithItsCause(t *testing.T) {
	for reason, end := range map[string]func(t *testing.T, h *dispatching, mcs *networkingv1alpha1.MultiClusterService, record *workv1alpha1.Work) error{
		"the slice is gone": func(t *testing.T, h *dispatching, _ *networkingv1alpha1.MultiClusterService, record *workv1alpha1.Work) error {
			return h.Client.Delete(t.Context(), record)
		},
		"the MultiClusterService is gone": func(t *testing.T, h *dispatching, mcs *networkingv1alpha1.MultiClusterService, _ *workv1alpha1.Work) error {
			return h.Client.Delete(t.Context(), mcs)
		},
		"the provider provides no more": func(t *testing.T, h *dispatching, mcs *networkingv1alpha1.MultiClusterService, _ *workv1alpha1.Work) error {
			mcs.Spec.ProviderClusters = clusters("b")
			return h.Client.Update(t.Context(), mcs)
		},
		"the provider is not registered any more": func(t *testing.T, h *dispatching, _ *networkingv1alpha1.MultiClusterService, _ *workv1alpha1.Work) error {
			return h.Client.Delete(t.Context(), registeredCluster("a"))
		},
	} {
		t.Run(reason, func(t *testing.T) {
			mcs := exposed(networkingv1alpha1.ExposureTypeCrossCluster)
			record := fullRecord(t, "a", mcs)
			h := newDispatching(t, mcs, record, registeredCluster("a"), registeredCluster("b"))
			h.run(t, record)
			if got := h.carried(t, record); len(got) != 1 {
				t.Fatalf("consumers have %v before", got)
			}
			if err := end(t, h, mcs, record); err != nil {
				t.Fatal(err)
			}
			h.run(t, record)
			for _, w := range must(mcswork.ListFrom(t.Context(), h.Client, client.ObjectKeyFromObject(record))) {
				if w.DeletionTimestamp == nil {
					t.Errorf("Work %s/%s is to stay", w.Namespace, w.Name)
				}
			}
		})
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestAwayForTooLong: endpoints of a provider that is not ready count for the grace, then they are marked, and they count
// again when it is back.
func TestAwayForTooLong(t *testing.T) {
	mcs := exposed(networkingv1alpha1.ExposureTypeCrossCluster)
	record := fullRecord(t, "a", mcs)
	provider := registeredCluster("a")
	h := newDispatching(t, mcs, record, provider, registeredCluster("b"))
	turn := func(status metav1.ConditionStatus) {
		provider.Status.Conditions = []metav1.Condition{{
			Type: clusterv1alpha1.ClusterConditionReady, Status: status, LastTransitionTime: metav1.NewTime(h.clock.Now()),
		}}
		if err := h.Client.Status().Update(t.Context(), provider); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when, want string, after time.Duration) {
		t.Helper()
		result, _ := h.run(t, record)
		if got := h.carried(t, record); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: the consumer has %v, want %s", when, got, want)
		}
		if result.RequeueAfter != after {
			t.Errorf("%s: the next reconcile is after %s, want %s", when, result.RequeueAfter, after)
		}
	}
	const as, marked = "b: a-web-x7k2p, 1 of 2 ready", "b: a-web-x7k2p, 0 of 2 ready"
	expect("nothing is known of it", as, 0)
	turn(metav1.ConditionTrue)
	expect("it is ready", as, 0)
	turn(metav1.ConditionUnknown)
	h.clock.Step(20 * time.Second)
	expect("it is away", as, 40*time.Second)
	h.clock.Step(40 * time.Second)
	expect("it is away for too long", marked, 0)
	turn(metav1.ConditionTrue)
	expect("it is back", as, 0)
}

func clusters(names ...string) (list []networkingv1alpha1.ClusterSelector) {
	for _, name := range names {
		list = append(list, networkingv1alpha1.ClusterSelector{Name: name})
	}
	return list
}

// full is a slice with everything in it.
func full() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-x7k2p", ResourceVersion: "7", Generation: 3,
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
				corev1.IsHeadlessService: "", "karmada.io/managed": "true", "team": "a",
			},
			Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: "now"},
		},
		AddressType: discoveryv1.AddressTypeIPv6,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP), AppProtocol: new("h2c")}},
		Endpoints: []discoveryv1.Endpoint{
			{
				Addresses: []string{"2001:db8::1"}, Hostname: new("web-0"), NodeName: new("node-1"), Zone: new("z1"),
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: "web-0"},
				Hints:      &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z1"}}},
			},
			{Addresses: []string{"2001:db8::2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}},
		},
	}
}

func exposed(kind networkingv1alpha1.ExposureType) *networkingv1alpha1.MultiClusterService {
	return &networkingv1alpha1.MultiClusterService{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", Generation: 4,
			Labels: map[string]string{networkingv1alpha1.MultiClusterServicePermanentIDLabel: "id"},
		},
		Spec: networkingv1alpha1.MultiClusterServiceSpec{Types: []networkingv1alpha1.ExposureType{kind}},
	}
}
