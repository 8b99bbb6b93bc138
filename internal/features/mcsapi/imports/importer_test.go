package imports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func webExport() *multiclusterv1beta1.ServiceExport {
	return &multiclusterv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", Generation: 3, CreationTimestamp: metav1.NewTime(noon)},
		Spec:       multiclusterv1beta1.ServiceExportSpec{ExportedLabels: map[string]string{"team": "shop"}},
	}
}

// noTemplates is a control plane without namespaces and imports.
type noTemplates struct{}

func (*noTemplates) Subscribe(func(hubstore.Ref)) {}

func (*noTemplates) WaitForSync(context.Context) error { return nil }

func (*noTemplates) PatchMetadata(context.Context, hubstore.Ref, []byte) (*unstructured.Unstructured, error) {
	return nil, errors.ErrUnsupported
}

func (*noTemplates) Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool) { return nil, false }

func (*noTemplates) Get(_ context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, ref.Name)
}

// importing is an importer on a control plane in memory. The namespace is in the clusters listed; of those in unknown it is not known.
func importing(t *testing.T, present, unknown []string, objects ...client.Object) (*hub, *importer) {
	t.Helper()
	h := newHub(t, objects...)
	return h, &importer{client: h.Client, templates: &noTemplates{}, clusters: h.clusters(), events: events.RecorderFunc(func(events.Event) {}), has: func(cluster, _ string) (bool, bool) {
		return slices.Contains(present, cluster), !slices.Contains(unknown, cluster)
	}}
}

func (i *importer) turn(t *testing.T, h *hub) int {
	t.Helper()
	before := h.Writes
	if _, err := i.Reconcile(t.Context(), reconcile.Request{NamespacedName: webKey}); err != nil {
		t.Fatal(err)
	}
	return h.Writes - before
}

func recordIn(cluster string, minute int, edits ...func(*corev1.ServiceSpec)) *workv1alpha1.Work {
	e := webExport()
	spec := corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}
	for _, edit := range edits {
		edit(&spec)
	}
	record := must(exportwork.ExportRecord(cluster, e, exportwork.ExportedSpec(&spec), nil))
	record.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute))
	return record
}

func noAddress(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }

// roles lists what Works there are about the service, records apart.
func roles(t *testing.T, c client.Client) (list []string) {
	t.Helper()
	for _, w := range must(exportwork.ListOf(t.Context(), c, webKey)) {
		if !multiclusterv1beta1.IsRecord(w) && w.DeletionTimestamp == nil {
			list = append(list, strings.TrimPrefix(w.Namespace, "karmada-es-")+" "+exportwork.RoleOf(w))
		}
	}
	slices.Sort(list)
	return list
}

func TestImportsGoWhereTheNamespaceIs(t *testing.T) {
	pulled := registeredCluster("d")
	pulled.Spec.SyncMode = clusterv1alpha1.Pull
	h, i := importing(t, []string{"a", "b"}, []string{"e"}, recordIn("a", 0),
		registeredCluster("a"), registeredCluster("b"), registeredCluster("c"), pulled, registeredCluster("e"))
	i.turn(t, h)
	want := []string{"a derived-service", "a import", "b derived-service", "b import"}
	if got := roles(t, h.Client); !slices.Equal(got, want) {
		t.Errorf("Works are %v, want %v", got, want)
	}
	if writes := i.turn(t, h); writes != 0 {
		t.Errorf("%d writes for nothing new", writes)
	}
	// A cluster about which nothing is known keeps what it has.
	i.has = func(string, string) (bool, bool) { return false, false }
	if writes := i.turn(t, h); writes != 0 {
		t.Errorf("%d writes while nothing is known", writes)
	}
	i.has = func(cluster, _ string) (bool, bool) { return cluster == "a", true }
	i.turn(t, h)
	if got := roles(t, h.Client); !slices.Equal(got, want[:2]) {
		t.Errorf("without the namespace Works are %v, want %v", got, want[:2])
	}
}

