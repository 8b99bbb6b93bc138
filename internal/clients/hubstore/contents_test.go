package hubstore

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// server has one Deployment, whose versions a test decides. The watch of the store sees it only when the test has it do so.
type server struct {
	*hub
	object  *unstructured.Unstructured
	reads   int
	written error
}

var web = Ref{deploymentKind, "shop", "web"}

func onServer(t *testing.T, story func(*server)) {
	t.Helper()
	onHub(t, func(h *hub) {
		s := &server{hub: h}
		h.dynamic.PrependReactor("get", "deployments", func(clienttesting.Action) (bool, apiruntime.Object, error) {
			s.reads++
			if s.object == nil {
				return true, nil, apierrors.NewNotFound(deployments.GroupResource(), "web")
			}
			return true, s.object.DeepCopy(), nil
		})
		h.dynamic.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, apiruntime.Object, error) {
			return true, s.object.DeepCopy(), s.written
		})
		story(s)
	})
}

// has stores a version of the Deployment.
func (s *server) has(uid, resourceVersion, image string) *unstructured.Unstructured {
	s.object = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"image": image}}}
	s.object.SetGroupVersionKind(deploymentKind)
	s.object.SetNamespace("shop")
	s.object.SetName("web")
	s.object.SetUID(types.UID(uid))
	s.object.SetResourceVersion(resourceVersion)
	return s.object.DeepCopy()
}

// sees has the watch see the version that is stored.
func (s *server) sees() {
	s.t.Helper()
	s.put(deployments, metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: s.object.GetUID(), ResourceVersion: s.object.GetResourceVersion(), Generation: 1})
}

// expectRead reads the Deployment, and compares its image and the requests for it since the last call.
func (s *server) expectRead(reason, notBefore, image string, requests int) {
	s.t.Helper()
	obj, err := s.store.Read(s.t.Context(), web, notBefore)
	if err != nil {
		s.t.Fatalf("%s: %v", reason, err)
	}
	if got, _, _ := unstructured.NestedString(obj.Object, "spec", "image"); got != image {
		s.t.Errorf("%s: image %.20s, want %.20s", reason, got, image)
	}
	if s.reads != requests {
		s.t.Errorf("%s: %d requests, want %d", reason, s.reads, requests)
	}
	s.reads = 0
	_ = unstructured.SetNestedField(obj.Object, "changed by the caller", "spec", "image")
}

func TestAVersionIsReadOnce(t *testing.T) {
	onServer(t, func(s *server) {
		s.has("1", "5", "a")
		s.expectRead("a template that the watch has not seen", "", "a", 1)
		s.expectRead("the same again", "", "a", 1)
		s.sees()
		s.expectRead("what the watch has seen since it was read", "", "a", 0)
		s.expectRead("another stage, with the version that it has", "5", "a", 0)
		s.expectRead("a version that neither the watch nor the store has seen", "7", "a", 1)

		s.has("1", "8", "b")
		s.expectRead("a version that the watch has not seen either", "5", "a", 0)
		s.expectRead("what a binding was made from already", "8", "b", 1)
		s.expectRead("a version that was read before the watch saw it", "", "b", 1)
		s.sees()
		s.expectRead("the version, seen", "8", "b", 0)
		s.expectRead("no resource version", "none", "b", 1)

		s.has("2", "9", "c")
		s.sees()
		s.expectRead("another object of the same name", "", "c", 1)
		s.expectRead("the same again", "9", "c", 0)
	})
}

func TestAWriteIsWhatIsReadNext(t *testing.T) {
	onServer(t, func(s *server) {
		before := s.has("1", "5", "a")
		s.sees()
		s.expectRead("the first version", "", "a", 1)

		after := s.has("1", "6", "b")
		if _, err := s.store.PatchMetadata(t.Context(), web, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		s.expectRead("the answer to a patch of metadata", "6", "b", 0)

		s.has("1", "7", "c")
		after.Object["status"] = map[string]any{"replicas": int64(1)}
		if _, err := s.store.UpdateStatus(t.Context(), before, after); err != nil {
			t.Fatal(err)
		}
		s.expectRead("a status whose event has not come", "", "c", 1)
		s.sees()
		s.expectRead("a status that the watch has seen", "", "c", 0)

		s.written = apierrors.NewTimeoutError("no answer", 1)
		if _, err := s.store.UpdateStatus(t.Context(), before, after); !apierrors.IsTimeout(err) {
			t.Fatalf("error %v, want a timeout", err)
		}
		s.has("1", "8", "d")
		s.expectRead("after a write that may have happened", "", "d", 1)
	})
}

func TestAnOlderAnswerReplacesNoNewerOne(t *testing.T) {
	onServer(t, func(s *server) {
		older := s.has("1", "5", "a")
		s.has("1", "10", "b")
		s.sees()
		s.expectRead("the newer version", "", "b", 1)
		s.store.contents.keep(web, older)
		s.expectRead("after an older answer came late", "", "b", 0)
	})
}

func TestATemplateThatIsGoneIsNotKept(t *testing.T) {
	onServer(t, func(s *server) {
		s.has("1", "5", "a")
		s.sees()
		s.expectRead("a template", "", "a", 1)
		s.object = nil
		s.remove(deployments, "shop", "web")
		if _, err := s.store.Read(t.Context(), web, "5"); !apierrors.IsNotFound(err) {
			t.Errorf("error %v, want that there is none", err)
		}
		if s.store.contents.of(web) != nil {
			t.Error("it is kept")
		}
	})
}

func TestNothingIsKeptWhileMemoryIsShort(t *testing.T) {
	onServer(t, func(s *server) {
		short := false
		s.store.contents.short = func() bool { return short }
		s.has("1", "5", "a")
		s.sees()
		s.expectRead("a template", "", "a", 1)
		s.expectRead("one that is kept", "", "a", 0)
		other := Ref{deploymentKind, "shop", "other"}
		s.store.contents.keep(other, s.object)
		short = true
		s.store.contents.keep(web, s.object)
		if s.store.contents.of(other) != nil {
			t.Error("others are kept")
		}
		s.expectRead("while memory is short", "", "a", 1)
		s.expectRead("once more", "", "a", 1)
	})
}

func TestLargeTemplatesAreReadEachTime(t *testing.T) {
	onServer(t, func(s *server) {
		large := strings.Repeat("x", keptSize)
		s.has("1", "5", large)
		s.sees()
		s.expectRead("a large template", "", large, 1)
		s.expectRead("a large template again", "", large, 1)
	})
}

func TestTextSize(t *testing.T) {
	for reason, tc := range map[string]struct {
		value any
		want  int
	}{
		"keys and values":     {map[string]any{"a": "bc", "d": int64(1), "e": nil}, 7},
		"lists":               {[]any{"a", map[string]any{"b": []any{"c", true}}}, 4},
		"more than is enough": {[]any{strings.Repeat("x", 11), strings.Repeat("y", 100)}, 11},
	} {
		t.Run(reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, textSize(tc.value, 10)); diff != "" {
				t.Errorf("bytes (-want +got):\n%s", diff)
			}
		})
	}
}
