package mcs

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
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
	h.Memory = fleettest.InMemory(t, []fleettest.Index{mcswork.AddIndexes, hubclient.IndexPolicies}, objects...)
	return h
}

func (h *hub) clusters() endpointslices.Clusters {
	return endpointslices.Clusters{Reader: h.Client, Clock: h.clock, Grace: func() time.Duration { return time.Minute }}
}

func registeredCluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
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

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// oneService is a store with at most one template.
type oneService struct {
	service *corev1.Service
	patches int
}

var _ Templates = (*oneService)(nil)

func (o *oneService) Subscribe(func(hubstore.Ref)) {}

func (o *oneService) WaitForSync(context.Context) error { return nil }

func (o *oneService) Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	if o.service == nil {
		return nil, false
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: o.service.ObjectMeta}, true
}

func (o *oneService) Get(_ context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	if o.service == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, ref.Name)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.service)
	return &unstructured.Unstructured{Object: fields}, err
}

func (o *oneService) PatchMetadata(ctx context.Context, ref hubstore.Ref, raw []byte) (*unstructured.Unstructured, error) {
	o.patches++
	var patch map[string]hubstore.MetadataPatch
	if err := json.Unmarshal(raw, &patch); err != nil {
		return nil, err
	}
	put := func(have map[string]string, changes map[string]*string) map[string]string {
		have = labels.Merge(have, nil)
		for key, value := range changes {
			delete(have, key)
			if value != nil {
				have[key] = *value
			}
		}
		return have
	}
	o.service.Labels = put(o.service.Labels, patch["metadata"].Labels)
	o.service.Annotations = put(o.service.Annotations, patch["metadata"].Annotations)
	return o.Get(ctx, ref)
}

// exposing is the reconciler of a control plane in memory with three clusters and one MultiClusterService.
func exposing(t *testing.T, service *corev1.Service, mcs *networkingv1alpha1.MultiClusterService) (*hub, *reconciler, *oneService) {
	t.Helper()
	h := newHub(t, mcs, registeredCluster("a"), registeredCluster("b"), registeredCluster("c"))
	templates := &oneService{service: service}
	return h, &reconciler{
		client: h.Client, templates: templates, clusters: h.clusters(), events: events.RecorderFunc(func(events.Event) {}),
		policies: hubclient.Policies{Reader: h.Client},
	}, templates
}

// turn reconciles and returns how many writes it took, the template's included.
func turn(t *testing.T, h *hub, e *reconciler, templates *oneService) int {
	t.Helper()
	before := h.Writes + templates.patches
	if _, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: webKey}); err != nil {
		t.Fatal(err)
	}
	return h.Writes + templates.patches - before
}

var webKey = types.NamespacedName{Namespace: "shop", Name: "web"}

// registrations lists the clusters whose slices are to be collected.
func registrations(t *testing.T, c client.Client) (clusters []string) {
	t.Helper()
	for _, w := range must(mcswork.ListOf(t.Context(), c, webKey)) {
		if mcswork.IsRegistration(w) && w.DeletionTimestamp == nil {
			clusters = append(clusters, strings.TrimPrefix(w.Namespace, "karmada-es-"))
		}
	}
	slices.Sort(clusters)
	return clusters
}

func readMCS(t *testing.T, c client.Client) *networkingv1alpha1.MultiClusterService {
	t.Helper()
	mcs := &networkingv1alpha1.MultiClusterService{}
	if err := c.Get(t.Context(), webKey, mcs); err != nil {
		t.Fatal(err)
	}
	return mcs
}

// TestALostClaimIsRenderedAgain: what was rendered while a Service had lost its claim lacks the mark by which members' slices
// are found.
func TestALostClaimIsRenderedAgain(t *testing.T) {
	h, e, templates := exposing(t, webService(corev1.ServiceTypeClusterIP), exposed(networkingv1alpha1.ExposureTypeCrossCluster))
	turn(t, h, e, templates)
	delete(templates.service.Labels, networkingv1alpha1.MultiClusterServicePermanentIDLabel)
	templates.service.ResourceVersion = "99"
	turn(t, h, e, templates)
	binding := &workv1alpha2.ResourceBinding{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-service"}, binding); err != nil {
		t.Fatal(err)
	}
	if got := binding.Spec.Resource.ResourceVersion; got != "99" || !claimed(templates.service) {
		t.Errorf("the binding is of version %q of the Service, want the one that has its claim back", got)
	}
	if writes := turn(t, h, e, templates); writes != 0 {
		t.Errorf("%d writes for nothing new", writes)
	}
}

