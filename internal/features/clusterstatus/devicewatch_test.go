package clusterstatus

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
)

func TestDevicesAreCountedWhereTheirClassesAre(t *testing.T) {
	list := func(served ...string) apiList {
		var l apiList
		for i := 0; i < len(served); i += 2 {
			l.enabled = append(l.enabled, clusterv1alpha1.APIEnablement{
				GroupVersion: served[i], Resources: []clusterv1alpha1.APIResource{{Kind: served[i+1]}},
			})
		}
		return l
	}
	today, before := []string{"resource.k8s.io/v1", "DeviceClass"}, []string{"resource.k8s.io/v1alpha2", "ResourceClass"}
	for name, c := range map[string]struct {
		apis apiList
		want bool
	}{
		"a cluster of today":          {list(today...), true},
		"one of the old model":        {list(before...), false},
		"one of both":                 {list(append(before, today...)...), true},
		"one that has other versions": {list("resource.k8s.io/v1beta1", "DeviceClass"), true},
		"one that has said nothing":   {list(), false},
	} {
		if _, got := countable(c.apis); got != c.want {
			t.Errorf("%s: countable is %v", name, got)
		}
	}
}

// TestAMemberWithoutDeviceClassesHasNoWatchOfThem: whether there is one is read once a minute, and they are watched from then on.
func TestAMemberWithoutDeviceClassesHasNoWatchOfThem(t *testing.T) {
	var lists, watches atomic.Int64
	var classes atomic.Value
	classes.Store("")
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path != "/apis/resource.k8s.io/v1/deviceclasses":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Get("watch") == "":
			lists.Add(1)
			fmt.Fprintf(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"1"},"items":[%s]}`, classes.Load())
		default:
			watches.Add(1)
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	fleet, cluster := served(t, web.URL)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	conn, _ := fleet.Get(cluster.Name)
	group := memberwatch.NewGroup(t.Context())
	t.Cleanup(group.Close)
	w := newDeviceWatch(group, conn, func() {})
	apis := apiList{
		enabled:   []clusterv1alpha1.APIEnablement{{GroupVersion: "resource.k8s.io/v1", Resources: []clusterv1alpha1.APIResource{{Kind: "DeviceClass"}}}},
		condition: metav1.Condition{Status: metav1.ConditionTrue},
	}
	now := time.Unix(1000, 0)
	look := func(after time.Duration, want int64, why string) {
		t.Helper()
		now = now.Add(after)
		if err := w.follow(t.Context(), apis, now); err != nil {
			t.Fatal(err)
		}
		if n := lists.Load(); n != want {
			t.Errorf("%s: %d lists, want %d", why, n, want)
		}
	}
	look(0, 1, "at first")
	if w.kube != nil || !w.devices.Classes.Synced() || watches.Load() != 0 {
		t.Error("a member without classes is watched, or it is not known that it has none")
	}
	look(59*time.Second, 1, "within a minute")
	look(time.Second, 2, "after a minute")
	classes.Store(`{"metadata":{"name":"gpu"}}`)
	look(time.Minute, 3, "with a class")
	if w.kube == nil {
		t.Error("a class is not watched")
	}
	look(time.Minute, 3, "since it is watched")
}
