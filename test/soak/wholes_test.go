package soak_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// operator is the user who changes Clusters.
const operator = users - 1

// namespace creates a namespace with objects, or deletes one with all that is in it.
func (s *soak) namespace() bool {
	present := slices.Sorted(maps.Keys(s.namespaces))
	if len(present) == maxNamespaces || len(present) > 0 && s.rand.IntN(2) == 0 {
		name := s.pick(present...)
		user := s.namespaces[name]
		for _, in := range s.present(func(o *object) bool { return o.namespace == name }) {
			o := s.objects[in]
			if o.wide {
				s.does(user, "delete the policy of "+in, s.deletes(o.policy().(client.Object)))
			}
			delete(s.objects, in)
		}
		s.does(user, "delete namespace "+name, s.deletes(namespace(name)))
		delete(s.namespaces, name)
		return true
	}
	s.next++
	name := fmt.Sprintf("team-%d", s.next)
	user := s.rand.IntN(users)
	s.namespaces[name] = user
	s.does(user, "create namespace "+name, s.creates(namespace(name)))
	for _, kind := range []string{"ConfigMap", "Deployment"} {
		s.plan.users[user] = append(s.plan.users[user], s.creations(s.newObject(kind, name))...)
	}
	return true
}

// define creates a definition with an object, or deletes it after its objects.
func (s *soak) define() bool {
	i := s.rand.IntN(len(definitions))
	kind := definitions[i]
	if s.defined[kind] {
		for _, name := range s.present(func(o *object) bool { return o.kind == kind }) {
			s.removes(s.objects[name])
		}
		s.does(i, "delete definition "+definitionName(kind), s.deletes(definition(kind)))
		// What is created next under this name is another definition.
		s.does(i, "definition "+definitionName(kind)+" is gone", func(ctx context.Context) error {
			err := s.hub.Get(ctx, client.ObjectKeyFromObject(definition(kind)), definition(kind))
			if err == nil {
				return errors.New("it exists")
			}
			return client.IgnoreNotFound(err)
		})
		delete(s.defined, kind)
		return true
	}
	s.defined[kind] = true
	s.does(i, "create definition "+definitionName(kind), s.creates(definition(kind)))
	s.plan.users[i] = append(s.plan.users[i], s.creations(s.newObject(kind, ns))...)
	return true
}

// relabel moves a Cluster to another tier. One of gold stays.
func (s *soak) relabel() bool {
	name := s.pick(names...)
	if name == s.absent || s.tiers[name] == gold && !s.goldWithout(name) {
		return false
	}
	s.plan.relabelled[name] = true
	label := map[string]string{gold: silver, silver: gold}[s.tiers[name]]
	s.tiers[name] = label
	for _, o := range s.objects {
		if len(o.named) == 0 {
			if label != gold {
				o.leaves(name)
			}
			s.changes(o)
		}
	}
	s.does(operator, fmt.Sprintf("label %s %s", name, label), updates(s, cluster(name), func(c *clusterv1alpha1.Cluster) {
		metav1.SetMetaDataLabel(&c.ObjectMeta, tier, label)
	}))
	return true
}

// crossed notes which copies may have left a cluster and returned, since a user changed a placement by tier while the operator changed the tier: it is
// not known which of them was first.
func (s *soak) crossed() {
	for name := range s.plan.selected {
		if o := s.objects[name]; o != nil {
			o.leaves(slices.Collect(maps.Keys(s.plan.relabelled))...)
		}
	}
}

// goldWithout returns whether another cluster of the tier gold is present.
func (s *soak) goldWithout(name string) bool {
	return slices.ContainsFunc(names, func(other string) bool { return other != name && other != s.absent && s.tiers[other] == gold })
}

// leaveOrJoin removes the Cluster near with its objects, or has it join again. A cluster that cannot be reached keeps its objects, so near has no
// faults of its own in that round, and far does not leave: after a round in which its network lost connections, it may be a while until the control
// plane has observed that, and it may report far as not ready in the next round.
func (s *soak) leaveOrJoin() bool {
	if len(s.plan.spared) > 0 {
		return false
	}
	if name := s.absent; name != "" {
		s.absent = ""
		s.plan.spared[name] = true
		s.tiers[name] = gold
		for _, o := range s.objects {
			s.changes(o)
		}
		s.does(operator, "join "+name, func(context.Context) error {
			return s.command("join", name, "--cluster-kubeconfig", s.kubeconfigs[name], "--cluster-labels", tier+"="+gold) //nolint:contextcheck // a command has its own end
		})
		return true
	}
	name := near
	if !s.goldWithout(name) {
		return false
	}
	for _, in := range s.present(func(o *object) bool { return o.suspended }) {
		s.suspends(s.objects[in], false) // or its copy stays
	}
	s.absent = name
	s.plan.spared[name] = true
	for _, in := range s.present(each) {
		o := s.objects[in]
		o.leaves(name)
		if len(o.named) == 1 && o.named[name] {
			o.named[s.presentCluster()] = true
			s.does(o.user, fmt.Sprintf("move %s to %v, since %s leaves", in, slices.Sorted(maps.Keys(o.named)), name), s.writesPolicy(o))
		}
		s.changes(o)
	}
	s.does(operator, "unjoin "+name, func(ctx context.Context) error {
		err := s.command("unjoin", name, "--delete-objects", "--wait=110s") //nolint:contextcheck // a command has its own end
		if gone := s.hub.Get(ctx, client.ObjectKey{Name: name}, cluster(name)); apierrors.IsNotFound(gone) {
			return nil
		}
		return err
	})
	return true
}

// command runs a command against the control plane.
func (s *soak) command(args ...string) error {
	r := fleettest.Flagship(s.t, append(args, "--kubeconfig", s.hub.Kubeconfig)...)
	if r.Code != 0 {
		return fmt.Errorf("it ended with %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	s.note("%v: %s", args[:2], r.Stdout)
	return nil
}
