package service

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func TestEchoesAreToldFromOthersChanges(t *testing.T) {
	key := types.NamespacedName{Namespace: "karmada-es-a", Name: "w"}
	at := func(version string) *workv1alpha1.Work {
		return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: version}}
	}
	for reason, tc := range map[string]struct {
		do   func(*echoes) bool // returns what is asked for
		want bool
	}{
		"nobody wrote": {func(e *echoes) bool { return e.heard(at("5")) }, false},
		"the watch tells after the answer": {func(e *echoes) bool {
			e.begin(key)
			return !e.done(key, "5") && e.heard(at("5"))
		}, true},
		"the watch tells before the answer": {func(e *echoes) bool {
			e.begin(key)
			return e.heard(at("5")) && !e.done(key, "5")
		}, true},
		"and once only": {func(e *echoes) bool {
			e.begin(key)
			e.heard(at("5"))
			e.done(key, "5")
			return e.heard(at("6"))
		}, false},
		"an older state is no news": {func(e *echoes) bool {
			e.begin(key)
			e.done(key, "5")
			return e.heard(at("4")) && e.heard(at("5"))
		}, true},
		"somebody else is later": {func(e *echoes) bool {
			e.begin(key)
			e.done(key, "5")
			return e.heard(at("6"))
		}, false},
		"somebody else comes between, seen before the answer": {func(e *echoes) bool {
			e.begin(key)
			e.heard(at("4"))
			e.heard(at("5"))
			return e.done(key, "5")
		}, true},
		"somebody else comes after, seen before the answer": {func(e *echoes) bool {
			e.begin(key)
			e.heard(at("5"))
			e.heard(at("6"))
			return e.done(key, "5")
		}, true},
		"the echo of the write before comes during the next": {func(e *echoes) bool {
			e.begin(key)
			e.done(key, "5")
			e.begin(key)
			e.heard(at("5"))
			e.heard(at("6"))
			return e.done(key, "6")
		}, false},
		"a failed write leaves nothing": {func(e *echoes) bool {
			e.begin(key)
			return e.done(key, "") || e.heard(at("5"))
		}, false},
		"one that was deleted meanwhile is looked at again": {func(e *echoes) bool {
			e.begin(key)
			e.forget(at("5"))
			return e.done(key, "6")
		}, true},
	} {
		t.Run(reason, func(t *testing.T) {
			e := &echoes{}
			if got := tc.do(e); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}
