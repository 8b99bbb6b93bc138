// Package upgrade_test runs a control plane and its agents of two versions on the same data and the same members: the one of this tree,
// and the previous one, which testdata/previous names. A change of the version may write nothing that was there before, and everything
// has to work after it, in both directions.
package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// fleet is a control plane, a member in Push mode, and one in Pull mode with its agent. The members keep their version: they are clusters.
type fleet struct {
	hub          *fleettest.Part
	pushed, far  *fleettest.Part
	agent        *fleettest.Agent
	older, newer string
	// states is how many states the templates that change have had.
	states int
}

func (f *fleet) members() []*fleettest.Part { return []*fleettest.Part{f.pushed, f.far} }

// start runs the previous version of the control plane and of the agent.
func start(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{states: 1, older: fleettest.Previous(t)}
	var err error
	if f.newer, err = fleettest.Binary(); err != nil {
		t.Fatal(err)
	}
	f.pushed = fleettest.StartMember(t, "pushed", "--nodes=2", "--devices=2", "--pod-cidr=10.70.0.0/16")
	f.far = fleettest.StartMember(t, "far", "--nodes=2", "--devices=2", "--pod-cidr=10.71.0.0/16")
	f.hub = fleettest.StartHubOf(t, f.older, t.TempDir(), "--enable-bootstrap-token-auth")
	t.Setenv("FLAGSHIP_BINARY", f.older) // for the agent, and the commands with which members join
	if r := fleettest.Flagship(t, "join", "pushed", "--kubeconfig", f.hub.Kubeconfig, "--cluster-kubeconfig", f.pushed.Kubeconfig); r.Code != 0 {
		t.Fatalf("joining: %s", r.Stderr)
	}
	f.agent = f.hub.StartAgent(t, "far", f.far.Kubeconfig)
	return f
}

// switchHub ends the control plane in order and starts another version on its data.
func (f *fleet) switchHub(t *testing.T, binary string) {
	t.Helper()
	f.hub.Stop(t)
	f.hub.Use(binary)
	f.hub.Start(t)
}

// switchAgent does the same with the agent.
func (f *fleet) switchAgent(t *testing.T, binary string) {
	t.Helper()
	f.agent.Stop(t)
	f.agent.Use(binary)
	f.agent.Start(t)
}

// eventually calls check until it returns nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("never checked")
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v: %v", what, err, last)
	}
}

// settled returns what is still on its way: nothing more is written about what is as it is here.
func (f *fleet) settled(ctx context.Context) error {
	var works workv1alpha1.WorkList
	var bindings workv1alpha2.ResourceBindingList
	var clusterBindings workv1alpha2.ClusterResourceBindingList
	var deployments appsv1.DeploymentList
	for _, list := range []client.ObjectList{&works, &bindings, &clusterBindings, &deployments} {
		if err := f.hub.List(ctx, list); err != nil {
			return err
		}
	}
	for i := range works.Items {
		if err := done(&works.Items[i]); err != nil {
			return fmt.Errorf("Work %s/%s: %w", works.Items[i].Namespace, works.Items[i].Name, err)
		}
	}
	var all []workv1alpha2.Binding
	for i := range bindings.Items {
		all = append(all, &bindings.Items[i])
	}
	for i := range clusterBindings.Items {
		all = append(all, &clusterBindings.Items[i])
	}
	for _, b := range all {
		conditions := b.BindingStatus().Conditions
		for _, c := range conditions {
			if c.ObservedGeneration != b.GetGeneration() {
				return fmt.Errorf("the condition %s of binding %s is about generation %d, want %d", c.Type, b.GetName(), c.ObservedGeneration, b.GetGeneration())
			}
		}
		if err := fleettest.ConditionTrue(conditions, workv1alpha2.FullyApplied); err != nil {
			return fmt.Errorf("binding %s: %w", b.GetName(), err)
		}
	}
	for i := range deployments.Items {
		d := &deployments.Items[i] // a policy without division has all its replicas in each cluster
		if s := d.Status; s.ObservedGeneration != d.Generation || s.ReadyReplicas < *d.Spec.Replicas || s.UpdatedReplicas != s.ReadyReplicas || s.Replicas != s.ReadyReplicas {
			return fmt.Errorf("Deployment %s has %+v", d.Name, s)
		}
	}
	return f.connected(ctx)
}

