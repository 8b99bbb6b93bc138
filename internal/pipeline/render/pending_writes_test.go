package render

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func TestLedger(t *testing.T) {
	key := types.NamespacedName{Namespace: "es", Name: "w"}
	at := func(version string) *workv1alpha1.Work {
		return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "es", Name: "w", ResourceVersion: version}}
	}
	cases := map[string]struct {
		reason string
		story  func(*testing.T, *pendingWrites)
	}{
		"EchoAfterTheAnswer": {"the usual order", func(t *testing.T, l *pendingWrites) {
			l.begin(key)
			expect(t, "missed", l.done(key, at("10")), false)
			expect(t, "the cache is behind", l.latest(key, at("9")).ResourceVersion, "10")
			expect(t, "older news", l.observe(at("9")), true)
			expect(t, "echo", l.observe(at("10")), true)
			expect(t, "entries left", len(l.entries), 0)
			expect(t, "somebody else's", l.observe(at("11")), false)
		}},
		"EchoBeforeTheAnswer": {"the watch may be faster than the answer", func(t *testing.T, l *pendingWrites) {
			l.begin(key)
			expect(t, "echo", l.observe(at("10")), true)
			expect(t, "missed", l.done(key, at("10")), false)
			expect(t, "entries left", len(l.entries), 0)
		}},
		"ChangedMeanwhile": {"a change of somebody else's must not pass for an echo", func(t *testing.T, l *pendingWrites) {
			l.begin(key)
			expect(t, "held back", l.observe(at("12")), true)
			expect(t, "missed", l.done(key, at("10")), true)
		}},
		"ChangedBefore": {"a change that our write was made on top of is no news", func(t *testing.T, l *pendingWrites) {
			l.begin(key)
			expect(t, "held back", l.observe(at("9")), true)
			expect(t, "missed", l.done(key, at("10")), false)
			expect(t, "the cache is behind", l.latest(key, at("9")).ResourceVersion, "10")
		}},
		"Failed": {"a failed write must not hide a change", func(t *testing.T, l *pendingWrites) {
			l.begin(key)
			expect(t, "held back", l.observe(at("9")), true)
			expect(t, "missed", l.done(key, nil), true)
			l.begin(key)
			expect(t, "missed nothing", l.done(key, nil), false)
			expect(t, "entries left", len(l.entries), 0)
		}},
		"SkippedEcho": {"a watch that was cut may never tell of our version", func(t *testing.T, l *pendingWrites) {
			l.begin(key)
			l.done(key, at("10"))
			expect(t, "a later version", l.observe(at("15")), false)
			expect(t, "the cache is right again", l.latest(key, at("15")).ResourceVersion, "15")
		}},
		"Gone": {"a deleted Work is not remembered", func(t *testing.T, l *pendingWrites) {
			l.begin(key)
			l.done(key, at("10"))
			l.forget(key)
			expect(t, "none", l.latest(key, nil) == nil, true)
			l.begin(key)
			l.forget(key)
			expect(t, "missed", l.done(key, at("11")), true)
			expect(t, "none", l.latest(key, nil) == nil, true)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.reason)
			tc.story(t, newPendingWrites())
		})
	}
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