// TestAPulledClusterImportsWhatItExports, although which namespaces it has is not known.
func TestAPulledClusterImportsWhatItExports(t *testing.T) {
	exporter, other := registeredCluster("d"), registeredCluster("e")
	exporter.Spec.SyncMode, other.Spec.SyncMode = clusterv1alpha1.Pull, clusterv1alpha1.Pull
	record := recordIn("d", 0)
	h, i := importing(t, nil, []string{"d", "e"}, record, recordIn("a", 1), registeredCluster("a"), exporter, other)
	i.turn(t, h)
	want := []string{"d derived-service", "d import"}
	if got := roles(t, h.Client); !slices.Equal(got, want) {
		t.Errorf("Works are %v, want %v", got, want)
	}
	if err := h.Client.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	i.turn(t, h)
	if got := roles(t, h.Client); len(got) > 0 {
		t.Errorf("without its export Works are %v", got)
	}
}

func TestImportsGoWithTheLastExport(t *testing.T) {
	a, b := recordIn("a", 0), recordIn("b", 1)
	h, i := importing(t, []string{"a", "b"}, nil, a, b, registeredCluster("a"), registeredCluster("b"))
	i.turn(t, h)
	for n, record := range []*workv1alpha1.Work{a, b} {
		if err := h.Client.Delete(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		i.turn(t, h)
		if got := roles(t, h.Client); (len(got) == 0) != (n == 1) {
			t.Errorf("after %d of 2 exports went Works are %v", n+1, got)
		}
	}
}

// TestVerdictsComeFromRecords: every export reports a conflict, and clusters that cannot import.
func TestVerdictsComeFromRecords(t *testing.T) {
	a, b := recordIn("a", 0), recordIn("b", 1, noAddress)
	h, i := importing(t, []string{"a"}, nil, a, b, registeredCluster("a"), registeredCluster("b"))
	i.turn(t, h)
	verdictOn := func(record *workv1alpha1.Work) exportwork.Verdict {
		if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(record), record); err != nil {
			t.Fatal(err)
		}
		v, given := exportwork.ReadVerdict(record)
		if !given {
			t.Fatalf("nothing is noted on the record in %s", record.Namespace)
		}
		return v
	}
	for _, record := range []*workv1alpha1.Work{a, b} {
		if v := verdictOn(record); len(v.Reasons) != 1 || v.Reasons[0] != multiclusterv1beta1.TypeConflict || !strings.Contains(v.Message, "in cluster a; 1 of 2") {
			t.Errorf("the verdict on %s is %+v", record.Namespace, v)
		}
	}
	work := must(hubclient.GetWork(t.Context(), i.client, exportwork.ImportKey("a", webKey))).DeepCopy()
	work.Status.Conditions = []metav1.Condition{{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionFalse, Message: "there is another"}}
	if err := h.Client.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	i.turn(t, h)
	if v := verdictOn(a); v.Obstacles != "cluster a: there is another" {
		t.Errorf("the verdict is %+v, want the obstacle", v)
	}
}

// TestDerivedServiceIsMadeAgain: an address cannot be taken from a Service, so it goes before it comes as another.
func TestDerivedServiceIsMadeAgain(t *testing.T) {
	a, b := recordIn("a", 0), recordIn("b", 1, noAddress)
	h, i := importing(t, []string{"a"}, nil, a, b, registeredCluster("a"), registeredCluster("b"))
	i.turn(t, h)
	if err := h.Client.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	i.turn(t, h)
	old := must(hubclient.GetWork(t.Context(), i.client, exportwork.DerivedKey("a", webKey)))
	if old == nil || old.DeletionTimestamp == nil {
		t.Fatal("the Work of the Service with an address is not going")
	}
	old.Finalizers = nil
	if err := h.Client.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	i.turn(t, h)
	if next := must(hubclient.GetWork(t.Context(), i.client, exportwork.DerivedKey("a", webKey))); next == nil || !headless(next) {
		t.Error("no Work of a headless Service has come instead")
	}
}

// TestPoliciesKeepTheirWorks: where a policy takes a ServiceImport, its Work is not ours to write or delete.
func TestPoliciesKeepTheirWorks(t *testing.T) {
	theirs := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: "karmada-es-a", Name: exportwork.ImportKey("a", webKey).Name, Labels: map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "x"},
	}}
	record := recordIn("a", 0)
	h, i := importing(t, []string{"a"}, nil, record, theirs, registeredCluster("a"))
	i.turn(t, h)
	if got := must(hubclient.GetWork(t.Context(), i.client, exportwork.ImportKey("a", webKey))); len(got.Spec.Workload.Manifests) > 0 {
		t.Error("it was written")
	}
	if err := h.Client.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	i.turn(t, h)
	if got := must(hubclient.GetWork(t.Context(), i.client, exportwork.ImportKey("a", webKey))); got == nil {
		t.Error("it was deleted")
	}
}

