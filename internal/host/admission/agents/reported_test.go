package agents_test

import (
	"context"
	"encoding/json"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/apis/coordination"
	"k8s.io/kubernetes/pkg/apis/core"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/admission/agents"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
)

var thief = &user.DefaultInfo{Name: clusterv1alpha1.AgentUser("eu"), Groups: clusterv1alpha1.AgentGroups("1")}

func newPlugin() *agents.Plugin {
	return agents.New(func(context.Context, string) (string, error) { return "eu", nil },
		func(context.Context, string) (string, string, error) { return "csr", "eu", nil })
}

// write has the plugin admit a write of the agent of cluster eu.
func write(t *testing.T, plugin *agents.Plugin, object, old runtime.Object, resource schema.GroupVersionResource, subresource string) error {
	t.Helper()
	return writeAs(t, plugin, thief, object, old, resource, subresource)
}

func writeAs(t *testing.T, plugin *agents.Plugin, who user.Info, object, old runtime.Object, resource schema.GroupVersionResource, subresource string) error {
	t.Helper()
	operation, meta := admission.Create, object.(metav1.Object)
	if old != nil {
		operation = admission.Update
	}
	a := admission.NewAttributesRecord(object, old, corev1.SchemeGroupVersion.WithKind("Thing"), meta.GetNamespace(), meta.GetName(), resource, subresource, operation, nil, false, who)
	if err := plugin.Admit(t.Context(), a, nil); err != nil {
		return err
	}
	return plugin.Validate(t.Context(), a, nil)
}

var things = schema.GroupVersionResource{Resource: "things"}

// records as the collectors make them; that they do is compared in package agent.
func slicesOf(role bool) *workv1alpha1.Work {
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-eu", Name: networkingv1alpha1.CollectedWorkName("shop", "web-1"), Labels: map[string]string{
		networkingv1alpha1.MultiClusterServiceNamespaceLabel: "shop", networkingv1alpha1.MultiClusterServiceNameLabel: "web",
		networkingv1alpha1.MultiClusterServicePermanentIDLabel: "id", networkingv1alpha1.EndpointSliceWorkManagedByLabel: networkingv1alpha1.KindMultiClusterService,
	}}}
	if role {
		w.Name = multiclusterv1beta1.EndpointsRecordName("shop", "web-1")
		w.Labels = map[string]string{
			multiclusterv1beta1.ExportNamespaceLabel: "shop", multiclusterv1beta1.ExportNameLabel: "web", multiclusterv1beta1.ExportRoleLabel: multiclusterv1beta1.RoleEndpoints,
			networkingv1alpha1.EndpointSliceWorkManagedByLabel: multiclusterv1beta1.KindServiceExport,
		}
	}
	w.Labels[workv1alpha1.WorkPermanentIDLabel] = "id"
	w.Labels[networkingv1alpha1.EndpointSliceWorkNamespaceLabel], w.Labels[networkingv1alpha1.EndpointSliceWorkNameLabel] = "shop", "web-1"
	w.Spec.SuspendDispatching = new(true)
	w.SetManifest([]byte(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"shop","name":"web-1","labels":{"kubernetes.io/service-name":"web"}},
		"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true},"hostname":"web-0","zone":"a"}],"ports":[{"port":80}]}`))
	return w
}

func exportOf() *workv1alpha1.Work {
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-eu", Name: multiclusterv1beta1.ExportRecordName("shop", "web"), Labels: map[string]string{
		multiclusterv1beta1.ExportNamespaceLabel: "shop", multiclusterv1beta1.ExportNameLabel: "web", multiclusterv1beta1.ExportRoleLabel: multiclusterv1beta1.RoleExport,
	}}}
	w.Spec.SuspendDispatching = new(true)
	for _, text := range []string{
		`{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceExport","metadata":{"namespace":"shop","name":"web","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"exportedLabels":{"a":"b"}},"status":{}}`,
		`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop","name":"web"},"spec":{"type":"ClusterIP","ports":[{"name":"http","port":80,"targetPort":0}]},"status":{"loadBalancer":{}}}`,
	} {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}})
	}
	return w
}

