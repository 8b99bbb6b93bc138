package builtin

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// delivered is an event as a handler received it.
type delivered struct {
	Name  string
	After time.Duration
}

// runDelayed runs an informer of resource claims, one of which exists at the start, and returns its watch, what its handler
// received, and how to end it.
func runDelayed(t *testing.T) (events *watch.FakeWatcher, got func() []delivered, end func()) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	claims := resourcev1alpha2.GroupVersion.WithResource("resourceclaims")
	client := metadatafake.NewSimpleMetadataClient(scheme, claim("present"))
	events = watch.NewFake()
	client.PrependWatchReactor(claims.Resource, func(clienttesting.Action) (bool, watch.Interface, error) { return true, events, nil })
	informer, err := newLeanInformers(Config{NativeInformer: noNative}, client).ForResource(claims)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	received := make(chan delivered, 10)
	note := func(what string) func(any) {
		return func(obj any) {
			received <- delivered{what + " " + obj.(*metav1.PartialObjectMetadata).Name, time.Since(begin)}
		}
	}
	_, err = informer.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{
		AddFunc: note("add"), UpdateFunc: func(_, obj any) { note("update")(obj) }, DeleteFunc: note("delete"),
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		informer.Informer().GetController().Run(stop)
	}()
	synctest.Wait()
	return events, func() (all []delivered) {
			for len(received) > 0 {
				all = append(all, <-received)
			}
			return all
		}, func() {
			close(stop)
			<-ended
		}
}

func claim(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1alpha2.GroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
	}
}

// TestEventsOfResourceClaimsAreLate: events wait side by side and keep their order; objects that exist at the start do not wait.
func TestEventsOfResourceClaimsAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, got, end := runDelayed(t)
		events.Add(claim("first"))
		events.Modify(claim("first"))
		<-time.After(eventDelay / 2)
		events.Delete(claim("first"))
		<-time.After(2 * eventDelay)
		want := []delivered{{"add present", 0}, {"add first", eventDelay}, {"update first", eventDelay}, {"delete first", eventDelay * 3 / 2}}
		if diff := cmp.Diff(want, got()); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
		end()
	})
}

func TestTheEndDoesNotWaitForEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, got, end := runDelayed(t)
		events.Add(claim("never delivered"))
		synctest.Wait()
		begin := time.Now()
		end()
		if took := time.Since(begin); took > 0 {
			t.Errorf("the end took %v", took)
		}
		<-time.After(2 * eventDelay)
		if diff := cmp.Diff([]delivered{{"add present", 0}}, got()); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
	})
}
