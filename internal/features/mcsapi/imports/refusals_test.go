package imports

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

// annotated is a control plane on which every namespace has these annotations. They are being deleted, so that no import is made there.
type annotated struct {
	noTemplates
	annotations map[string]string
}

func (a *annotated) Meta(ref hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	if ref.GroupVersionKind != namespaceKind {
		return nil, false
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Annotations: a.annotations, DeletionTimestamp: new(metav1.NewTime(noon))}}, true
}

// verdicts lists what the control plane noted on the records of a service: empty where it is imported.
func verdicts(t *testing.T, c client.Client, service types.NamespacedName) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, w := range must(exportwork.ListOf(t.Context(), c, service)) {
		if exportwork.RoleOf(w) == multiclusterv1beta1.RoleExport {
			v, given := exportwork.ReadVerdict(w)
			if !given {
				v.Refused = "nothing is noted"
			}
			found[strings.TrimPrefix(w.Namespace, "karmada-es-")] = v.Refused
		}
	}
	return found
}

// exportIn is the record of another Service than web.
func exportIn(cluster, namespace, name string, minute int) *workv1alpha1.Work {
	e := &multiclusterv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	record := must(exportwork.ExportRecord(cluster, e, corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}, nil))
	record.CreationTimestamp = recordIn(cluster, minute).CreationTimestamp
	return record
}

// TestRefusedExports: of several exports those that are refused count for nothing, and the others are imported.
func TestRefusedExports(t *testing.T) {
	limited := func(name, limit string) *clusterv1alpha1.Cluster {
		c := registeredCluster(name)
		c.Annotations = map[string]string{clusterv1alpha1.ExportLimitAnnotation: limit}
		return c
	}
	broken := recordIn("a", 0)
	broken.Spec.Workload.Manifests[1].Raw = []byte("[]")
	for reason, c := range map[string]struct {
		namespace map[string]string
		a         *clusterv1alpha1.Cluster
		records   []client.Object
		want      string // in the refusal of a; empty means none
	}{
		"nothing is said":                 {nil, registeredCluster("a"), nil, ""},
		"both are named":                  {map[string]string{clusterv1alpha1.ExportersAnnotation: "a, b"}, registeredCluster("a"), nil, ""},
		"it is not named":                 {map[string]string{clusterv1alpha1.ExportersAnnotation: "b"}, registeredCluster("a"), nil, clusterv1alpha1.ExportersAnnotation},
		"it may export nothing":           {nil, limited("a", "0"), nil, "exports 0 Services, and may export no more"},
		"it may export one":               {nil, limited("a", "1"), []client.Object{exportIn("a", "other", "later", 9)}, ""},
		"it exported another one before":  {nil, limited("a", "1"), []client.Object{exportIn("a", "other", "earlier", -9)}, "exports 1 Services"},
		"another cluster did":             {nil, limited("a", "1"), []client.Object{exportIn("b", "other", "earlier", -9)}, ""},
		"of this namespace it may one":    {map[string]string{clusterv1alpha1.ExportLimitAnnotation: "1"}, registeredCluster("a"), []client.Object{exportIn("a", "other", "earlier", -9)}, ""},
		"of this namespace it has one":    {map[string]string{clusterv1alpha1.ExportLimitAnnotation: "1"}, registeredCluster("a"), []client.Object{exportIn("a", "shop", "earlier", -9)}, "1 Services of namespace shop"},
		"what it sent is half an export":  {nil, registeredCluster("a"), []client.Object{broken}, "reading the export record"},
		"what it sent would not be valid": {nil, registeredCluster("a"), []client.Object{recordIn("a", 0, func(s *corev1.ServiceSpec) { s.Ports[0].Port = 0 })}, "ports[0].port"},
	} {
		t.Run(reason, func(t *testing.T) {
			objects := append([]client.Object{c.a, registeredCluster("b"), recordIn("b", 1)}, c.records...)
			if !slices.ContainsFunc(c.records, func(o client.Object) bool {
				return o.GetName() == recordIn("a", 0).Name && o.GetNamespace() == "karmada-es-a"
			}) {
				objects = append(objects, recordIn("a", 0))
			}
			h, i := importing(t, []string{"a", "b"}, nil, objects...)
			i.templates = &annotated{annotations: c.namespace}
			i.turn(t, h)
			got := verdicts(t, h.Client, webKey)
			if got["b"] != "" || (got["a"] != "") != (c.want != "") || !strings.Contains(got["a"], c.want) {
				t.Errorf("refusals are %q, want one of a with %q", got, c.want)
			}
			service := must(i.read(t.Context(), webKey)).service
			want := []string{"a", "b"}
			if c.want != "" {
				want = want[1:]
			}
			if service == nil || !slices.Equal(service.Clusters, want) {
				t.Errorf("it is imported from %+v, want from %v", service, want)
			}
			if writes := i.turn(t, h); writes != 0 {
				t.Errorf("%d writes for nothing new", writes)
			}
		})
	}
}

