package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

const (
	// maxObjects bounds the objects that exist at one time, and maxNamespaces and maxSuspended the namespaces that are deleted at some time and
	// the objects that are suspended.
	maxObjects, maxNamespaces, maxSuspended = 60, 3, 3
	// answerPatience is how long a request may take: the deletion of a definition waits for its objects for 30 s. retryEvery is how long a user
	// waits after a request that was not answered.
	answerPatience, retryEvery = 45 * time.Second, 100 * time.Millisecond
)

// action is something that users do. It is planned if it can be done; its weight is how often.
type action struct {
	name   string
	weight int
	plan   func(*soak) bool
}

var actions = []action{
	{"create an object", 30, (*soak).create},
	{"change an object", 25, (*soak).change},
	{"select other clusters for an object", 8, (*soak).move},
	{"delete an object", 14, (*soak).remove},
	{"scale a Deployment", 6, (*soak).scale},
	{"write or delete an OverridePolicy", 7, (*soak).override},
	{"suspend or resume dispatching", 8, (*soak).suspend},
	{"label a Cluster", 2, (*soak).relabel},
	{"create or delete a namespace with objects", 3, (*soak).namespace},
	{"create or delete a definition with an object", 3, (*soak).define},
	{"have a Cluster leave or join", 2, (*soak).leaveOrJoin},
}

// step plans something that a user does on the control plane. Users in members act in check, when all members can be reached.
func (s *soak) step() {
	all := 0
	for _, a := range actions {
		all += a.weight
	}
	for {
		n := s.rand.IntN(all)
		for _, a := range actions {
			if n -= a.weight; n >= 0 {
				continue
			}
			if a.plan(s) {
				s.steps[a.name]++
				return
			}
			break
		}
	}
}

// does plans a request of a user, which is repeated until it is answered.
func (s *soak) does(user int, what string, request func(context.Context) error) {
	s.plan.users[user] = append(s.plan.users[user], func() { s.try(what, request) })
}

// try repeats a request until the API server has answered it: it may not run, or start, or be paused, or have lost the answer.
func (s *soak) try(what string, request func(context.Context) error) {
	s.note("%s", what)
	var last error
	err := wait.PollUntilContextTimeout(s.t.Context(), retryEvery, patience, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		last = request(ctx)
		return last == nil || s.t.Failed(), nil
	})
	if err != nil {
		s.t.Errorf("%s: %v: %v", what, err, last)
	}
	s.note("done: %s", what)
}

func (s *soak) someValue() string { return fmt.Sprint(s.rand.IntN(1000)) }

// someObject is one that the condition selects, nil if there is none.
func (s *soak) someObject(is func(*object) bool) *object {
	if present := s.present(is); len(present) > 0 {
		return s.objects[s.pick(present...)]
	}
	return nil
}

func each(*object) bool { return true }

// someClusters are some clusters, of which at least one is present; or none, for those of a tier. Where all clusters that a placement names
// are absent, the last result stays, and which one that was depends on what came first.
func (s *soak) someClusters() map[string]bool {
	if s.rand.IntN(4) == 0 {
		return nil
	}
	chosen := map[string]bool{s.presentCluster(): true}
	for _, cluster := range names {
		if s.rand.IntN(3) == 0 {
			chosen[cluster] = true
		}
	}
	return chosen
}

// presentCluster is one that has not left.
func (s *soak) presentCluster() string {
	return s.pick(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == s.absent })...)
}

func everywhere() map[string]bool { return map[string]bool{near: true, far: true, pulled: true} }