func TestImportedEndpoints(t *testing.T) {
	raw := must(endpointslices.Encode(exportwork.Exported(full())))
	slice := exportwork.EndpointsRecord("a", webKey, client.ObjectKeyFromObject(full()), raw, nil)
	record := recordIn("a", 0)
	h, i := importing(t, []string{"a", "b"}, nil, slice, record, registeredCluster("a"), registeredCluster("b"), registeredCluster("c"))
	d := &dispatcher{importer: i}
	turn := func() int {
		before := h.Writes
		if _, err := d.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(slice)}); err != nil {
			t.Fatal(err)
		}
		return h.Writes - before
	}
	carried := func() (list []string) {
		for _, w := range must(exportwork.ListFrom(t.Context(), h.Client, client.ObjectKeyFromObject(slice))) {
			if w.DeletionTimestamp == nil {
				s := must(endpointslices.Decode(w.Spec.Workload.Manifests[0].Raw))
				list = append(list, fmt.Sprintf("%s %s", strings.TrimPrefix(w.Namespace, "karmada-es-"), s.Name))
			}
		}
		slices.Sort(list)
		return list
	}
	turn()
	if want := []string{"a imported-a-web-x7k2p", "b imported-a-web-x7k2p"}; !slices.Equal(carried(), want) {
		t.Errorf("clusters have %v, want %v", carried(), want)
	}
	if writes := turn(); writes != 0 {
		t.Errorf("%d writes for nothing new", writes)
	}
	if err := h.Client.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	turn()
	if got := carried(); len(got) > 0 {
		t.Errorf("without the export clusters have %v", got)
	}
}

// spaces is a control plane with the namespaces of the map.
type spaces struct {
	noTemplates
	names map[string]bool
}

func (s *spaces) Meta(ref hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	return &metav1.PartialObjectMetadata{}, ref.GroupVersionKind == namespaceKind && s.names[ref.Name]
}

// TestEndpointsOnHub: the control plane has a slice of each record as long as it has the namespace, and there is an export.
func TestEndpointsOnHub(t *testing.T) {
	raw := must(endpointslices.Encode(exportwork.Exported(full())))
	slice := exportwork.EndpointsRecord("a", webKey, client.ObjectKeyFromObject(full()), raw, nil)
	record := recordIn("a", 0)
	foreign := full()
	foreign.Name = "of-a-user"
	foreign.Labels = OnHub()
	foreign.Labels[networkingv1alpha1.EndpointSliceWorkNamespaceLabel] = slice.Labels[networkingv1alpha1.EndpointSliceWorkNamespaceLabel]
	foreign.Annotations = map[string]string{networkingv1alpha1.EndpointSliceProvisionClusterAnnotation: "a", networkingv1alpha1.EndpointSliceWorkNameLabel: full().Name}
	h, i := importing(t, nil, nil, slice, record, foreign, registeredCluster("a"))
	there := map[string]bool{webKey.Namespace: true}
	i.templates = &spaces{names: there}
	endpoints := &hubEndpoints{importer: i}
	turn := func() int {
		before := h.Writes
		if _, err := endpoints.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(slice)}); err != nil {
			t.Fatal(err)
		}
		return h.Writes - before
	}
	turn()
	got := &discoveryv1.EndpointSlice{}
	key := types.NamespacedName{Namespace: webKey.Namespace, Name: "imported-a-web-x7k2p"}
	if err := h.Client.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	if got.Labels[discoveryv1.LabelServiceName] != "derived-web" || !isOnHub(got.Labels) || got.Endpoints[0].NodeName != nil {
		t.Errorf("the slice is %+v", got)
	}
	if writes := turn(); writes != 0 {
		t.Errorf("%d writes for nothing new", writes)
	}
	want := got.Endpoints
	got.Endpoints = nil
	if err := h.Client.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	turn()
	if err := h.Client.Get(t.Context(), key, got); err != nil || len(got.Endpoints) != len(want) {
		t.Errorf("the endpoints are %v, want %v (%v)", got.Endpoints, want, err)
	}
	clear(there)
	turn()
	if err := h.Client.Get(t.Context(), key, got); !apierrors.IsNotFound(err) {
		t.Errorf("without the namespace there is %v (%v)", got, err)
	}
	there[webKey.Namespace] = true
	turn()
	if err := h.Client.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	turn()
	if err := h.Client.Get(t.Context(), key, got); !apierrors.IsNotFound(err) {
		t.Errorf("without the export there is %v (%v)", got, err)
	}
	if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Errorf("the slice of a user: %v", err)
	}
}