// TestReservedNamespacesAreNotImported, also if there is a record: nothing is written anywhere for it but the refusal.
func TestReservedNamespacesAreNotImported(t *testing.T) {
	for _, key := range []types.NamespacedName{{Namespace: "kube-system", Name: "kube-dns2"}, {Namespace: "default", Name: "kubernetes"}, {Namespace: "karmada-cluster", Name: "x"}} {
		h, i := importing(t, []string{"a", "b"}, nil, exportIn("a", key.Namespace, key.Name, 0), registeredCluster("a"), registeredCluster("b"))
		if _, err := i.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if works := must(exportwork.ListOf(t.Context(), h.Client, key)); len(works) != 1 || !strings.Contains(verdicts(t, h.Client, key)["a"], "belongs to its cluster") {
			t.Errorf("%s: there are %d Works, and the refusals %v", key, len(works), verdicts(t, h.Client, key))
		}
	}
}

// TestAForgedSliceGoesNowhere: others have the slices of a member as an API server would store them, or not at all.
func TestAForgedSliceGoesNowhere(t *testing.T) {
	other := registeredCluster("c")
	other.Spec.APIEndpoint = "https://192.0.2.3:6443"
	for reason, c := range map[string]struct {
		edit func(*discoveryv1.EndpointSlice)
		want bool
	}{
		"as it should be":           {func(*discoveryv1.EndpointSlice) {}, true},
		"an address of the machine": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"127.0.0.1"} }, false},
		"the API server of another": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"192.0.2.3"} }, false},
		"the slice of a third": {func(s *discoveryv1.EndpointSlice) {
			s.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.flagship.io"
		}, true},
		"more endpoints than may be": {func(s *discoveryv1.EndpointSlice) { s.Endpoints = slices.Repeat(s.Endpoints, 1001) }, false},
	} {
		slice := &discoveryv1.EndpointSlice{
			TypeMeta:    endpointslices.TypeMeta,
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web", "karmada.io/managed": "true"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "x"}}},
		}
		c.edit(slice)
		record := exportwork.EndpointsRecord("a", webKey, client.ObjectKeyFromObject(slice), must(endpointslices.Encode(slice)), nil)
		h, i := importing(t, []string{"a", "b"}, nil, recordIn("a", 0), record, registeredCluster("a"), registeredCluster("b"), other)
		d := &dispatcher{importer: i}
		if _, err := d.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(record)}); err != nil {
			t.Fatal(err)
		}
		works := must(exportwork.ListFrom(t.Context(), h.Client, client.ObjectKeyFromObject(record)))
		if (len(works) == 2) != c.want || !c.want && len(works) > 0 {
			t.Errorf("%s: %d clusters have it", reason, len(works))
		}
		for _, w := range works {
			if text := string(must(hubclient.GetWork(t.Context(), h.Client, client.ObjectKeyFromObject(w))).Spec.Workload.Manifests[0].Raw); strings.Contains(text, "targetRef") || strings.Contains(text, "karmada.io/managed\"") {
				t.Errorf("%s: a cluster gets %s", reason, text)
			}
		}
	}
}