// newObject adds an object to the model.
func (s *soak) newObject(kind, namespace string) *object {
	s.next++
	o := &object{
		kind: kind, namespace: namespace, name: fmt.Sprintf("o-%d", s.next), user: s.rand.IntN(users), wide: s.rand.IntN(5) == 0, value: s.someValue(),
		named: s.someClusters(), overridden: map[string]string{}, uids: map[string]types.UID{}, found: map[string]string{}, since: map[string][]string{},
	}
	switch kind {
	case "ClusterRole":
		o.namespace, o.wide = "", true
	case "Deployment":
		// A copy that leaves waits for healthy ones elsewhere, which members without controllers never have.
		o.named, o.divided, o.replicas = everywhere(), s.rand.IntN(2) == 0, int32(1+s.rand.IntN(5))
		if o.divided {
			o.replicas *= evenly
		}
	}
	if i := slices.Index(definitions, kind); i >= 0 {
		o.user = i
	}
	if user, theirs := s.namespaces[namespace]; theirs {
		o.user = user
	}
	s.objects[o.name] = o
	s.changes(o)
	return o
}

// creations are the requests that create an object and its policy, in one order or the other.
func (s *soak) creations(o *object) []func() {
	object, policy := o.template(), o.policy().(client.Object)
	what := fmt.Sprintf("create %s %s/%s in %v (divided %v)", o.kind, o.namespace, o.name, slices.Sorted(maps.Keys(o.named)), o.divided)
	both := []func(){
		func() { s.try(what, s.creates(object)) },
		func() { s.try(what+": policy", s.creates(policy)) },
	}
	if s.rand.IntN(2) == 0 {
		slices.Reverse(both)
	}
	return both
}

// creates creates an object, if the request before was not carried out in spite of its answer.
func (s *soak) creates(o client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(s.hub.Create(ctx, o.DeepCopyObject().(client.Object)))
	}
}

func (s *soak) deletes(o client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return client.IgnoreNotFound(s.hub.Delete(ctx, o)) }
}

// updates changes an object that exists.
func updates[T client.Object](s *soak, o T, change func(present T)) func(context.Context) error {
	return func(ctx context.Context) error {
		present := o.DeepCopyObject().(T)
		if err := s.hub.Get(ctx, client.ObjectKeyFromObject(o), present); err != nil {
			return err
		}
		change(present)
		return s.hub.Update(ctx, present)
	}
}

// writes gives an object that exists what the template has now.
func (s *soak) writes(o *object) func(context.Context) error {
	wanted := o.template()
	return func(ctx context.Context) error {
		present := wanted.DeepCopyObject().(client.Object)
		if err := s.hub.Get(ctx, client.ObjectKeyFromObject(wanted), present); err != nil {
			return err
		}
		next := wanted.DeepCopyObject().(client.Object)
		next.SetResourceVersion(present.GetResourceVersion())
		next.SetLabels(present.GetLabels())
		next.SetAnnotations(present.GetAnnotations())
		return s.hub.Update(ctx, next)
	}
}

// writesPolicy gives the policy of an object what it should have now.
func (s *soak) writesPolicy(o *object) func(context.Context) error {
	wanted := o.policy()
	return updates(s, wanted.(client.Object), func(present client.Object) {
		spec := present.(policyv1alpha1.Propagation).PropagationSpec()
		spec.Placement, spec.Suspension = wanted.PropagationSpec().Placement, wanted.PropagationSpec().Suspension
	})
}

func (s *soak) create() bool {
	if len(s.objects) >= maxObjects {
		return false
	}
	kinds := []string{"ConfigMap", "ConfigMap", "ConfigMap", "Secret", "Deployment", "Deployment", "ClusterRole"}
	in := ns
	if names := slices.Sorted(maps.Keys(s.namespaces)); len(names) > 0 && s.rand.IntN(5) == 0 {
		in = s.pick(names...)
	}
	for _, kind := range definitions {
		if s.defined[kind] {
			kinds = append(kinds, kind)
		}
	}
	o := s.newObject(s.pick(kinds...), in)
	s.plan.users[o.user] = append(s.plan.users[o.user], s.creations(o)...)
	return true
}

func (s *soak) change() bool {
	o := s.someObject(each)
	if o == nil {
		return false
	}
	o.value = s.someValue()
	s.changes(o)
	s.does(o.user, fmt.Sprintf("change %s to %s", o.name, o.value), s.writes(o))
	return true
}

