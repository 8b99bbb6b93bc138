package clients

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRollout runs the code of kubectl rollout status, kubectl rollout history and kubectl rollout undo.
func TestRollout(t *testing.T) {
	namespace := newNamespace(t)
	if err := (helm4{t}).apply(namespace); err != nil {
		t.Fatal(err)
	}
	deployment := chartKinds[0]
	viewer, err := polymorphichelpers.StatusViewerFor(deployment.GroupKind())
	if err != nil {
		t.Fatal(err)
	}
	rolledOut := func() {
		t.Helper()
		expect(t, "hub", deployment, namespace, release, func(object *unstructured.Unstructured) error {
			message, done, err := viewer.Status(object, 0)
			if err == nil && !done {
				err = errors.New(message)
			}
			return err
		})
	}
	clientset, err := kubernetes.NewForConfig(restConfig(t, "hub"))
	if err != nil {
		t.Fatal(err)
	}
	history, err := polymorphichelpers.HistoryViewerFor(deployment.GroupKind(), clientset)
	if err != nil {
		t.Fatal(err)
	}
	hasOnly := func(revision string) {
		t.Helper()
		all, err := history.ViewHistory(namespace, release, 0)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Split(strings.TrimSpace(all), "\n"); len(lines) != 2 || strings.Fields(lines[1])[0] != revision {
			t.Fatalf("the history has not exactly revision %s:\n%s", revision, all)
		}
	}
	rolledOut()
	hasOnly("1")

	hub := newClient(t, "hub")
	object := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: release}}
	patch := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:1.28"}]}}}}`))
	if err := hub.Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
	rolledOut()
	hasOnly("2")
	if newest, err := history.ViewHistory(namespace, release, 2); err != nil || !strings.Contains(newest, "nginx:1.28") {
		t.Errorf("the second revision is shown as %s, %v", newest, err)
	}
	// Earlier revisions are those of flagship history and flagship undo.
	rollbacker, err := polymorphichelpers.RollbackerFor(deployment.GroupKind(), clientset)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := rollbacker.Rollback(object, nil, 0, cmdutil.DryRunNone); err == nil || !strings.Contains(err.Error(), "no rollout history found") {
		t.Errorf("an undo is answered with %q, %v", result, err)
	}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.Spec.Template.Spec.Containers[0].Image != "nginx:1.28" {
		t.Errorf("an undo that is refused changed the Deployment: %v, %v", object.Spec.Template.Spec.Containers, err)
	}
}
