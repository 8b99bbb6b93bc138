package expectations

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type writes = Writes[*corev1.ConfigMap]

var key = types.NamespacedName{Namespace: "default", Name: "a"}

func at(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: version}}
}

func TestWrites(t *testing.T) {
	cases := map[string]struct {
		reason string
		run    func(*testing.T, *writes)
	}{
		"NoWrite": {"without a write every event is that of others", func(t *testing.T, w *writes) {
			expect(t, "own", w.Observe(at("5")), false)
			expect(t, "latest", w.Latest(key, at("5")).ResourceVersion, "5")
		}},
		"EventAfterTheAnswer": {"the usual order", func(t *testing.T, w *writes) {
			w.Begin(key)
			expect(t, "overtaken", w.Done(key, at("10")), false)
			expect(t, "the cache is behind", w.Latest(key, at("9")).ResourceVersion, "10")
			expect(t, "the cache has none", w.Latest(key, nil).ResourceVersion, "10")
			expect(t, "pending", len(w.Pending(func(*corev1.ConfigMap) bool { return true })), 1)
			expect(t, "an older event", w.Observe(at("9")), true)
			expect(t, "the event of the write", w.Observe(at("10")), true)
			expect(t, "entries left", len(w.entries), 0)
			expect(t, "an event of others", w.Observe(at("11")), false)
		}},
		"EventBeforeTheAnswer": {"the watch may be faster than the answer", func(t *testing.T, w *writes) {
			w.Begin(key)
			expect(t, "held back", w.Observe(at("10")), true)
			expect(t, "overtaken", w.Done(key, at("10")), false)
			expect(t, "entries left", len(w.entries), 0)
			expect(t, "an event of others", w.Observe(at("11")), false)
		}},
		"ChangedByOthersAfter": {"a change of others must not pass for the own write", func(t *testing.T, w *writes) {
			w.Begin(key)
			w.Observe(at("10"))
			w.Observe(at("12"))
			expect(t, "overtaken", w.Done(key, at("10")), true)
		}},
		"ChangedByOthersInstead": {"the event of the write is missing", func(t *testing.T, w *writes) {
			w.Begin(key)
			w.Observe(at("12"))
			expect(t, "overtaken", w.Done(key, at("10")), true)
		}},
		"ChangedByOthersBefore": {"the write was computed without this change", func(t *testing.T, w *writes) {
			w.Begin(key)
			w.Observe(at("9"))
			expect(t, "overtaken", w.Done(key, at("10")), true)
			expect(t, "the cache is behind", w.Latest(key, at("9")).ResourceVersion, "10")
			expect(t, "the event of the write", w.Observe(at("10")), true)
		}},
		"ChangedByOthersBeforeAndSeenWithTheWrite": {"the newest event is that of the write, the one before is not", func(t *testing.T, w *writes) {
			w.Begin(key)
			w.Observe(at("4"))
			w.Observe(at("5"))
			expect(t, "overtaken", w.Done(key, at("5")), true)
		}},
		"EventOfTheWriteBefore": {"it comes during the next write", func(t *testing.T, w *writes) {
			w.Begin(key)
			w.Done(key, at("5"))
			w.Begin(key)
			expect(t, "own", w.Observe(at("5")), true)
			expect(t, "held back", w.Observe(at("6")), true)
			expect(t, "overtaken", w.Done(key, at("6")), false)
		}},
		"Failed": {"a failed write must not hide a change", func(t *testing.T, w *writes) {
			w.Begin(key)
			w.Observe(at("9"))
			expect(t, "overtaken", w.Done(key, nil), true)
			w.Begin(key)
			expect(t, "nothing happened", w.Done(key, nil), false)
			expect(t, "entries left", len(w.entries), 0)
			expect(t, "an event of others", w.Observe(at("10")), false)
		}},
		"FailedAfterAWrite": {"the event of the write before is still to come", func(t *testing.T, w *writes) {
			w.Begin(key)
			w.Done(key, at("5"))
			w.Begin(key)
			expect(t, "nothing happened", w.Done(key, nil), false)
			expect(t, "own", w.Observe(at("5")), true)
		}},
		"SkippedEvent": {"a watch that was interrupted may never show the written version", func(t *testing.T, w *writes) {
			w.Begin(key)
			w.Done(key, at("10"))
			expect(t, "a later version", w.Observe(at("15")), false)
			expect(t, "the cache is right again", w.Latest(key, at("15")).ResourceVersion, "15")
		}},
		"Deleted": {"a deleted object is not kept", func(t *testing.T, w *writes) {
			w.Begin(key)
			w.Done(key, at("10"))
			w.Forget(key)
			expect(t, "none", w.Latest(key, nil) == nil, true)
			w.Begin(key)
			w.Forget(key)
			expect(t, "overtaken", w.Done(key, at("11")), true)
			expect(t, "none", w.Latest(key, nil) == nil, true)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.reason)
			tc.run(t, &writes{})
		})
	}
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
