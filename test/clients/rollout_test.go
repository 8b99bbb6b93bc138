package clients

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/polymorphichelpers"
)

// TestRollout runs the code of kubectl rollout status and kubectl rollout history.
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
	expect(t, "hub", deployment, namespace, release, func(object *unstructured.Unstructured) error {
		message, done, err := viewer.Status(object, 0)
		if err == nil && !done {
			err = errors.New(message)
		}
		return err
	})
	clientset, err := kubernetes.NewForConfig(restConfig(t, "hub"))
	if err != nil {
		t.Fatal(err)
	}
	history, err := polymorphichelpers.HistoryViewerFor(deployment.GroupKind(), clientset)
	if err != nil {
		t.Fatal(err)
	}
	all, err := history.ViewHistory(namespace, release, 0)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(all), "\n"); len(lines) != 2 || strings.Fields(lines[1])[0] != "1" {
		t.Fatalf("the history has not exactly the first revision:\n%s", all)
	}
}