// connected returns an error unless each member has the endpoints of all pods of the Service of several clusters: its own, and those of
// the other one.
func (f *fleet) connected(ctx context.Context) error {
	d := fleettest.Deployment(ns, "web", 0)
	if err := f.hub.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return err
	}
	for _, m := range f.members() {
		var list discoveryv1.EndpointSliceList
		if err := m.List(ctx, &list, client.InNamespace(ns), client.MatchingLabels{discoveryv1.LabelServiceName: "web"}); err != nil {
			return err
		}
		found := 0
		for _, s := range list.Items {
			found += len(s.Endpoints)
		}
		if found != int(*d.Spec.Replicas) {
			return fmt.Errorf("%s has %d endpoints, want %d", m.Name, found, *d.Spec.Replicas)
		}
	}
	return nil
}

// done returns what is still to be written about a Work.
func done(w *workv1alpha1.Work) error {
	if w.Spec.SuspendDispatching != nil && *w.Spec.SuspendDispatching { // a record of what a member has
		return nil
	}
	for _, c := range w.Status.Conditions {
		if c.ObservedGeneration != w.Generation {
			return fmt.Errorf("condition %s is about generation %d, want %d", c.Type, c.ObservedGeneration, w.Generation)
		}
	}
	for kind, want := range map[string]bool{workv1alpha1.WorkApplied: true, workv1alpha1.WorkAvailable: true, workv1alpha1.WorkProgressing: false} {
		if c := meta.FindStatusCondition(w.Status.Conditions, kind); c == nil || (c.Status == metav1.ConditionTrue) != want {
			return fmt.Errorf("condition %s is %+v", kind, c)
		}
	}
	return nil
}

// kinds are those whose objects a change of the version must not write, on the control plane.
var kinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "namespaces"}, {Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "services"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	{Group: "upgrade.example.com", Version: "v1", Resource: "gadgets"},
	{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
}

// hubKinds are further kinds, which members do not have.
var hubKinds = []schema.GroupVersionResource{
	{Group: "resource.k8s.io", Version: "v1alpha2", Resource: "resourceclaims"},
	{Group: "work.karmada.io", Version: "v1alpha1", Resource: "works"},
	{Group: "work.karmada.io", Version: "v1alpha2", Resource: "resourcebindings"}, {Group: "work.karmada.io", Version: "v1alpha2", Resource: "clusterresourcebindings"},
	{Group: "policy.karmada.io", Version: "v1alpha1", Resource: "propagationpolicies"}, {Group: "policy.karmada.io", Version: "v1alpha1", Resource: "clusterpropagationpolicies"},
	{Group: "policy.karmada.io", Version: "v1alpha1", Resource: "overridepolicies"},
	{Group: "networking.karmada.io", Version: "v1alpha1", Resource: "multiclusterservices"},
}

// memberKinds are further kinds in members.
var memberKinds = []schema.GroupVersionResource{{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}}

// state is every object of the kinds, by cluster, kind and name.
type state map[string]*unstructured.Unstructured

func (f *fleet) state(ctx context.Context) (state, error) {
	s := state{}
	add := func(c *fleettest.Cluster, kinds ...schema.GroupVersionResource) error {
		for _, kind := range kinds {
			list, err := c.Dynamic.Resource(kind).List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("listing %s in %s: %w", kind, c.Name, err)
			}
			for i := range list.Items {
				s[fmt.Sprintf("%s: %s %s/%s", c.Name, kind.Resource, list.Items[i].GetNamespace(), list.Items[i].GetName())] = &list.Items[i]
			}
		}
		return nil
	}
	err := errors.Join(add(f.hub.Cluster, kinds...), add(f.hub.Cluster, hubKinds...))
	for _, m := range f.members() {
		err = errors.Join(err, add(m.Cluster, kinds...), add(m.Cluster, memberKinds...))
	}
	return s, err
}