// TestDerivedServiceOnHub: the control plane has the derived Service as long as it has the import.
func TestDerivedServiceOnHub(t *testing.T) {
	h, i := importing(t, nil, nil, registeredCluster("a"))
	i.templates = &spaces{names: map[string]bool{webKey.Namespace: true}}
	s := &set{key: webKey, custom: &multiclusterv1beta1.ServiceImport{Spec: multiclusterv1beta1.ServiceImportSpec{
		Type: multiclusterv1beta1.ClusterSetIP, Ports: []multiclusterv1beta1.ServicePort{{Name: "http", Port: 80}}, IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol},
	}}}
	turn := func() (int, *corev1.Service) {
		before := h.Writes
		if err := i.writeDerivedOnHub(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		writes, got := h.Writes-before, &corev1.Service{}
		if err := h.Client.Get(t.Context(), types.NamespacedName{Namespace: webKey.Namespace, Name: "derived-web"}, got); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return writes, got
	}
	if _, got := turn(); !isOnHub(got.Labels) || got.Spec.Ports[0].TargetPort.IntValue() != 80 || len(got.Spec.IPFamilies) > 0 {
		t.Errorf("it is %+v", got)
	}
	if writes, _ := turn(); writes != 0 {
		t.Errorf("%d writes for nothing new", writes)
	}
	s.custom.Spec.Ports[0].Port = 81
	if _, got := turn(); got.Spec.Ports[0].Port != 81 {
		t.Errorf("the ports are %v", got.Spec.Ports)
	}
	s.custom.Spec.Type = multiclusterv1beta1.Headless
	turn()
	if _, got := turn(); got.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the headless one is %+v", got.Spec)
	}
	s.custom.Spec.Type, s.custom.Spec.Ports = multiclusterv1beta1.ClusterSetIP, nil
	if _, got := turn(); got.Name != "" {
		t.Errorf("without ports there is %+v", got)
	}
	s.custom = nil
	if _, got := turn(); got.Name != "" {
		t.Errorf("without the import there is %+v", got)
	}
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: webKey.Namespace, Name: "derived-web"}}
	if err := h.Client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	if writes, _ := turn(); writes != 0 {
		t.Error("the Service of a user was changed")
	}
}

// stored is a control plane with every namespace, and the imports of a client.
type stored struct {
	noTemplates
	client client.Client
}

func (s *stored) Meta(ref hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	if ref.GroupVersionKind == namespaceKind {
		return &metav1.PartialObjectMetadata{}, true
	}
	obj, err := s.Get(context.Background(), ref)
	if err != nil {
		return nil, false
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: obj.GetLabels(), UID: obj.GetUID()}}, true
}

func (s *stored) Get(ctx context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(ref.GroupVersionKind)
	return obj, s.client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, obj)
}

