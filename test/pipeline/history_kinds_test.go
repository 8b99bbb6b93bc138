package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// past is an object of any kind whose history a test makes, with one field that changes.
type past struct {
	fleet  *fleettest.Fleet
	object *unstructured.Unstructured
	// as is the object as commands name it, with the flag of its namespace if it has one.
	as []string
	// policy is the policy that propagates it, and policyName as commands name it.
	policy     client.Object
	policyName string
	set        func(u *unstructured.Unstructured, value string) error
	value      func(u *unstructured.Unstructured) string
}

// has is the condition that the field of the object has a value.
func (p past) has(value string) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error { return equal(value, p.value(u)) }
}

// command runs flagship about the object, and fails the test unless it prints each of the texts.
func (p past) command(t *testing.T, name string, flags []string, texts ...string) {
	t.Helper()
	out := command(t, p.fleet.Hub.Kubeconfig, slices.Concat([]string{name}, p.as, flags)...)
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("flagship %s %v lacks %q:\n%s", name, flags, text, out)
		}
	}
}

// expectRevision waits until the current revision of the object has a number.
func (p past) expectRevision(t *testing.T, number int64) {
	t.Helper()
	kind := p.object.GroupVersionKind()
	q := &fleetv1alpha1.History{}
	if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		q = &fleetv1alpha1.History{Spec: fleetv1alpha1.HistorySpec{Group: kind.Group, Kind: kind.Kind, Namespace: p.object.GetNamespace(), Name: p.object.GetName()}}
		err := p.fleet.Hub.Create(ctx, q)
		return slices.ContainsFunc(q.Status.Revisions, func(r fleetv1alpha1.Revision) bool { return r.Revision == number && r.Current }), err
	}); err != nil {
		t.Fatalf("no revision %d: %v; the history is %+v", number, err, q.Status)
	}
}

// expectDeleted waits until the object can be brought back.
func (p past) expectDeleted(t *testing.T) {
	t.Helper()
	q := &fleetv1alpha1.Undeletion{}
	if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		q = &fleetv1alpha1.Undeletion{Spec: fleetv1alpha1.UndeletionSpec{Namespace: p.object.GetNamespace(), Name: p.object.GetName()}}
		err := p.fleet.Hub.Create(ctx, q)
		return slices.ContainsFunc(q.Status.Objects, func(d fleetv1alpha1.DeletedObject) bool { return d.Object.Kind == p.object.GetKind() }), err
	}); err != nil {
		t.Fatalf("it cannot be brought back: %v; what can is %+v", err, q.Status)
	}
}

// follow changes the object, undoes that, deletes it with its policy, and brings both back.
func (p past) follow(t *testing.T) {
	t.Helper()
	hub, member := p.fleet.Hub, p.fleet.Member("member1")
	fleettest.Create(t, hub, p.policy, p.object.DeepCopy())
	fleettest.ExpectEventually(t, member, p.object.DeepCopy(), p.has("one"))
	fleettest.Update(t, hub, p.object.DeepCopy(), func(u *unstructured.Unstructured) {
		if err := p.set(u, "two"); err != nil {
			t.Fatal(err)
		}
	})
	fleettest.ExpectEventually(t, member, p.object.DeepCopy(), p.has("two"))
	p.expectRevision(t, 2)
	p.command(t, "history", nil, "2*", "one", "two")
	p.command(t, "history", []string{"--diff", "1", "2"}, `"one"`, `"two"`)
	p.command(t, "undo", nil, "updated")
	fleettest.ExpectEventually(t, member, p.object.DeepCopy(), p.has("one"))
	p.expectRevision(t, 3) // revision 1 again

	again := p.policy.DeepCopyObject().(client.Object)
	fleettest.Delete(t, hub, again, p.object.DeepCopy())
	p.expectDeleted(t)
	fleettest.ExpectGone(t, member, p.object.DeepCopy())
	p.command(t, "undelete", []string{"--dry-run"}, "created (dry run)")
	fleettest.ExpectAbsent(t, hub, p.object.DeepCopy())
	p.command(t, "undelete", nil, p.policyName+" created", p.as[0]+" created")
	fleettest.ExpectEventually(t, member, p.object.DeepCopy(), p.has("one"))
	fleettest.Delete(t, hub, p.object.DeepCopy()) // a definition with objects in members cannot be deleted
	fleettest.ExpectGone(t, member, p.object.DeepCopy())
}

// TestHistoryOfACustomResource: the history of an object of a kind that only its definition describes.
func TestHistoryOfACustomResource(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	definition := widgetDefinition()
	definition.Name = "gadgets.history.example.io"
	definition.Spec.Group = "history.example.io"
	definition.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ListKind: "GadgetList"}
	for _, c := range append([]*fleettest.Cluster{fleet.Hub}, fleet.Members...) {
		fleettest.Create(t, c, definition.DeepCopy())
		fleettest.ExpectEventually(t, c, definition, established)
	}
	gadget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "history.example.io/v1", "kind": "Gadget",
		"metadata": map[string]any{"namespace": ns, "name": "lamp"},
		"spec":     map[string]any{"bulb": map[string]any{"colour": "one"}},
	}}
	past{
		fleet: fleet, object: gadget, as: []string{"gadget/lamp", "-n", ns},
		policy: fleettest.Policy(ns, "lamp", fleettest.To("member1"), gadget), policyName: "propagationpolicy/lamp",
		set: func(u *unstructured.Unstructured, value string) error {
			return unstructured.SetNestedField(u.Object, value, "spec", "bulb", "colour")
		},
		value: func(u *unstructured.Unstructured) string {
			value, _, _ := unstructured.NestedString(u.Object, "spec", "bulb", "colour")
			return value
		},
	}.follow(t)
}

// TestHistoryOfAClusterScopedObject: the history of an object without a namespace, which has no generation either.
func TestHistoryOfAClusterScopedObject(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	name := "past-" + fleet.Namespace(t)
	role := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name},
		"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"one"}, "verbs": []any{"get"}}},
	}}
	rule := func(u *unstructured.Unstructured) map[string]any {
		rules, _, _ := unstructured.NestedSlice(u.Object, "rules")
		if len(rules) != 1 {
			return nil
		}
		found, _ := rules[0].(map[string]any)
		return found
	}
	past{
		fleet: fleet, object: role, as: []string{"clusterrole/" + name},
		policy: fleettest.ClusterPolicy(name, fleettest.To("member1"), role), policyName: "clusterpropagationpolicy/" + name,
		set: func(u *unstructured.Unstructured, value string) error {
			changed := rule(u)
			changed["resources"] = []any{value}
			return unstructured.SetNestedSlice(u.Object, []any{changed}, "rules")
		},
		value: func(u *unstructured.Unstructured) string { return strings.Trim(fmt.Sprint(rule(u)["resources"]), "[]") },
	}.follow(t)
}
