package interpret_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

func kindNamed(name string) interpret.Kinds {
	return func(kind schema.GroupVersionKind) bool { return kind.Kind == name }
}

func TestChanges(t *testing.T) {
	var changes interpret.Changes
	calls := map[string]int{}
	for _, subscriber := range []string{"first", "second"} {
		changes.Subscribe(func(kinds interpret.Kinds) {
			if kinds(schema.GroupVersionKind{Kind: "Farm"}) {
				calls[subscriber]++
			}
		})
	}
	changes.Publish(nil)
	changes.Publish(kindNamed("Farm"))
	changes.Publish(kindNamed("Barn"))
	if calls["first"] != 1 || calls["second"] != 1 {
		t.Errorf("calls for the kind Farm: %v, want one of each subscriber", calls)
	}
}

func TestPendingKindsStayUntilHandled(t *testing.T) {
	var pending interpret.PendingKinds
	pending.Add(kindNamed("Farm"))
	pending.Add(kindNamed("Barn"))
	failed := errors.New("the list failed")
	for attempt, err := range []error{failed, nil} {
		got := pending.Handle(func(kinds interpret.Kinds) error {
			for name, want := range map[string]bool{"Farm": true, "Barn": true, "Other": false} {
				if kinds(schema.GroupVersionKind{Kind: name}) != want {
					t.Errorf("attempt %d: kind %s is pending: %v", attempt, name, !want)
				}
			}
			return err
		})
		if !errors.Is(got, err) {
			t.Errorf("attempt %d returns %v, want %v", attempt, got, err)
		}
	}
	pending.Add(kindNamed("Mill"))
	func() {
		defer func() { _ = recover() }()
		_ = pending.Handle(func(interpret.Kinds) error { panic("an unexpected object") })
	}()
	if err := pending.Handle(func(kinds interpret.Kinds) error {
		if !kinds(schema.GroupVersionKind{Kind: "Mill"}) {
			t.Error("what was not handled because of a panic is not pending")
		}
		if kinds(schema.GroupVersionKind{Kind: "Farm"}) {
			t.Error("what was handled is still pending")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