// edited replaces text in a manifest.
func edited(w *workv1alpha1.Work, i int, from, to string) *workv1alpha1.Work {
	raw := string(w.Spec.Workload.Manifests[i].Raw)
	if !strings.Contains(raw, from) {
		panic(from)
	}
	w.Spec.Workload.Manifests[i].Raw = []byte(strings.Replace(raw, from, to, 1))
	return w
}

// TestRecordsAreExactlyThoseOfCollectors: labels and annotations decide what a Work counts for and belongs to, and what is in a manifest
// reaches other members.
func TestRecordsAreExactlyThoseOfCollectors(t *testing.T) {
	with := func(w *workv1alpha1.Work, edit func(*workv1alpha1.Work)) *workv1alpha1.Work { edit(w); return w }
	annotated := func(key, value string) func(*workv1alpha1.Work) {
		return func(w *workv1alpha1.Work) { w.AddAnnotations(map[string]string{key: value}) }
	}
	judged := with(exportOf(), annotated(multiclusterv1beta1.VerdictAnnotation, "{}"))
	for name, tc := range map[string]struct {
		object, old *workv1alpha1.Work
		refused     bool
	}{
		"collected":             {object: slicesOf(false)},
		"exported slice":        {object: slicesOf(true)},
		"export":                {object: exportOf()},
		"with the verdict":      {object: judged, old: judged.DeepCopy()},
		"node of an export":     {object: edited(slicesOf(true), 0, `"zone":"a"`, `"nodeName":"n"`)},
		"node of a collected":   {object: edited(slicesOf(false), 0, `"zone":"a"`, `"nodeName":"n"`), refused: true},
		"a verdict of its own":  {object: judged, refused: true},
		"another verdict":       {object: with(exportOf(), annotated(multiclusterv1beta1.VerdictAnnotation, `{"message":"x"}`)), old: judged, refused: true},
		"without the verdict":   {object: exportOf(), old: judged, refused: true},
		"of another tenant":     {object: with(exportOf(), annotated(workv1alpha2.ResourceBindingNamespaceAnnotation, "shop")), refused: true},
		"another label":         {object: with(exportOf(), func(w *workv1alpha1.Work) { w.Labels["a"] = "b" }), refused: true},
		"an owner":              {object: with(exportOf(), func(w *workv1alpha1.Work) { w.OwnerReferences = []metav1.OwnerReference{{Kind: "Node"}} }), refused: true},
		"a finalizer":           {object: with(exportOf(), func(w *workv1alpha1.Work) { w.Finalizers = []string{"a/b"} }), refused: true},
		"preserved":             {object: with(exportOf(), func(w *workv1alpha1.Work) { w.Spec.PreserveResourcesOnDeletion = new(true) }), refused: true},
		"unknown field":         {object: edited(exportOf(), 0, `"status":{}`, `"junk":"x"`), refused: true},
		"a status":              {object: edited(exportOf(), 0, `"status":{}`, `"status":{"conditions":[{"type":"Valid"}]}`), refused: true},
		"too large":             {object: edited(exportOf(), 0, `"a":"b"`, `"a":"`+strings.Repeat("b", bounds.MaxExportBytes)+`"`), refused: true},
		"annotated export":      {object: edited(exportOf(), 0, `"uid":"u"`, `"annotations":{"a":"b"}`), refused: true},
		"selector":              {object: edited(exportOf(), 1, `"ports"`, `"selector":{"a":"b"},"ports"`), refused: true},
		"cluster IP":            {object: edited(exportOf(), 1, `"ports"`, `"clusterIP":"10.0.0.1","ports"`), refused: true},
		"external name":         {object: edited(exportOf(), 1, `"ports"`, `"externalName":"a.b","ports"`), refused: true},
		"node port":             {object: edited(exportOf(), 1, `"port":80`, `"port":80,"nodePort":30000`), refused: true},
		"load balancer":         {object: edited(exportOf(), 1, `{"loadBalancer":{}}`, `{"loadBalancer":{"ingress":[{"ip":"10.0.0.1"}]}}`), refused: true},
		"another API version":   {object: edited(exportOf(), 1, `"v1"`, `"v2"`), refused: true},
		"annotated slice":       {object: edited(slicesOf(true), 0, `"name":"web-1"`, `"name":"web-1","annotations":{"a":"b"}`), refused: true},
		"labelled slice":        {object: edited(slicesOf(true), 0, `"labels":{`, `"labels":{"a":"b",`), refused: true},
		"owned slice":           {object: edited(slicesOf(true), 0, `"name":"web-1"`, `"name":"web-1","ownerReferences":[{"kind":"Node"}]`), refused: true},
		"a target":              {object: edited(slicesOf(true), 0, `"zone":"a"`, `"targetRef":{"kind":"Secret"}`), refused: true},
		"of another Service":    {object: edited(slicesOf(true), 0, `"kubernetes.io/service-name":"web"`, `"kubernetes.io/service-name":"bank"`), refused: true},
		"of another namespace":  {object: edited(slicesOf(true), 0, `"namespace":"shop"`, `"namespace":"bank"`), refused: true},
		"many endpoints":        {object: edited(slicesOf(true), 0, `"endpoints":[`, `"endpoints":[`+strings.Repeat(`{"addresses":[]},`, bounds.MaxEndpoints)), refused: true},
		"many addresses":        {object: edited(slicesOf(true), 0, `"10.0.0.1"`, `"10.0.0.1"`+strings.Repeat(`,"10.0.0.1"`, bounds.MaxAddresses)), refused: true},
		"one manifest too many": {object: with(slicesOf(true), func(w *workv1alpha1.Work) { w.Spec.Workload = exportOf().Spec.Workload }), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			var old runtime.Object
			if tc.old != nil {
				old = tc.old
			}
			if err := write(t, newPlugin(), tc.object, old, things, ""); (err != nil) != tc.refused {
				t.Errorf("refused is %v", err)
			}
		})
	}
}

