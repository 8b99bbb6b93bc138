package soak_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// patience is how long a request may be repeated, and how long everything may take to be as it should be after the last fault of a round: a
	// hundred times of what it takes, for a machine that has other work.
	patience = 5 * time.Minute
	// settlePoll is how often that is read.
	settlePoll = 250 * time.Millisecond
)

// check waits until everything is as it should be, has users of members delete and change some copies, and waits again.
func (s *soak) check() {
	ended := time.Now()
	if s.settles(true); s.t.Failed() {
		return
	}
	s.settled = max(s.settled, time.Since(ended))
	s.note("everything is as it should be")
	for range 2 {
		s.meddle()
	}
	s.settles(false)
}

// meddle has a user of a member delete or change a copy.
func (s *soak) meddle() {
	o := s.someObject(func(o *object) bool { return o.kind == "ConfigMap" && !o.suspended && len(s.targets(o)) > 0 })
	if o == nil {
		return
	}
	cluster := s.pick(s.targets(o)...)
	s.note("a user of %s changes or deletes %s", cluster, o.name)
	s.steps["change or delete a copy in a member"]++
	if s.rand.IntN(2) == 0 {
		o.leaves(cluster)
		fleettest.Delete(s.t, s.members[cluster].Cluster, o.template())
		return
	}
	theirs := fleettest.ConfigMap(o.namespace, o.name, nil)
	if err := s.members[cluster].Get(s.t.Context(), client.ObjectKeyFromObject(theirs), theirs); client.IgnoreNotFound(err) != nil {
		s.t.Error(err)
	} else if err == nil { // else the user before has deleted it
		theirs.Data["value"] = "theirs"
		if err := s.members[cluster].Update(s.t.Context(), theirs); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			s.t.Error(err)
		}
	}
}

// settles waits until everything is as it should be. With same, a copy must be the object that it was.
func (s *soak) settles(same bool) {
	var last error
	err := wait.PollUntilContextTimeout(s.t.Context(), settlePoll, patience, true, func(ctx context.Context) (bool, error) {
		if name, ended := s.ended(); ended { // and is not expected to
			return false, fmt.Errorf("%s has ended", name)
		}
		wrong := s.wrong(ctx)
		if ctx.Err() == nil { // else it is the end of patience, and the error before says what was wrong
			last = wrong
		}
		return wrong == nil, nil
	})
	if err != nil {
		s.t.Errorf("%v: %v\n%s", err, last, s.explain(fmt.Sprint(last)))
		return
	}
	for _, cluster := range names {
		copies, err := s.copies(s.t.Context(), cluster)
		if err != nil {
			s.t.Error(err)
			return
		}
		for name, copied := range copies {
			before, known := s.objects[name].uids[cluster]
			if same && known && before != copied.GetUID() {
				s.t.Errorf("%s in %s was deleted and created again, and no user did that", name, cluster)
			}
		}
		s.model.settled(cluster, copies)
	}
}

// ended returns the name of a process that has ended.
func (s *soak) ended() (name string, ended bool) {
	processes := map[string]<-chan struct{}{"the control plane": s.hub.Ended(), "the agent": s.agent.Ended()}
	for name, member := range s.members {
		processes[name] = member.Ended()
	}
	for name, process := range processes {
		select {
		case <-process:
			return name, true
		default:
		}
	}
	return "", false
}

// wrong returns what is not as it should be.
func (s *soak) wrong(ctx context.Context) error {
	var clusters clusterv1alpha1.ClusterList
	if err := s.hub.List(ctx, &clusters); err != nil {
		return err
	}
	for i := range clusters.Items {
		c := &clusters.Items[i]
		if c.Name == s.absent {
			return fmt.Errorf("the cluster %s has not left", c.Name)
		}
		if err := fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
	}
	if joined := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == s.absent }); len(clusters.Items) != len(joined) {
		return fmt.Errorf("there are %d Clusters, want %v", len(clusters.Items), joined)
	}
	bindings, err := s.wrongBindings(ctx)
	if err != nil {
		return err
	}
	for _, cluster := range names {
		if err := s.wrongWorks(ctx, cluster, bindings); err != nil {
			return err
		}
		if err := s.wrongCopies(ctx, cluster); err != nil {
			return err
		}
		if err := s.wrongAround(ctx, cluster); err != nil {
			return err
		}
	}
	return nil
}

