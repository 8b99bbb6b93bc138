package agents_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/coordination"
	"k8s.io/kubernetes/pkg/apis/core"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/admission/agents"
)

func TestAgentsWriteOnlyWhatIsTheirs(t *testing.T) {
	plugin := agents.New(
		func(context.Context, string) (string, error) { return "eu", nil },
		func(_ context.Context, credential string) (string, string, error) {
			return "csr", map[string]string{"issued": "eu"}[credential], nil
		})
	agent := &user.DefaultInfo{Name: clusterv1alpha1.AgentUser("eu"), Groups: clusterv1alpha1.AgentGroups("1")}
	token := &user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{clusterv1alpha1.AgentBootstrappersGroup}}
	cluster := func(name string, edit func(*clusterv1alpha1.Cluster)) *clusterv1alpha1.Cluster {
		c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull, ID: "id", Region: "eu"}}
		if edit != nil {
			edit(c)
		}
		return c
	}
	event := func(namespace, kind, name string) *core.Event {
		return &core.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e"}, InvolvedObject: core.ObjectReference{Kind: kind, Name: name}}
	}
	lease := func(name string) *coordination.Lease {
		return &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}}
	}
	work := func(edit func(*workv1alpha1.Work)) *workv1alpha1.Work {
		w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-eu", Name: "web", Finalizers: []string{workv1alpha1.ExecutionFinalizer}}}
		if edit != nil {
			edit(w)
		}
		return w
	}
	// Records as the collectors make them.
	collected := func(edit func(*workv1alpha1.Work)) *workv1alpha1.Work {
		w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-eu", Name: networkingv1alpha1.CollectedWorkName("shop", "web-1"), Labels: map[string]string{
			networkingv1alpha1.MultiClusterServiceNamespaceLabel: "shop", networkingv1alpha1.MultiClusterServiceNameLabel: "web",
			networkingv1alpha1.EndpointSliceWorkNamespaceLabel: "shop", networkingv1alpha1.EndpointSliceWorkNameLabel: "web-1",
			networkingv1alpha1.EndpointSliceWorkManagedByLabel: networkingv1alpha1.KindMultiClusterService,
		}}}
		w.Spec.SuspendDispatching = new(true)
		w.SetManifest([]byte(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"shop","name":"web-1","labels":{"kubernetes.io/service-name":"web"}}}`))
		if edit != nil {
			edit(w)
		}
		return w
	}
	exported := func(edit func(*workv1alpha1.Work)) *workv1alpha1.Work {
		w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-eu", Name: multiclusterv1beta1.ExportRecordName("shop", "web"), Labels: map[string]string{
			multiclusterv1beta1.ExportNamespaceLabel: "shop", multiclusterv1beta1.ExportNameLabel: "web", multiclusterv1beta1.ExportRoleLabel: multiclusterv1beta1.RoleExport,
		}}}
		w.Spec.SuspendDispatching = new(true)
		for _, kind := range []string{`"multicluster.x-k8s.io/v1beta1","kind":"ServiceExport"`, `"v1","kind":"Service"`} {
			w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":` + kind + `,"metadata":{"namespace":"shop","name":"web"}}`),
			}})
		}
		if edit != nil {
			edit(w)
		}
		return w
	}
	reserved := func(w *workv1alpha1.Work) { // in the namespace of Kubernetes itself
		w.Name, w.Labels[multiclusterv1beta1.ExportNamespaceLabel] = multiclusterv1beta1.ExportRecordName("kube-system", "web"), "kube-system"
		for i := range w.Spec.Workload.Manifests {
			w.Spec.Workload.Manifests[i].Raw = bytes.ReplaceAll(w.Spec.Workload.Manifests[i].Raw, []byte("shop"), []byte("kube-system"))
		}
	}
	imported := func(w *workv1alpha1.Work) { // the slice of an exported Service
		w.Name = multiclusterv1beta1.EndpointsRecordName("shop", "web-1")
		w.Labels[multiclusterv1beta1.ExportRoleLabel] = multiclusterv1beta1.RoleEndpoints
		w.Labels[networkingv1alpha1.EndpointSliceWorkManagedByLabel] = multiclusterv1beta1.KindServiceExport
		w.Labels[networkingv1alpha1.EndpointSliceWorkNamespaceLabel], w.Labels[networkingv1alpha1.EndpointSliceWorkNameLabel] = "shop", "web-1"
		w.Spec.Workload = collected(nil).Spec.Workload
	}
	registration := func(w *workv1alpha1.Work) {
		w.Name = workv1alpha1.WorkName("MultiClusterService", "shop", "web")
		delete(w.Labels, networkingv1alpha1.EndpointSliceWorkNamespaceLabel)
	}
	warned := func(edit func(*workv1alpha1.Work)) *workv1alpha1.Work {
		w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-eu", Name: workv1alpha1.EventsRecordName, Labels: map[string]string{workv1alpha1.EventsRecordLabel: "true"}}}
		w.Spec.SuspendDispatching = new(true)
		w.SetManifest([]byte(`{"apiVersion":"v1","kind":"Event","metadata":{"name":"a"},"related":{"kind":"Work","name":"web"}}`))
		if edit != nil {
			edit(w)
		}
		return w
	}
	tests := map[string]struct {
		reason      string
		who         user.Info
		object, old runtime.Object
		refused     bool
	}{
		"Registers":    {"a token registers the cluster that it names", token, cluster("eu", nil), nil, false},
		"OtherName":    {"and no other one", token, cluster("us", nil), nil, true},
		"Push":         {"only in Pull mode: the control plane would dial the address of a stranger", token, cluster("eu", func(c *clusterv1alpha1.Cluster) { c.Spec.SyncMode = clusterv1alpha1.Push }), nil, true},
		"Address":      {"without an address, which requests through the proxy would go to", token, cluster("eu", func(c *clusterv1alpha1.Cluster) { c.Spec.APIEndpoint = "https://10.0.0.1" }), nil, true},
		"Secret":       {"and without the credentials of another cluster", token, cluster("eu", func(c *clusterv1alpha1.Cluster) { c.Spec.SecretRef = &clusterv1alpha1.LocalSecretReference{Name: "us"} }), nil, true},
		"Annotations":  {"annotations are instructions of operators", token, cluster("eu", func(c *clusterv1alpha1.Cluster) { c.Annotations = map[string]string{"flagship.io/apply-as": "root"} }), nil, true},
		"WorkEvent":    {"an agent publishes events about its Works", agent, event("karmada-es-eu", "Work", "web"), nil, false},
		"ClusterEvent": {"and about its Cluster", agent, event("default", "Cluster", "eu"), nil, false},
		"OtherEvent":   {"but not about another one", agent, event("default", "Cluster", "us"), nil, true},
		"Lease":        {"it has the Lease of its name", agent, lease("eu"), nil, false},
		"OtherLease":   {"and no other one", agent, lease("us"), nil, true},
		"EpochLease":   {"and the one that counts its periods of writing", agent, &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-system", Name: "member-eu"}}, nil, false},
		"Election":     {"but not the one by which control planes elect", agent, &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-system", Name: "flagship"}}, nil, true},
		"Finalizer":    {"it removes its finalizer from a Work", agent, work(func(w *workv1alpha1.Work) { w.Finalizers = nil }), work(nil), false},
		"Manifest":     {"and does not change what is applied", agent, work(func(w *workv1alpha1.Work) { w.Spec.SuspendDispatching = new(true) }), work(nil), true},
		"Label":        {"nor labels, by which the control plane selects Works", agent, work(func(w *workv1alpha1.Work) { w.Labels = map[string]string{"a": "b"} }), work(nil), true},
		"Record":       {"it records slices of Services that its member provides", agent, collected(nil), nil, false},
		"RecordChange": {"and changes them", agent, collected(nil), collected(func(w *workv1alpha1.Work) { w.Spec.Workload.Manifests = nil }), false},
		"RecordGone":   {"and deletes them", agent, nil, collected(nil), false},
		"WorkGone":     {"but deletes no other Work", agent, nil, work(nil), true},
		"NewWork":      {"nor creates one", agent, work(nil), nil, true},
		"Export":       {"it records exports", agent, exported(nil), nil, false},
		"ExportSlice":  {"and their slices", agent, exported(imported), nil, false},
		"Reserved":     {"but none of a namespace that belongs to the cluster", agent, exported(reserved), nil, true},
		"ReservedGone": {"whose records it may delete", agent, nil, exported(reserved), false},
		"Active":       {"a record is not applied", agent, collected(func(w *workv1alpha1.Work) { w.Spec.SuspendDispatching = nil }), nil, true},
		"WorkName":     {"and has not the name of another Work", agent, collected(func(w *workv1alpha1.Work) { w.Name = "web-1" }), nil, true},
		"OtherService": {"endpoints are of the Service that the labels name", agent, collected(func(w *workv1alpha1.Work) { w.Labels[networkingv1alpha1.MultiClusterServiceNameLabel] = "bank" }), nil, true},
		"OtherSpace":   {"and in its namespace", agent, collected(func(w *workv1alpha1.Work) { w.Labels[networkingv1alpha1.MultiClusterServiceNamespaceLabel] = "bank" }), nil, true},
		"OtherKind": {"nothing else is in a record", agent, collected(func(w *workv1alpha1.Work) {
			w.SetManifest([]byte(`{"kind":"Secret","metadata":{"namespace":"shop","name":"web-1","labels":{"kubernetes.io/service-name":"web"}}}`))
		}), nil, true},
		"OtherExport":  {"an export is of its own Service", agent, exported(func(w *workv1alpha1.Work) { w.Labels[multiclusterv1beta1.ExportNameLabel] = "bank" }), nil, true},
		"Registration": {"the control plane decides what a member provides", agent, collected(registration), nil, true},
		"Unregisters":  {"and what it does not", agent, nil, collected(registration), true},
		"Warnings":     {"it records what its member warns of", agent, warned(nil), nil, false},
		"NoWarnings":   {"also that it warns of nothing any more", agent, warned(func(w *workv1alpha1.Work) { w.Spec.Workload.Manifests = nil }), warned(nil), false},
		"WarningsName": {"in one record", agent, warned(func(w *workv1alpha1.Work) { w.Name += "-2" }), nil, true},
		"WarningsKind": {"in which there are Events only", agent, warned(func(w *workv1alpha1.Work) { w.SetManifest([]byte(`{"apiVersion":"v1","kind":"Secret"}`)) }), nil, true},
		"WarningsMany": {"no more than are shown", agent, warned(func(w *workv1alpha1.Work) {
			w.Spec.Workload.Manifests = slices.Repeat(w.Spec.Workload.Manifests, workv1alpha1.MaxRecordedEvents+1)
		}), nil, true},
		"WarningsLong": {"of bounded size", agent, warned(func(w *workv1alpha1.Work) {
			w.SetManifest([]byte(`{"apiVersion":"v1","kind":"Event","message":"` + strings.Repeat("a", workv1alpha1.MaxRecordedEventBytes) + `"}`))
		}), nil, true},
		"WarningsActive": {"and which is not applied", agent, warned(func(w *workv1alpha1.Work) { w.Spec.SuspendDispatching = nil }), nil, true},
		"WarningsBound":  {"the record is no Work of a binding", agent, warned(func(w *workv1alpha1.Work) { w.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] = "1" }), nil, true},
		"WarningsMixed":  {"nor another record", agent, warned(func(w *workv1alpha1.Work) { w.Labels[networkingv1alpha1.MultiClusterServiceNameLabel] = "web" }), nil, true},
		"OtherUsers":     {"others are not concerned", &user.DefaultInfo{Name: "alice"}, cluster("us", nil), nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			operation := admission.Create
			switch {
			case tc.object == nil:
				operation = admission.Delete
			case tc.old != nil:
				operation = admission.Update
			}
			resource := schema.GroupVersionResource{Resource: "things"}
			if _, is := tc.object.(*coordination.Lease); is {
				resource = schema.GroupVersionResource{Group: "coordination.k8s.io", Resource: "leases"}
			}
			meta, ok := tc.object.(metav1.Object)
			if !ok {
				meta = tc.old.(metav1.Object)
			}
			err := plugin.Validate(t.Context(), admission.NewAttributesRecord(
				tc.object, tc.old, corev1.SchemeGroupVersion.WithKind("Thing"), meta.GetNamespace(), meta.GetName(), resource, "", operation, nil, false, tc.who), nil)
			if (err != nil) != tc.refused {
				t.Errorf("%s: %v", tc.reason, err)
			}
		})
	}
}