// FuzzRecord: what is admitted in a record of a slice has no fields but those that collectors write.
func FuzzRecord(f *testing.F) {
	f.Add(string(slicesOf(false).Spec.Workload.Manifests[0].Raw))
	f.Add(`{"apiVersion":"discovery.k8s.io/v1","Kind":"EndpointSlice","metadata":{"namespace":"shop","name":"web-1","labels":{"kubernetes.io/service-name":"web"}},"endpoints":[{"addresses":null,"targetRef":null}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		work := slicesOf(false)
		work.Spec.Workload.Manifests[0].Raw = []byte(text)
		if write(t, newPlugin(), work, nil, things, "") != nil {
			return
		}
		var slice discoveryv1.EndpointSlice
		if err := json.Unmarshal([]byte(text), &slice); err != nil {
			t.Fatal(err)
		}
		if slice.Name != "web-1" || slice.Namespace != "shop" || len(slice.Annotations)+len(slice.OwnerReferences)+len(slice.Finalizers)+len(slice.ManagedFields) > 0 || len(slice.Labels) > 3 {
			t.Fatalf("admitted: %+v", slice.ObjectMeta)
		}
	})
}

// TestAnAgentChangesNoMetadataOfWorks: the garbage collector deletes what is owned by what does not exist.
func TestAnAgentChangesNoMetadataOfWorks(t *testing.T) {
	work := func(edit func(*workv1alpha1.Work)) *workv1alpha1.Work {
		w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-eu", Name: "web", Finalizers: []string{workv1alpha1.ExecutionFinalizer}}}
		if edit != nil {
			edit(w)
		}
		return w
	}
	owned := func(owner metav1.OwnerReference) func(*workv1alpha1.Work) {
		return func(w *workv1alpha1.Work) { w.OwnerReferences = []metav1.OwnerReference{owner} }
	}
	finalized := func(finalizers ...string) func(*workv1alpha1.Work) {
		return func(w *workv1alpha1.Work) { w.Finalizers = finalizers }
	}
	managed := func(size int) func(*workv1alpha1.Work) {
		return func(w *workv1alpha1.Work) {
			w.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", size))}}
		}
	}
	cluster := metav1.OwnerReference{APIVersion: "cluster.karmada.io/v1alpha1", Kind: "Cluster", Name: "eu", UID: "gone"}
	for name, tc := range map[string]struct {
		object, old *workv1alpha1.Work
		refused     bool
	}{
		"removes its finalizer":      {work(finalized()), work(nil), false},
		"adds its finalizer":         {work(nil), work(finalized()), false},
		"keeps those of others":      {work(finalized("a/b")), work(finalized("a/b", workv1alpha1.ExecutionFinalizer)), false},
		"removes that of another":    {work(nil), work(finalized(workv1alpha1.ExecutionFinalizer, "a/b")), true},
		"adds another":               {work(finalized(workv1alpha1.ExecutionFinalizer, "a/b")), work(nil), true},
		"owned by what is not there": {work(owned(metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "x"})), work(nil), true},
		"owned by its Cluster":       {work(owned(cluster)), work(nil), true},
		"blocks a deletion":          {work(owned(metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "shop", UID: "x", BlockOwnerDeletion: new(true)})), work(nil), true},
		"disowned":                   {work(nil), work(owned(cluster)), true},
		"keeps the owner":            {work(owned(cluster)), work(owned(cluster)), false},
		"some managed fields":        {work(managed(100)), work(nil), false},
		"managed fields of a MB":     {work(managed(1 << 20)), work(nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := write(t, newPlugin(), tc.object, tc.old, things, ""); (err != nil) != tc.refused {
				t.Errorf("refused is %v", err)
			}
		})
	}
	if err := write(t, newPlugin(), work(managed(1<<20)), work(nil), things, "status"); err == nil {
		t.Error("the same through the status is admitted")
	}
}

// TestWhatAnAgentWritesIsBounded: also of its own objects an agent stores no more than it has to.
func TestWhatAnAgentWritesIsBounded(t *testing.T) {
	long := strings.Repeat("x", 600<<10)
	namespaced := metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: "eu"}
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Resource: "leases"}
	capacities := schema.GroupVersionResource{Group: fleetv1alpha1.GroupName, Resource: fleetv1alpha1.ResourcePluralClusterCapacity}
	owned := func(name string) metav1.ObjectMeta {
		meta := *namespaced.DeepCopy()
		meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.karmada.io/v1alpha1", Kind: "Cluster", Name: name, UID: "x", BlockOwnerDeletion: new(true)}}
		return meta
	}
	annotated := *namespaced.DeepCopy()
	annotated.Annotations = map[string]string{"a": long}
	finalized := *namespaced.DeepCopy()
	finalized.Finalizers = []string{"a/b"}
	event := func(message string) *core.Event {
		return &core.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, InvolvedObject: core.ObjectReference{Kind: "Cluster", Name: "eu"}, Message: message}
	}
	capacity := func(note string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "eu"}, "omittedValues": []any{note}}}
	}
	for name, tc := range map[string]struct {
		object   runtime.Object
		resource schema.GroupVersionResource
		refused  bool
	}{
		"Event":            {event("short"), things, false},
		"LongEvent":        {event(long), things, true},
		"Lease":            {&coordination.Lease{ObjectMeta: owned("eu")}, leases, false},
		"LeaseOfOther":     {&coordination.Lease{ObjectMeta: owned("us")}, leases, true},
		"LongLease":        {&coordination.Lease{ObjectMeta: namespaced, Spec: coordination.LeaseSpec{HolderIdentity: &long}}, leases, true},
		"AnnotatedLease":   {&coordination.Lease{ObjectMeta: annotated}, leases, true},
		"FinalizedLease":   {&coordination.Lease{ObjectMeta: finalized}, leases, true},
		"Capacity":         {capacity("a"), capacities, false},
		"LargeCapacity":    {capacity(long), capacities, true},
		"Request":          {&certificates.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}}, things, false},
		"LargeRequest":     {&certificates.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificates.CertificateSigningRequestSpec{Request: []byte(long)}}, things, true},
		"FinalizedRequest": {&certificates.CertificateSigningRequest{ObjectMeta: finalized}, things, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := write(t, newPlugin(), tc.object, nil, tc.resource, ""); (err != nil) != tc.refused {
				t.Errorf("refused is %v", err)
			}
		})
	}
	plugin, made := newPlugin(), 0
	var refusal error
	for refusal == nil && made < 10*bounds.RequestBurst {
		refusal = write(t, plugin, &certificates.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(made)}}, nil, things, "")
		made++
	}
	if !apierrors.IsTooManyRequests(refusal) {
		t.Errorf("%d requests of certificates end with %v", made, refusal)
	}
}

// TestARegisteredClusterHasABound: a client with a bootstrap token fills no storage with labels and zones.
func TestARegisteredClusterHasABound(t *testing.T) {
	cluster := func(zones int) *clusterv1alpha1.Cluster {
		return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"}, Spec: clusterv1alpha1.ClusterSpec{
			SyncMode: clusterv1alpha1.Pull, Zones: slices.Repeat([]string{strings.Repeat("z", 60)}, zones),
		}}
	}
	registrar := &user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{clusterv1alpha1.AgentBootstrappersGroup}}
	for zones, refused := range map[int]bool{3: false, 1000: true} {
		if err := writeAs(t, newPlugin(), registrar, cluster(zones), nil, things, ""); (err != nil) != refused {
			t.Errorf("with %d zones refused is %v", zones, err)
		}
	}
}

// TestReportsAreCut: a report is stored as far as it is bounded, and says so.
func TestReportsAreCut(t *testing.T) {
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-eu", Name: "web", Generation: 2}}
	before := work.DeepCopy()
	work.Status = workv1alpha1.WorkStatus{
		Conditions: []metav1.Condition{{Type: "Applied", ObservedGeneration: 1 << 60, LastTransitionTime: metav1.NewTime(time.Now().AddDate(100, 0, 0))}},
		ManifestStatuses: []workv1alpha1.ManifestStatus{{Status: &runtime.RawExtension{
			Raw: []byte(`{"replicas":2,"junk":"` + strings.Repeat("x", 1_568_000) + `"}`),
		}}},
	}
	if err := write(t, newPlugin(), work, before, things, "status"); err != nil {
		t.Fatal(err)
	}
	status := work.Status.ManifestStatuses[0].Status
	if len(status.Raw) > bounds.MaxStatusBytes || !reports.WasCut(status) || !strings.Contains(string(status.Raw), `"replicas":2`) {
		t.Errorf("the status is %.200s", status.Raw)
	}
	if c := work.Status.Conditions[0]; c.ObservedGeneration != 2 || c.LastTransitionTime.After(time.Now()) {
		t.Errorf("the condition is %+v", c)
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"}}
	stored := cluster.DeepCopy()
	stored.Status.RemedyActions = []string{"TrafficControl"}
	cluster.Status.NodeSummary = &clusterv1alpha1.NodeSummary{TotalNum: -1}
	if err := write(t, newPlugin(), cluster, stored, things, "status"); err != nil {
		t.Fatal(err)
	}
	if cluster.Status.NodeSummary.TotalNum != 0 || len(cluster.Status.RemedyActions) != 1 {
		t.Errorf("the status is %+v", cluster.Status)
	}
}
