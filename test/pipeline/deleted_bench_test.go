package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/history/stored"
	kept "github.com/flagship-k8s/flagship/internal/knowledge/history"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// BenchmarkWhatWasDeleted measures questions about 10,000 deleted Deployments of ten namespaces, by an administrator: the list of all, one
// page of contents, and the timeline of all. Each is a request to a control plane of its own.
func BenchmarkWhatWasDeleted(b *testing.B) {
	hub := fleettest.StartHub(b)
	kube, err := kubernetes.NewForConfig(hub.Config)
	if err != nil {
		b.Fatal(err)
	}
	storage := stored.New(kube, hub.Cluster, stored.NewLosses(nil))
	uid := 0
	for i := range 10 {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("shop-", i)}}
		fleettest.Create(b, hub.Cluster, namespace)
		var all []stored.Deleted
		for j := range 1000 {
			uid++
			web := fleettest.Deployment(namespace.Name, fmt.Sprint("web-", j), 3)
			all = append(all, stored.Deleted{
				UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", uid)), NamespaceUID: namespace.UID,
				Record: kept.Record{Time: time.Now().Add(-time.Duration(uid) * time.Millisecond), Author: kept.Author{User: "alice"}, State: stateOf(b, web)},
			})
		}
		if err := storage.Keep(b.Context(), namespace.Name, all); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("List", func(b *testing.B) {
		for b.Loop() {
			q := &fleetv1alpha1.Undeletion{}
			if err := hub.Create(b.Context(), q); err != nil || len(q.Status.Objects) != 1000 || !q.Status.Truncated {
				b.Fatalf("%d objects: %v", len(q.Status.Objects), err)
			}
		}
	})
	b.Run("Contents", func(b *testing.B) {
		for b.Loop() {
			q := &fleetv1alpha1.Undeletion{Spec: fleetv1alpha1.UndeletionSpec{Contents: true}}
			if err := hub.Create(b.Context(), q); err != nil || len(q.Status.Objects) != 100 || q.Status.Objects[99].Content == nil {
				b.Fatalf("%d objects: %v", len(q.Status.Objects), err)
			}
		}
	})
	b.Run("Timeline", func(b *testing.B) {
		for b.Loop() {
			q := &fleetv1alpha1.Timeline{}
			if err := hub.Create(b.Context(), q); err != nil || len(q.Status.Entries) != 1000 || !q.Status.Truncated {
				b.Fatalf("%d entries: %v", len(q.Status.Entries), err)
			}
		}
	})
}

// stateOf is the state of a template in two clusters.
func stateOf(b *testing.B, template *appsv1.Deployment) kept.State {
	b.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		b.Fatal(err)
	}
	object["apiVersion"], object["kind"] = "apps/v1", "Deployment"
	return kept.StateOf(object, nil, nil, []fleetv1alpha1.RevisionCluster{{Name: "member1", Replicas: 2}, {Name: "member2", Replicas: 1}})
}