// TestALostClaimOutlivesAKill: the claim is back, and the process ends before the binding is written.
func TestALostClaimOutlivesAKill(t *testing.T) {
	h, e, templates := exposing(t, webService(corev1.ServiceTypeClusterIP), exposed(networkingv1alpha1.ExposureTypeCrossCluster))
	turn(t, h, e, templates)
	delete(templates.service.Labels, networkingv1alpha1.MultiClusterServicePermanentIDLabel)
	templates.service.ResourceVersion = "99"
	p, _, err := e.read(t.Context(), readMCS(t, h.Client))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.claim(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
	turn(t, h, e, templates)
	binding := must(e.binding(t.Context(), webKey))
	if got := binding.Spec.Resource.ResourceVersion; got != "99" {
		t.Errorf("the binding is of version %q of the Service, want the one that has its claim back", got)
	}
	if writes := turn(t, h, e, templates); writes != 0 {
		t.Errorf("%d writes for nothing new", writes)
	}
}

func TestExposingOneService(t *testing.T) {
	mcs := exposed(networkingv1alpha1.ExposureTypeCrossCluster)
	mcs.Spec.ProviderClusters, mcs.Spec.ConsumerClusters = clusters("a", "b"), clusters("b", "c")
	h, e, templates := exposing(t, webService(corev1.ServiceTypeClusterIP), mcs)
	turn(t, h, e, templates)
	binding := &workv1alpha2.ResourceBinding{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-service"}, binding); err != nil {
		t.Fatal(err)
	}
	if got := binding.Spec.Placement.ClusterAffinity.ClusterNames; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the Service goes to %v, want providers and consumers", got)
	}
	if got := registrations(t, h.Client); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("slices are collected from %v, want the providers", got)
	}
	if !claimed(templates.service) {
		t.Error("the Service is not claimed")
	}
	if c := meta.FindStatusCondition(readMCS(t, h.Client).Status.Conditions, "ServiceApplied"); c == nil || c.Status != metav1.ConditionFalse {
		t.Errorf("condition is %+v before anything was applied", c)
	}
	if writes := turn(t, h, e, templates); writes != 0 {
		t.Errorf("%d writes for nothing new", writes)
	}
	current := readMCS(t, h.Client)
	current.Spec.ProviderClusters = clusters("c")
	if err := h.Client.Update(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	turn(t, h, e, templates)
	if got := registrations(t, h.Client); !slices.Equal(got, []string{"c"}) {
		t.Errorf("slices are collected from %v, want the new provider alone", got)
	}
}

func TestObstacles(t *testing.T) {
	for reason, tc := range map[string]struct {
		service *corev1.Service
		want    string
	}{
		"there is no Service":        {nil, "does not exist: create it"},
		"the Service lacks the port": {webService(corev1.ServiceTypeClusterIP), "spec.ports has 8080"},
		"the Service is on its way out": {func() *corev1.Service {
			s := webService(corev1.ServiceTypeClusterIP)
			s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
			return s
		}(), "does not exist"},
	} {
		t.Run(reason, func(t *testing.T) {
			mcs := exposed(networkingv1alpha1.ExposureTypeCrossCluster)
			mcs.Spec.Ports = []networkingv1alpha1.ExposurePort{{Port: 8080}}
			h, e, templates := exposing(t, tc.service, mcs)
			turn(t, h, e, templates)
			for _, kind := range []string{"ServiceApplied", "EndpointSliceDispatched"} {
				if c := meta.FindStatusCondition(readMCS(t, h.Client).Status.Conditions, kind); c == nil || !strings.Contains(c.Message, tc.want) {
					t.Errorf("%s is %+v, want %q", kind, c, tc.want)
				}
			}
			if got := registrations(t, h.Client); len(got) > 0 || templates.patches > 0 {
				t.Errorf("slices are collected from %v, the Service was patched %d times: nothing should be done", got, templates.patches)
			}
		})
	}
}

// TestWithdrawing: everything goes with the MultiClusterService, with its finalizer or after others removed that.
func TestWithdrawing(t *testing.T) {
	for reason, bare := range map[string]bool{"deleted": false, "without its finalizer": true} {
		t.Run(reason, func(t *testing.T) {
			mcs := exposed(networkingv1alpha1.ExposureTypeCrossCluster)
			h, e, templates := exposing(t, webService(corev1.ServiceTypeClusterIP), mcs)
			turn(t, h, e, templates)
			record := fullRecord(t, "a", mcs)
			if err := h.Client.Create(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			current := readMCS(t, h.Client)
			if bare {
				current.Finalizers = nil
				if err := h.Client.Update(t.Context(), current); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.Client.Delete(t.Context(), current); err != nil {
				t.Fatal(err)
			}
			turn(t, h, e, templates)
			if err := h.Client.Get(t.Context(), webKey, &networkingv1alpha1.MultiClusterService{}); !apierrors.IsNotFound(err) {
				t.Errorf("the MultiClusterService is still there: %v", err)
			}
			var works workv1alpha1.WorkList
			if err := h.Client.List(t.Context(), &works); err != nil || len(works.Items) > 0 {
				t.Errorf("%d Works are left (%v)", len(works.Items), err)
			}
			var bindings workv1alpha2.ResourceBindingList
			if err := h.Client.List(t.Context(), &bindings); err != nil {
				t.Fatal(err)
			}
			for _, b := range bindings.Items {
				if b.DeletionTimestamp == nil {
					t.Errorf("binding %s is to stay", b.Name)
				}
			}
			if claimed(templates.service) || len(templates.service.Annotations) > 0 {
				t.Errorf("the Service has labels %v and annotations %v", templates.service.Labels, templates.service.Annotations)
			}
		})
	}
}

// TestWithdrawingForAPolicy: a policy that selects the Service gets its binding, so that no copy goes meanwhile.
func TestWithdrawingForAPolicy(t *testing.T) {
	h, e, templates := exposing(t, webService(corev1.ServiceTypeClusterIP), exposed(networkingv1alpha1.ExposureTypeCrossCluster))
	turn(t, h, e, templates)
	selecting := &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "services"},
		Spec:       policyv1alpha1.PropagationSpec{ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Service"}}},
	}
	if err := h.Client.Create(t.Context(), selecting); err != nil {
		t.Fatal(err)
	}
	if err := h.Client.Delete(t.Context(), readMCS(t, h.Client)); err != nil {
		t.Fatal(err)
	}
	turn(t, h, e, templates)
	binding := &workv1alpha2.ResourceBinding{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-service"}, binding); err != nil {
		t.Fatal(err)
	}
	if binding.DeletionTimestamp != nil || ours(binding) || claimed(templates.service) {
		t.Errorf("the binding has labels %v, the Service %v; want neither ours", binding.Labels, templates.service.Labels)
	}
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