// needed are the definitions that a cluster needs, by name, "" for any cluster.
func (s *soak) needed(cluster string) map[string]bool {
	needed := map[string]bool{}
	for _, o := range s.objects {
		if targets := s.targets(o); slices.Contains(definitions, o.kind) && (cluster == "" || slices.Contains(targets, cluster)) {
			needed[definitionName(o.kind)] = true
		}
	}
	return needed
}

// wrongBindings compares bindings with objects. It returns the names of the objects by the key of their binding.
func (s *soak) wrongBindings(ctx context.Context) (map[string]string, error) {
	var namespaced workv1alpha2.ResourceBindingList
	var wide workv1alpha2.ClusterResourceBindingList
	if err := errors.Join(s.hub.List(ctx, &namespaced), s.hub.List(ctx, &wide)); err != nil {
		return nil, err
	}
	var bindings []workv1alpha2.Binding
	for i := range namespaced.Items {
		bindings = append(bindings, &namespaced.Items[i])
	}
	for i := range wide.Items {
		bindings = append(bindings, &wide.Items[i])
	}
	needed := s.needed("")
	byKey := map[string]string{}
	for _, b := range bindings {
		of := b.BindingSpec().Resource
		if s.objects[of.Name] == nil && !needed[of.Name] {
			return nil, fmt.Errorf("the binding %s/%s is left over: spec.resource %+v, deleted at %v", b.GetNamespace(), b.GetName(), of, b.GetDeletionTimestamp())
		}
		byKey[b.GetNamespace()+"/"+b.GetName()] = of.Name
	}
	if len(bindings) != len(s.objects)+len(needed) {
		return nil, fmt.Errorf("%d objects and %d definitions have %d bindings", len(s.objects), len(needed), len(bindings))
	}
	return byKey, nil
}

// wrongWorks compares the Works of a cluster with the objects that it should have.
func (s *soak) wrongWorks(ctx context.Context, cluster string, bindings map[string]string) error {
	var works workv1alpha1.WorkList
	if err := s.hub.List(ctx, &works, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster))); err != nil {
		return err
	}
	if cluster == s.absent && len(works.Items) > 0 {
		return fmt.Errorf("%d Works are left over of %s, such as %s", len(works.Items), cluster, works.Items[0].Name)
	}
	needed, found := s.needed(cluster), 0
	for i := range works.Items {
		w := &works.Items[i]
		if !workv1alpha2.IsBound(w) {
			continue // of a namespace, or of the roles of the control plane
		}
		name := bindings[workv1alpha2.BoundTo(w)]
		if o := s.objects[name]; !needed[name] && (o == nil || !slices.Contains(s.targets(o), cluster)) {
			return fmt.Errorf("the Work %s of %q in %s is left over: binding %q", w.Name, name, cluster, workv1alpha2.BoundTo(w))
		}
		found++
	}
	wanted := len(s.present(func(o *object) bool { return slices.Contains(s.targets(o), cluster) })) + len(needed)
	if found != wanted {
		return fmt.Errorf("%s has %d Works of objects, want %d", cluster, found, wanted)
	}
	return nil
}

// wrongCopies compares the copies in a cluster with the objects that it should have.
func (s *soak) wrongCopies(ctx context.Context, cluster string) error {
	copies, err := s.copies(ctx, cluster)
	if err != nil {
		return err
	}
	for name := range copies {
		if o := s.objects[name]; o == nil || !slices.Contains(s.targets(o), cluster) {
			return fmt.Errorf("%s is in %s", name, cluster)
		}
	}
	for name, o := range s.objects {
		if !slices.Contains(s.targets(o), cluster) {
			continue
		}
		if copies[name] == nil {
			return fmt.Errorf("%s is not in %s", name, cluster)
		}
		if err := s.accepts(o, cluster, contentOf(copies[name])); err != nil {
			return err
		}
	}
	return nil
}