// atRest waits until everything is done, and returns the state then. The controllers of a member write some objects once more after they
// are as they should be, such as a condition of a Deployment, and nothing that comes later shows that they have: the state is at rest when
// it was the same several times in a row.
func (f *fleet) atRest(t *testing.T) state {
	t.Helper()
	const times = 5
	var last state
	same := 0
	eventually(t, "nothing more is written", func(ctx context.Context) error {
		if err := f.settled(ctx); err != nil {
			same = 0
			return err
		}
		now, err := f.state(ctx)
		if err != nil {
			return err
		}
		same++
		if !maps.EqualFunc(last, now, func(a, b *unstructured.Unstructured) bool {
			return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
		}) {
			same = 1
		}
		last = now
		if same < times {
			return fmt.Errorf("it was the same %d times, want %d", same, times)
		}
		return nil
	})
	return last
}

// expectSame fails for each object that was written, created or deleted, but for those that name what is new, and those of the table in
// docs/upgrade.md.
func expectSame(t *testing.T, before, after state, isNew string) {
	t.Helper()
	same := 0
	for name, was := range before {
		is, exists := after[name]
		switch {
		case !exists:
			t.Errorf("%s was deleted", name)
		case is.GetUID() != was.GetUID():
			t.Errorf("%s was deleted and created", name)
		case is.GetResourceVersion() != was.GetResourceVersion() && !documented(name) && !redefined(was, is):
			t.Errorf("%s was written:\n%s", name, cmp.Diff(was.Object, is.Object))
		default:
			same++
		}
	}
	for name, is := range after {
		text, err := is.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if before[name] == nil && !strings.Contains(string(text), isNew) && !documented(name) {
			t.Errorf("%s was created:\n%s", name, text)
		}
	}
	t.Logf("%d objects are what they were", same)
}

// documented returns whether docs/upgrade.md has that a start writes an object: the address of the server itself.
func documented(name string) bool {
	return name == "hub: endpointslices default/kubernetes"
}

// redefined returns whether an object is the definition of a kind of the control plane, with other contents than before: docs/upgrade.md has that
// a start writes the definitions that the version changes.
func redefined(was, is *unstructured.Unstructured) bool {
	own := hubstore.Excluded(hubstore.Ref{GroupVersionKind: is.GroupVersionKind(), Name: is.GetName()})
	return is.GetKind() == "CustomResourceDefinition" && own && is.GetGeneration() != was.GetGeneration()
}

// recorded waits until the history of an object has a number of states, or more, and returns them.
func (f *fleet) recorded(t *testing.T, kind, name string, states int) []string {
	t.Helper()
	var found []string
	eventually(t, fmt.Sprintf("the history of %s has %d states", name, states), func(ctx context.Context) error {
		var err error
		found, err = f.revisions(ctx, kind, name)
		if err == nil && (len(found) < states || slices.ContainsFunc(found, func(r string) bool { return strings.HasPrefix(r, "0:") })) {
			err = fmt.Errorf("it has %q", found)
		}
		return err
	})
	return found
}

// revisions are the numbers and changes of what the history of an object has; a state that is not recorded yet has the number 0.
func (f *fleet) revisions(ctx context.Context, kind, name string) ([]string, error) {
	h := &fleetv1alpha1.History{Spec: fleetv1alpha1.HistorySpec{Kind: kind, Namespace: ns, Name: name}}
	if err := f.hub.Create(ctx, h); err != nil {
		return nil, err
	}
	var all []string
	for _, r := range h.Status.Revisions {
		text := fmt.Sprintf("%d:", r.Revision)
		for _, c := range r.Changes {
			text += " " + c.Text
		}
		all = append(all, text)
	}
	return all, nil
}