func (s *soak) scale() bool {
	o := s.someObject(func(o *object) bool { return o.kind == "Deployment" })
	if o == nil {
		return false
	}
	o.replicas = int32(1 + s.rand.IntN(5))
	if o.divided {
		o.replicas *= evenly
	}
	s.changes(o)
	s.does(o.user, fmt.Sprintf("scale %s to %d", o.name, o.replicas), s.writes(o))
	return true
}

func (s *soak) move() bool {
	o := s.someObject(func(o *object) bool { return o.kind != "Deployment" && !o.suspended })
	if o == nil {
		return false
	}
	before, selected := s.targets(o), len(o.named) == 0
	o.named = s.someClusters()
	if selected || len(o.named) == 0 {
		s.plan.selected[o.name] = true
	}
	after := s.targets(o)
	o.leaves(slices.DeleteFunc(before, func(cluster string) bool { return slices.Contains(after, cluster) })...)
	s.changes(o)
	s.does(o.user, fmt.Sprintf("move %s to %v", o.name, slices.Sorted(maps.Keys(o.named))), s.writesPolicy(o))
	return true
}

func (s *soak) remove() bool {
	o := s.someObject(each)
	if o == nil {
		return false
	}
	s.removes(o)
	return true
}

// removes plans the deletion of an object and its policies.
func (s *soak) removes(o *object) {
	for _, present := range s.written(o) {
		s.does(o.user, fmt.Sprintf("delete %T %s", present, o.name), s.deletes(present))
	}
	delete(s.objects, o.name)
}

// written are an object and its policies.
func (s *soak) written(o *object) []client.Object {
	all := []client.Object{o.template(), o.policy().(client.Object)}
	if len(o.overridden) > 0 {
		all = append(all, o.override())
	}
	return all
}

func (s *soak) override() bool {
	o := s.someObject(func(o *object) bool { return !o.suspended && (o.kind == "ConfigMap" || o.kind == "Deployment") })
	if o == nil {
		return false
	}
	before := o.override()
	switch present := len(o.overridden) > 0; {
	case present && s.rand.IntN(2) == 0:
		clear(o.overridden)
		s.does(o.user, "delete the override policy of "+o.name, s.deletes(before))
	case present:
		for _, cluster := range slices.Sorted(maps.Keys(o.overridden)) {
			o.overridden[cluster] = s.someValue()
		}
		wanted := o.override().Spec
		s.does(o.user, fmt.Sprintf("change the override policy of %s to %v", o.name, o.overridden),
			updates(s, before, func(present *policyv1alpha1.OverridePolicy) { present.Spec = wanted }))
	default:
		o.overridden[s.pick(names...)] = s.someValue()
		s.does(o.user, fmt.Sprintf("create an override policy of %s with %v", o.name, o.overridden), s.creates(o.override()))
	}
	s.changes(o)
	return true
}

// suspend stops dispatching of an object whose copies were all there at the last check, or lets it go on.
func (s *soak) suspend() bool {
	suspended := s.present(func(o *object) bool { return o.suspended })
	var o *object
	if len(suspended) == maxSuspended || len(suspended) > 0 && s.rand.IntN(2) == 0 {
		o = s.objects[s.pick(suspended...)]
	} else if s.absent == "" {
		o = s.someObject(func(o *object) bool {
			return !o.suspended && o.changed != s.rounds && len(o.named) > 0 && o.namespace == ns && (o.kind == "ConfigMap" || o.kind == "Secret") && len(o.uids) == len(s.targets(o))
		})
	}
	if o == nil {
		return false
	}
	s.suspends(o, !o.suspended)
	return true
}

func (s *soak) suspends(o *object, suspended bool) {
	o.suspended = suspended
	s.changes(o)
	s.does(o.user, fmt.Sprintf("suspend %s: %v", o.name, o.suspended), s.writesPolicy(o))
}

func jsonOf(value string) apiextensionsv1.JSON {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a string
	}
	return apiextensionsv1.JSON{Raw: text}
}
