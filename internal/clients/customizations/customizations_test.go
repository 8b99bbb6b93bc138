package customizations_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/customizations"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/webhook"
)

// reader lists one customization, or fails.
type reader struct {
	client.Reader
	script *string
	err    error
}

func (r *reader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if list, ok := list.(*configv1alpha1.ResourceInterpreterCustomizationList); ok && r.script != nil {
		list.Items = []configv1alpha1.ResourceInterpreterCustomization{{
			ObjectMeta: metav1.ObjectMeta{Name: "backups"},
			Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
				Target:         configv1alpha1.CustomizationTarget{APIVersion: "storage.example.com/v1", Kind: "Backup"},
				Customizations: configv1alpha1.CustomizationRules{HealthInterpretation: &configv1alpha1.HealthInterpretation{LuaScript: *r.script}},
			},
		}}
	}
	return r.err
}

// TestOnlyChangesArePublished: what is read without a difference concerns no object, and what cannot be read changes nothing and is tried again.
func TestOnlyChangesArePublished(t *testing.T) {
	backup, other := schema.GroupVersionKind{Group: "storage.example.com", Version: "v1", Kind: "Backup"}, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	from := &reader{}
	var published []bool
	changes := &interpret.Changes{}
	changes.Subscribe(func(kinds interpret.Kinds) {
		published = append(published, kinds(backup))
		if kinds(other) {
			t.Error("a change concerns a kind without customizations")
		}
	})
	loader := customizations.Loader{Client: from, Live: from, Scripts: declarative.New(), Webhooks: webhook.New(nil, nil), Changes: changes}
	if err := loader.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	reconcile := func(step string, changed, known bool) {
		t.Helper()
		published = nil
		if _, err := loader.Reconcile(t.Context(), customizations.Scripts); !errors.Is(err, from.err) {
			t.Errorf("%s: got %v", step, err)
		}
		if len(published) > 0 != changed || changed && !published[0] {
			t.Errorf("%s: published %v, want a change: %t", step, published, changed)
		}
		if found := loader.Scripts.Lookup(backup); found != nil != known {
			t.Errorf("%s: the kind is customized: %t, want %t", step, found != nil, known)
		}
	}
	reconcile("nothing exists", false, false)
	from.script = new("function InterpretHealth(o) return true end")
	reconcile("a customization is created", true, true)
	reconcile("nothing has changed", false, true)
	from.script, from.err = nil, errors.New("the cache is not filled")
	reconcile("it cannot be read", false, true)
	from.err = nil
	reconcile("it is deleted", true, false)
	if _, err := loader.Reconcile(t.Context(), customizations.Webhooks); err != nil {
		t.Error(err)
	}
}
