package search

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	searchv1alpha1 "github.com/flagship-k8s/flagship/api/search/v1alpha1"
)

func registry(target policyv1alpha1.ClusterAffinity, selectors ...searchv1alpha1.ResourceSelector) searchv1alpha1.ResourceRegistry {
	return searchv1alpha1.ResourceRegistry{Spec: searchv1alpha1.ResourceRegistrySpec{TargetCluster: target, ResourceSelectors: selectors}}
}

func cluster(name string, kinds ...string) clusterv1alpha1.Cluster {
	resources := make([]clusterv1alpha1.APIResource, 0, len(kinds))
	for _, kind := range kinds {
		resources = append(resources, clusterv1alpha1.APIResource{Name: map[string]string{"Pod": "pods", "Secret": "secrets"}[kind], Kind: kind})
	}
	return clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
		Status:     clusterv1alpha1.ClusterStatus{APIEnablements: []clusterv1alpha1.APIEnablement{{GroupVersion: "apps/v1"}, {GroupVersion: "v1", Resources: resources}}},
	}
}

func TestSelected(t *testing.T) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	all, one := policyv1alpha1.ClusterAffinity{}, policyv1alpha1.ClusterAffinity{ClusterNames: []string{"a"}}
	pod := func(namespace string) searchv1alpha1.ResourceSelector {
		return searchv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Pod", Namespace: namespace}
	}
	leaving, gone := cluster("c", "Pod"), registry(all, pod(""))
	leaving.DeletionTimestamp, gone.DeletionTimestamp = &metav1.Time{}, &metav1.Time{}
	clusters := []clusterv1alpha1.Cluster{cluster("a", "Pod", "Secret"), cluster("b", "Pod"), leaving, cluster("d", "Secret")}
	for name, c := range map[string]struct {
		registries []searchv1alpha1.ResourceRegistry
		resource   schema.GroupVersionResource
		want       map[string][]string
	}{
		"no registry":                       {nil, pods, map[string][]string{}},
		"all clusters that serve it":        {[]searchv1alpha1.ResourceRegistry{registry(all, pod(""))}, pods, map[string][]string{"a": nil, "b": nil}},
		"one cluster":                       {[]searchv1alpha1.ResourceRegistry{registry(one, pod(""))}, pods, map[string][]string{"a": nil}},
		"another kind":                      {[]searchv1alpha1.ResourceRegistry{registry(all, pod(""))}, corev1.SchemeGroupVersion.WithResource("secrets"), map[string][]string{}},
		"another version":                   {[]searchv1alpha1.ResourceRegistry{registry(all, pod(""))}, schema.GroupVersionResource{Version: "v2", Resource: "pods"}, map[string][]string{}},
		"namespaces, sorted, each once":     {[]searchv1alpha1.ResourceRegistry{registry(all, pod("y"), pod("x")), registry(one, pod("y"), pod("z"))}, pods, map[string][]string{"a": {"x", "y", "z"}, "b": {"x", "y"}}},
		"all namespaces and one":            {[]searchv1alpha1.ResourceRegistry{registry(all, pod("x")), registry(one, pod(""))}, pods, map[string][]string{"a": nil, "b": {"x"}}},
		"one namespace after all":           {[]searchv1alpha1.ResourceRegistry{registry(one, pod("")), registry(all, pod("x"))}, pods, map[string][]string{"a": nil, "b": {"x"}}},
		"a registry that is being deleted":  {[]searchv1alpha1.ResourceRegistry{gone}, pods, map[string][]string{}},
		"an affinity that cannot be read":   {[]searchv1alpha1.ResourceRegistry{registry(policyv1alpha1.ClusterAffinity{FieldSelector: &policyv1alpha1.FieldSelector{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "moon"}}}}, pod(""))}, pods, map[string][]string{}},
		"clusters by label, and not others": {[]searchv1alpha1.ResourceRegistry{registry(policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "b"}}}, pod(""))}, pods, map[string][]string{"b": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, selected(c.registries, clusters, c.resource)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReady(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	ready, away := cluster("ready"), cluster("away")
	ready.Status.Conditions = []metav1.Condition{clusterv1alpha1.Ready()}
	away.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionReady, Status: metav1.ConditionUnknown}}
	fresh := cluster("fresh")
	r := &Registries{reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(&ready, &away, &fresh).Build()}
	for name, want := range map[string]bool{"ready": true, "away": false, "fresh": false, "none": false} {
		if got := r.Ready(t.Context(), name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

func TestChanged(t *testing.T) {
	r := &Registries{changed: make(chan struct{})}
	before := r.Changed()
	r.notify()
	select {
	case <-before:
	default:
		t.Error("the channel from before the change is open")
	}
	select {
	case <-r.Changed():
		t.Error("the channel from after the change is closed")
	default:
	}
}

func TestKind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	without, with := cluster("a", "Secret"), cluster("b", "Pod")
	registries := &Registries{reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(&without, &with).Build()}
	for resource, want := range map[schema.GroupVersionResource]string{
		corev1.SchemeGroupVersion.WithResource("pods"):  "Pod",
		{Version: "v2", Resource: "pods"}:               "",
		corev1.SchemeGroupVersion.WithResource("moons"): "",
	} {
		if kind, err := registries.Kind(t.Context(), resource); err != nil || kind != want {
			t.Errorf("%s has the kind %q, %v, want %q", resource, kind, err, want)
		}
	}
}
