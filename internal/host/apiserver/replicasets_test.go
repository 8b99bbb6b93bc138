package apiserver_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// rolled creates a Deployment and a ReplicaSet of its own in a new namespace.
func rolled(t *testing.T) (sets appsclient.ReplicaSetInterface, deployments appsclient.DeploymentInterface, ns string) {
	t.Helper()
	ns = namespace(t)
	sets, deployments = clients.AppsV1().ReplicaSets(ns), clients.AppsV1().Deployments(ns)
	selector, three := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, int32(3)
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &three, Selector: selector, Template: template}}
	if _, err := deployments.Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	own := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "own-0", Labels: selector.MatchLabels}, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}
	if _, err := sets.Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return sets, deployments, ns
}

func listed(t *testing.T, sets appsclient.ReplicaSetInterface, options metav1.ListOptions) (names []string, list *appsv1.ReplicaSetList) {
	t.Helper()
	list, err := sets.List(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names, list
}

// TestReplicaSetsOfDeployments: one stands for those of a Deployment in the members; clients read it and cannot change it.
func TestReplicaSetsOfDeployments(t *testing.T) {
	sets, deployments, ns := rolled(t)
	names, list := listed(t, sets, metav1.ListOptions{})
	if len(names) != 2 || names[0] != "own-0" || !strings.HasPrefix(names[1], "web-") {
		t.Fatalf("there are %v", names)
	}
	name := names[1]
	for selector, want := range map[string]int{
		"app=web": 2, "app=other": 0, "!" + workv1alpha1.DerivedLabel: 1, "pod-template-hash": 1, "pod-template-hash=" + strings.TrimPrefix(name, "web-"): 1,
	} {
		for _, version := range []string{"", "0", list.ResourceVersion} {
			if names, _ := listed(t, sets, metav1.ListOptions{LabelSelector: selector, ResourceVersion: version}); len(names) != want {
				t.Errorf("%s selects %v at %q, want %d", selector, names, version, want)
			}
		}
	}
	for _, field := range []string{"metadata.name=" + name, "metadata.namespace=" + ns + ",metadata.name!=own-0"} {
		if names, _ := listed(t, sets, metav1.ListOptions{FieldSelector: field}); !slices.Equal(names, []string{name}) {
			t.Errorf("%s selects %v", field, names)
		}
	}
	if names, _ := listed(t, sets, metav1.ListOptions{Limit: 1}); !slices.Contains(names, name) {
		t.Errorf("the first page has %v", names)
	}
	if all, err := clients.AppsV1().ReplicaSets("").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"}); err != nil || len(all.Items) < 2 {
		t.Errorf("in all namespaces there are %v, %v", all, err)
	}
	web, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := sets.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || !metav1.IsControlledBy(found, web) || found.Annotations["deployment.kubernetes.io/revision"] != "1" || found.Status.ReadyReplicas != 0 {
		t.Errorf("it reads %+v, %v", found, err)
	}
	if _, err := sets.Get(t.Context(), "web-other", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("another name answers %v", err)
	}

	path := "/apis/apps/v1/namespaces/" + ns + "/replicasets"
	for _, r := range []struct{ method, path, body string }{
		{http.MethodDelete, path + "/" + name, ""},
		{http.MethodDelete, path + "/" + name + "?propagationPolicy=Orphan", ""},
		{http.MethodPatch, path + "/" + name, `{"metadata":{"labels":{"a":"b"}}}`},
		{http.MethodPatch, path + "/" + name + "/scale", `{"spec":{"replicas":9}}`},
	} {
		if a := call(t, r.method, r.path, r.body, "Content-Type", mergePatch); a.code != http.StatusMethodNotAllowed || !strings.Contains(a.text, "change the Deployment") {
			t.Errorf("%s %s: %d %s", r.method, r.path, a.code, a.text)
		}
	}
	found.ResourceVersion, found.UID = "", ""
	if _, err := sets.Create(t.Context(), found, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second one of that name: %v", err)
	}
	if err := sets.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if names, _ := listed(t, sets, metav1.ListOptions{}); !slices.Equal(names, []string{name}) {
		t.Errorf("after all were deleted there are %v", names)
	}
}

// expectEvents reads events until those that are wanted have come, as TYPE NAME, in this order and with others between them.
func expectEvents(t *testing.T, w watch.Interface, want ...string) (last *appsv1.ReplicaSet) {
	t.Helper()
	var got []string
	limit := time.After(3 * time.Minute)
	for len(want) > 0 {
		select {
		case event, open := <-w.ResultChan():
			rs, ok := event.Object.(*appsv1.ReplicaSet)
			if !open || !ok {
				t.Fatalf("after %q it sends %v", got, event)
			}
			got = append(got, fmt.Sprintf("%s %s %d", event.Type, rs.Name, rs.Status.ReadyReplicas))
			if got[len(got)-1] == want[0] {
				want, last = want[1:], rs
			}
		case <-limit:
			t.Fatalf("it sent %q and not %q", got, want)
		}
	}
	return last
}

// TestWatchesOfReplicaSets: a watch has the events of both in order, and one that resumes anywhere misses nothing.
func TestWatchesOfReplicaSets(t *testing.T) {
	sets, deployments, ns := rolled(t)
	names, list := listed(t, sets, metav1.ListOptions{})
	first := names[1]
	watching := func(options metav1.ListOptions) watch.Interface {
		t.Helper()
		w, err := sets.Watch(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	w := watching(metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(ns))
	lister := factory.Apps().V1().ReplicaSets().Lister()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	ready := `{"status":{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3}}`
	if _, err := deployments.Patch(t.Context(), "web", types.MergePatchType, []byte(ready), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	middle := expectEvents(t, w, "MODIFIED "+first+" 3")
	if _, err := sets.Patch(t.Context(), "own-0", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expectEvents(t, w, "MODIFIED own-0 0")
	image := `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:2"}]`
	if _, err := deployments.Patch(t.Context(), "web", types.JSONPatchType, []byte(image), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	names, _ = listed(t, sets, metav1.ListOptions{})
	second := names[1]
	if second == first {
		t.Fatal("another template has the same ReplicaSet")
	}
	expectEvents(t, w, "DELETED "+first+" 0", "ADDED "+second+" 0")
	expectEvents(t, watching(metav1.ListOptions{ResourceVersion: middle.ResourceVersion}), "MODIFIED own-0 0", "DELETED "+first+" 0", "ADDED "+second+" 0")
	expectEvents(t, watching(metav1.ListOptions{}), "ADDED "+second+" 0")
	expectEvents(t, watching(metav1.ListOptions{FieldSelector: "metadata.name=" + second}), "ADDED "+second+" 0")
	expectEvents(t, watching(metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "!" + workv1alpha1.DerivedLabel}), "MODIFIED own-0 0")
	eventually(t, func() string {
		found, err := lister.List(labels.Everything())
		if err != nil || len(found) != 2 || !slices.ContainsFunc(found, func(rs *appsv1.ReplicaSet) bool { return rs.Name == second }) {
			return fmt.Sprintf("the informer has %d, %v", len(found), err)
		}
		return ""
	})

	// The garbage collector does not wait for it, whatever the policy.
	foreground := metav1.DeletePropagationForeground
	if err := deployments.Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	expectEvents(t, w, "DELETED "+second+" 0")
	eventually(t, func() string {
		if _, err := deployments.Get(t.Context(), "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the Deployment is still there: %v", err)
		}
		return ""
	})
	if names, _ := listed(t, sets, metav1.ListOptions{}); !slices.Equal(names, []string{"own-0"}) {
		t.Errorf("there are %v", names)
	}
}