// TestImportOnHub: the import on the control plane follows the exports until a user changes it.
func TestImportOnHub(t *testing.T) {
	h, i := importing(t, nil, nil, recordIn("a", 0), registeredCluster("a"), registeredCluster("b"))
	i.templates = &stored{client: h.Client}
	get := func() *multiclusterv1beta1.ServiceImport {
		got := &multiclusterv1beta1.ServiceImport{}
		if err := h.Client.Get(t.Context(), webKey, got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	i.turn(t, h)
	if got := get(); !madeFromExports(got.Labels) || got.Spec.Ports[0].Port != 80 || len(got.Status.Clusters) != 1 {
		t.Errorf("the first one is %+v", got)
	}
	if writes := i.turn(t, h); writes != 0 {
		t.Errorf("%d writes for nothing new", writes)
	}
	second := recordIn("b", 1, func(s *corev1.ServiceSpec) { s.Ports = append(s.Ports, corev1.ServicePort{Name: "more", Port: 90}) })
	if err := h.Client.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	i.turn(t, h)
	if got := get(); !madeFromExports(got.Labels) || len(got.Spec.Ports) != 2 || len(got.Status.Clusters) != 2 {
		t.Errorf("of two exports it is %+v", got)
	}

	theirs := get()
	theirs.Spec.Ports = []multiclusterv1beta1.ServicePort{{Name: "http", Port: 8080}}
	if err := h.Client.Update(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	i.turn(t, h)
	if got := get(); madeFromExports(got.Labels) || got.Annotations[multiclusterv1beta1.ContentAnnotation] != "" || got.Spec.Ports[0].Port != 8080 ||
		len(got.Status.Clusters) != 0 {
		t.Errorf("after the change of a user it is %+v", got)
	}
	if err := h.Client.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	i.turn(t, h)
	if got := get(); got.Spec.Ports[0].Port != 8080 {
		t.Errorf("without the second export it is %+v", got)
	}
}

// TestWhetherAServiceIsDerivedIsAnEvent has imports whose Service can be derived, and whose cannot.
func TestWhetherAServiceIsDerivedIsAnEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		key    types.NamespacedName
		theirs *metav1.PartialObjectMetadata
		err    error
		want   string
	}{
		"Derived":  {webKey, nil, nil, events.SyncDerivedServiceSucceed},
		"Ours":     {webKey, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: OnHub()}}, nil, events.SyncDerivedServiceSucceed},
		"Theirs":   {webKey, &metav1.PartialObjectMetadata{}, nil, events.SyncDerivedServiceFailed},
		"LongName": {types.NamespacedName{Namespace: "shop", Name: strings.Repeat("a", 60)}, nil, nil, events.SyncDerivedServiceFailed},
		"Refused":  {webKey, nil, errors.ErrUnsupported, events.SyncDerivedServiceFailed},
	} {
		t.Run(name, func(t *testing.T) {
			i := &importer{templates: &oneObject{object: tc.theirs}}
			if got := i.derivedEvent(corev1.ObjectReference{}, tc.key, tc.err); got.Reason != tc.want {
				t.Errorf("the event is %v, want %s", got, tc.want)
			}
		})
	}
}

// oneObject is a control plane with one object of any name.
type oneObject struct {
	noTemplates
	object *metav1.PartialObjectMetadata
}

func (o *oneObject) Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	return o.object, o.object != nil
}

func TestDefinitionsGoToEveryCluster(t *testing.T) {
	h := newHub(t, registeredCluster("a"))
	d := must(newDefiner(h.Client))
	turn := func() int {
		before := h.Writes
		if _, err := d.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		return h.Writes - before
	}
	if writes := turn(); writes != 2 {
		t.Errorf("%d writes, want one for each definition", writes)
	}
	if writes := turn(); writes != 0 {
		t.Errorf("%d writes for nothing new", writes)
	}
	work := &workv1alpha1.Work{}
	key := client.ObjectKey{Namespace: "karmada-es-a", Name: exportwork.ExportDefinition}
	if err := h.Client.Get(t.Context(), key, work); err != nil {
		t.Fatal(err)
	}
	work.Labels[workv1alpha2.ResourceBindingPermanentIDLabel], work.Spec.Workload.Manifests = "x", nil
	if err := h.Client.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	if writes := turn(); writes != 0 {
		t.Errorf("%d writes over what a policy takes there", writes)
	}
}

// hub is a control plane in memory with a clock.
type hub struct {
	*fleettest.Memory
	clock *clocktesting.FakeClock
}

func newHub(t *testing.T, objects ...client.Object) *hub {
	t.Helper()
	h := &hub{clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	h.Memory = fleettest.InMemory(t, []fleettest.Index{exportwork.AddIndexes, addIndexes}, objects...)
	return h
}

func (h *hub) clusters() endpointslices.Clusters {
	return endpointslices.Clusters{Reader: h.Client, Clock: h.clock, Grace: func() time.Duration { return time.Minute }}
}

func registeredCluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

var webKey = types.NamespacedName{Namespace: "shop", Name: "web"}
