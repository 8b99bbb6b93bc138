package observe

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// panicsAbout is an interpreter that panics about one object.
type panicsAbout struct {
	knowing
	name   string
	panics *atomic.Int64 // how often it still does
}

func (p panicsAbout) Health(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	if obj.GetName() == p.name && p.panics.Add(-1) >= 0 {
		panic("an unexpected object")
	}
	return p.knowing.Health(ctx, obj)
}

// TestAPanicAboutOneObjectStopsNoOther: the health of the other object of the Work is reported, and that of this one once the panics end.
func TestAPanicAboutOneObjectStopsNoOther(t *testing.T) {
	interpreter := panicsAbout{name: "b", panics: &atomic.Int64{}}
	interpreter.panics.Store(1000)
	s := newBench(t, interpreter)
	failures := make(chan string, 1)
	go func() {
		for {
			select {
			case e := <-s.news:
				if strings.Contains(e, "panic") {
					select {
					case failures <- e:
					default:
					}
				}
			case <-t.Context().Done():
				return
			}
		}
	}()
	work := &workv1alpha1.Work{}
	if err := s.hub.Get(t.Context(), theWork, work); err != nil {
		t.Fatal(err)
	}
	work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"shop"}}`),
	}})
	if err := s.hub.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	s.applied()
	s.events <- configMap(5, "Healthy")
	s.events <- strings.Replace(configMap(6, "Healthy"), `"name":"a"`, `"name":"b"`, 1)
	s.events <- allKnown
	healths := func(status workv1alpha1.WorkStatus) (all [2]workv1alpha1.ResourceHealth) {
		for i := range min(2, len(status.ManifestStatuses)) {
			all[i] = status.ManifestStatuses[i].Health
		}
		return all
	}
	s.wait("the other object is reported", func(status workv1alpha1.WorkStatus) bool {
		return healths(status) == [2]workv1alpha1.ResourceHealth{workv1alpha1.ResourceHealthy, workv1alpha1.ResourceUnknown}
	})
	if e := <-failures; !strings.HasSuffix(e, "InterpretHealthFailed Work/w: ConfigMap shop/b: panic: an unexpected object") {
		t.Errorf("the event is %q", e)
	}
	s.wait("the Work is tried again", func(workv1alpha1.WorkStatus) bool { return interpreter.panics.Load() < 998 })
	interpreter.panics.Store(0)
	s.wait("both are reported", func(status workv1alpha1.WorkStatus) bool {
		return healths(status) == [2]workv1alpha1.ResourceHealth{workv1alpha1.ResourceHealthy, workv1alpha1.ResourceHealthy}
	})
	if n := fleettest.Counted(t, s.metrics, "flagship_loop_reconcile_total", "result", "panic"); n < 3 {
		t.Errorf("%v panics are counted", n)
	}
}
