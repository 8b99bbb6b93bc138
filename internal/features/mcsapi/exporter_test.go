package mcsapi

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// watching is an exporter on a control plane in memory, with one member whose objects a test puts into its watches.
type watching struct {
	*exporter
	namespace *exportingNamespace
	// reconciled has the slices that were reconciled.
	reconciled chan types.NamespacedName
}

func watchingMember(t *testing.T) *watching {
	t.Helper()
	fleet, err := member.NewFleet(member.Config{Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
		return member.Credential{}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	h := fleettest.InMemory(t, []fleettest.Index{exportwork.AddIndexes}, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	w := &watching{reconciled: make(chan types.NamespacedName, 100)}
	w.exporter = &exporter{client: h.Client, fleet: fleet, clock: clock.RealClock{}, members: map[string]*exporting{}}
	w.exports = memberqueue.New("exports", fleet, clock.RealClock{}, 1, func(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
		if key == everything {
			return w.reconcile(ctx, cluster, key)
		}
		return 0, nil
	})
	w.endpoints = memberqueue.New("endpoints", fleet, clock.RealClock{}, 1, func(ctx context.Context, cluster string, key types.NamespacedName) (time.Duration, error) {
		again, err := w.reconcileEndpoints(ctx, cluster, key)
		w.reconciled <- key
		return again, err
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.exports.Start(ctx) })
	running.Go(func() { _ = w.endpoints.Start(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	listed := func() { w.exports.Add("a", everything) }
	none := func(types.NamespacedName) {}
	added := func(slice types.NamespacedName) { w.endpoints.Add("a", slice) }
	w.namespace = &exportingNamespace{
		services: &memberwatch.Watch[corev1.ServiceSpec]{Store: newServices(none, listed)},
		slices:   &memberwatch.Watch[endpointslices.Slice]{Store: endpointslices.NewSlices(exportwork.Exported, added, listed)},
	}
	exports := &memberwatch.Watch[*multiclusterv1beta1.ServiceExport]{Store: newExports(none, listed)}
	w.members["a"] = &exporting{exports: exports, namespaces: map[string]*exportingNamespace{"shop": w.namespace}, refused: map[types.NamespacedName]refusedSlice{}}
	return w
}

// TestSlicesAreRecordedInAnyOrder: after a start a slice without a record may be known before the Service that it belongs to.
func TestSlicesAreRecordedInAnyOrder(t *testing.T) {
	w := watchingMember(t)
	fields := must(runtime.DefaultUnstructuredConverter.ToUnstructured(webExport()))
	if err := w.members["a"].exports.Replace([]any{&unstructured.Unstructured{Object: fields}}, "1"); err != nil {
		t.Fatal(err)
	}
	if err := w.namespace.slices.Replace([]any{full()}, "1"); err != nil {
		t.Fatal(err)
	}
	<-w.reconciled
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if err := w.namespace.services.Replace([]any{service}, "1"); err != nil {
		t.Fatal(err)
	}
	var record *workv1alpha1.Work
	fleettest.Eventually(t, "the slice has a record", func() bool { // it may also be reconciled because the exports were listed
		record = must(hubclient.GetWork(t.Context(), w.client, exportwork.EndpointsKey("a", client.ObjectKeyFromObject(full()))))
		return record != nil
	})
	if exportwork.ServiceOf(record) != webKey {
		t.Errorf("the slice's record is %+v", record)
	}
}

// refusing is a control plane that stores no further records.
type refusing struct{ client.Client }

func (refusing) Create(context.Context, client.Object, ...client.CreateOption) error {
	return apierrors.NewForbidden(workv1alpha1.Resource("works"), "x", bounds.TooManyRecords("5000 records"))
}

// TestAnExportSaysWhichSlicesAreNotTaken: those that no API server accepts, and those beyond the bound of the member.
func TestAnExportSaysWhichSlicesAreNotTaken(t *testing.T) {
	w := watchingMember(t)
	fields := must(runtime.DefaultUnstructuredConverter.ToUnstructured(webExport()))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	wrong := full()
	wrong.Name, wrong.Endpoints[0].Addresses = "wrong", []string{"::1"}
	for _, err := range []error{
		w.members["a"].exports.Replace([]any{&unstructured.Unstructured{Object: fields}}, "1"), w.namespace.services.Replace([]any{service}, "1"),
		w.namespace.slices.Replace([]any{wrong}, "1"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	says := func(want string) {
		t.Helper()
		fleettest.Eventually(t, "the export says "+want, func() bool {
			got := w.refusedOf("a", webKey)
			return want == "" && got == "" || want != "" && strings.HasPrefix(got, want)
		})
	}
	says("1 of its EndpointSlices are not taken, such as wrong: endpoints[0]")
	if err := w.namespace.slices.Replace([]any{}, "2"); err != nil {
		t.Fatal(err)
	}
	says("")
	allowed := w.client
	slice := endpointslices.Slice{Raw: []byte("{}"), Service: webKey}
	w.client = refusing{allowed}
	again, why, err := w.recordSlice(t.Context(), "a", client.ObjectKeyFromObject(full()), slice, nil)
	if again == 0 || !strings.Contains(why, "5000 records") || err != nil {
		t.Errorf("beyond the bound: again after %s, %q, %v", again, why, err)
	}
	w.client = allowed
	if again, why, err := w.recordSlice(t.Context(), "a", client.ObjectKeyFromObject(full()), slice, nil); again != 0 || why != "" || err != nil {
		t.Errorf("within it: again after %s, %q, %v", again, why, err)
	}
	record := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{multiclusterv1beta1.VerdictAnnotation: `{}`}}}
	conditions := exportConditions(webExport(), validity(webExport(), &service.Spec), record, "1 is missing", noon)
	if ready := meta.FindStatusCondition(conditions, multiclusterv1beta1.ExportReady); ready == nil || !strings.HasSuffix(ready.Message, "endpoints are missing: 1 is missing") {
		t.Errorf("the condition is %+v", ready)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

var webKey = types.NamespacedName{Namespace: "shop", Name: "web"}

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