// wrongAround compares namespaces, definitions and the object of others in a cluster with what it should have.
func (s *soak) wrongAround(ctx context.Context, cluster string) error {
	var namespaces corev1.NamespaceList
	var defined apiextensionsv1.CustomResourceDefinitionList
	theirs := fleettest.ConfigMap(ns, "foreign", nil)
	member := s.members[cluster]
	if err := errors.Join(member.List(ctx, &namespaces), member.List(ctx, &defined), member.Get(ctx, client.ObjectKeyFromObject(theirs), theirs)); err != nil {
		return err
	}
	if theirs.ResourceVersion != s.foreign[cluster] {
		return fmt.Errorf("the object of others in %s has changed", cluster)
	}
	found := 0
	for i := range namespaces.Items {
		name := namespaces.Items[i].Name
		if !strings.HasPrefix(name, "team-") {
			continue
		}
		if _, wanted := s.namespaces[name]; !wanted || cluster == s.absent {
			return fmt.Errorf("the namespace %s is in %s: %s, labels %v", name, cluster, namespaces.Items[i].Status.Phase, namespaces.Items[i].Labels)
		}
		found++
	}
	if found != len(s.namespaces) && cluster != s.absent {
		return fmt.Errorf("%s has %d namespaces of users, want %d", cluster, found, len(s.namespaces))
	}
	needed := s.needed(cluster)
	for i := range defined.Items {
		if d := &defined.Items[i]; d.Spec.Group == group && !needed[d.Name] {
			return fmt.Errorf("the definition %s is in %s", d.Name, cluster)
		}
	}
	return nil
}

// copies are the managed objects of users in a member, by name.
func (s *soak) copies(ctx context.Context, cluster string) (map[string]client.Object, error) {
	all := map[string]client.Object{}
	var errs []error
	lists := []client.ObjectList{&corev1.ConfigMapList{}, &corev1.SecretList{}, &appsv1.DeploymentList{}, &rbacv1.ClusterRoleList{}}
	for _, kind := range definitions {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(custom(kind + "List").GroupVersionKind())
		lists = append(lists, list)
	}
	for _, list := range lists {
		err := s.members[cluster].List(ctx, list, client.MatchingLabels{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue // the definition is not there
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		items, err := meta.ExtractList(list)
		errs = append(errs, err)
		for _, item := range items {
			if o := item.(client.Object); strings.HasPrefix(o.GetName(), "o-") {
				all[o.GetName()] = o
			}
		}
	}
	return all, errors.Join(errs...)
}

// explain has the bindings and the Works of the objects that a text names, for a reader of a failure.
func (s *soak) explain(text string) string {
	var namespaced workv1alpha2.ResourceBindingList
	var wide workv1alpha2.ClusterResourceBindingList
	var works workv1alpha1.WorkList
	var happened corev1.EventList
	ctx := s.t.Context()
	if err := errors.Join(s.hub.List(ctx, &namespaced), s.hub.List(ctx, &wide), s.hub.List(ctx, &works), s.hub.List(ctx, &happened)); err != nil {
		return err.Error()
	}
	var bindings []workv1alpha2.Binding
	for i := range namespaced.Items {
		bindings = append(bindings, &namespaced.Items[i])
	}
	for i := range wide.Items {
		bindings = append(bindings, &wide.Items[i])
	}
	var out strings.Builder
	print := func(name string, o client.Object, state ...any) {
		if strings.Contains(text, name) {
			o.SetManagedFields(nil)
			for _, value := range append([]any{o}, state...) {
				line, err := json.Marshal(value)
				fmt.Fprintf(&out, "%s %v\n", line, err)
			}
		}
	}
	for i := range happened.Items {
		if e := &happened.Items[i]; e.Reason == "NamespaceReleased" {
			fmt.Fprintf(&out, "%v %s\n", e.LastTimestamp, e.Message)
		}
	}
	for _, b := range bindings {
		print(b.BindingSpec().Resource.Name, b)
	}
	for i := range works.Items {
		for _, b := range bindings {
			if workv1alpha2.BoundTo(&works.Items[i]) == b.GetNamespace()+"/"+b.GetName() {
				print(b.BindingSpec().Resource.Name, &works.Items[i])
			}
		}
	}
	return out.String()
}
