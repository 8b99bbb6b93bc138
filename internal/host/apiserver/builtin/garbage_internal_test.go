package builtin

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// TestAWatchEndsWithItsKind: the collector ends the monitor of a kind that is gone, and after that no client may go on listing
// it. When the kind is back it is watched anew.
func TestAWatchEndsWithItsKind(t *testing.T) {
	things := schema.GroupVersionResource{Group: "gone.example.com", Version: "v1", Resource: "things"}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme)
	watches := make(chan *watch.FakeWatcher, 1)
	client.PrependWatchReactor(things.Resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFake()
		watches <- w
		return true, w, nil
	})
	lean := newLeanInformers(Config{Informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), StartInformers: func() {}, NativeInformer: noNative}, client)
	all := make(chan struct{})
	defer close(all)
	for _, life := range []string{"first", "second"} {
		informer, err := lean.ForResource(things)
		if err != nil {
			t.Fatal(err)
		}
		// As upstream's graph builder does.
		monitor := informer.Informer().GetController()
		end, ended := make(chan struct{}), make(chan struct{})
		lean.Start(all)
		go func() {
			defer close(ended)
			monitor.Run(end)
		}()
		if !cache.WaitForCacheSync(t.Context().Done(), monitor.HasSynced) {
			t.Fatalf("%s: the kind is not listed", life)
		}
		w := <-watches
		close(end)
		<-ended
		if !w.IsStopped() {
			t.Fatalf("%s: the watch goes on", life)
		}
	}
}

func noNative(schema.GroupResource) cache.SharedIndexInformer { return nil }
