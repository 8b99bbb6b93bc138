package admission_test

import (
	"context"
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
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	hubadmission "github.com/flagship-k8s/flagship/internal/host/admission"
)

func TestAgentsWriteOnlyWhatIsTheirs(t *testing.T) {
	plugin := hubadmission.NewAgents(func(context.Context, string) (string, error) { return "eu", nil })
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
		"OtherUsers":   {"others are not concerned", &user.DefaultInfo{Name: "alice"}, cluster("us", nil), nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			operation := admission.Create
			if tc.old != nil {
				operation = admission.Update
			}
			resource := schema.GroupVersionResource{Resource: "things"}
			if _, is := tc.object.(*coordination.Lease); is {
				resource = schema.GroupVersionResource{Group: "coordination.k8s.io", Resource: "leases"}
			}
			meta := tc.object.(metav1.Object)
			err := plugin.Validate(t.Context(), admission.NewAttributesRecord(
				tc.object, tc.old, corev1.SchemeGroupVersion.WithKind("Thing"), meta.GetNamespace(), meta.GetName(), resource, "", operation, nil, false, tc.who), nil)
			if (err != nil) != tc.refused {
				t.Errorf("%s: %v", tc.reason, err)
			}
		})
	}
}
