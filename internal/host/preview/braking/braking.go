package braking

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// State is a control plane after a change.
type State struct {
	Config brake.Config
	Clock  clock.PassiveClock
	// Clusters and Works are those that there are, and Changes the differences of all objects from before.
	Clusters []*clusterv1alpha1.Cluster
	Works    []*workv1alpha1.Work
	Changes  []controlloop.Change
}

// touch is one Work that loses objects, or has fewer replicas.
type touch struct {
	cluster       string
	before, after *workv1alpha1.Work // after is nil for one that is deleted
}

// Brakes lists what is held, by cluster.
func (s *State) Brakes() []fleetv1alpha1.PreviewBrake {
	found := slices.Concat(s.removals(), s.evictions(), s.dispatching())
	slices.SortStableFunc(found, func(a, b fleetv1alpha1.PreviewBrake) int { return strings.Compare(a.Cluster, b.Cluster) })
	return found
}

// Touches returns whether some Work may lose objects or replicas: only then Works is read.
func (s *State) Touches() bool { return len(s.touched()) > 0 }

// removals are the brakes of package brake that the change engages, or that are engaged and hold it.
func (s *State) removals() []fleetv1alpha1.PreviewBrake {
	touched := s.touched()
	if len(touched) == 0 {
		return nil
	}
	account := brake.New(func() brake.Config { return s.Config }, s.Clock, func(string) {})
	for _, cluster := range s.Clusters {
		account.Heed(cluster, true)
	}
	leaving := s.leaving()
	for _, cluster := range leaving {
		account.Heed(cluster, true)
	}
	s.count(account)
	var found []fleetv1alpha1.PreviewBrake
	held := map[string]bool{}
	for _, t := range touched {
		if leaving[t.cluster] != nil || held[t.cluster] { // who deletes a Cluster orders the removal of all that it has
			continue
		}
		removal, extra := t.after == nil, s.extra(t)
		if !removal && extra == 0 || account.Admit(brake.Request{Cluster: t.cluster, Work: client.ObjectKeyFromObject(t.before), Removal: removal, Extra: extra}) {
			continue
		}
		held[t.cluster] = true
		state, _ := account.Look(t.cluster)
		entry := fleetv1alpha1.PreviewBrake{
			Cluster: t.cluster, Condition: clusterv1alpha1.ClusterConditionBrakeEngaged, Touched: int32(state.Touched), Objects: int32(state.Objects),
		}
		switch state.Cause {
		case brake.Fleet:
			entry.Reason = clusterv1alpha1.FleetShareExceededReason
			entry.Message = fmt.Sprintf("removals and shrinkages wait: %d of %d objects of all clusters together are too many", state.Touched, state.Objects)
		case brake.Before:
			entry.Message = "removals and shrinkages wait: its brake is engaged already"
		default:
			entry.Reason = clusterv1alpha1.MemberShareExceededReason
			entry.Message = fmt.Sprintf("removals and shrinkages wait: %d of %d objects are too many", state.Touched, state.Objects)
		}
		found = append(found, entry)
	}
	return found
}

// count gives the account the Works as they were, and then what becomes of them.
func (s *State) count(account *brake.Brake) {
	record := func(before, after *workv1alpha1.Work, was, is brake.Work) {
		work := cmp.Or(after, before)
		if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace); ok {
			account.Change(cluster, client.ObjectKeyFromObject(work), was, is)
		}
	}
	for _, work := range s.Works {
		record(nil, work, brake.Work{}, brake.ShareOf(work))
	}
	for _, change := range s.Changes {
		if before, gone := change.Before.(*workv1alpha1.Work); gone && change.After == nil {
			ordered := before.DeepCopy() // its removal is ordered first
			ordered.DeletionTimestamp = &metav1.Time{Time: s.Clock.Now()}
			if s.isLast(before) {
				ordered.AddAnnotations(map[string]string{workv1alpha1.LastCopyAnnotation: "true"})
			}
			record(before, nil, brake.Work{}, brake.ShareOf(ordered))
		}
	}
}

// isLast returns whether a Work that is deleted has the last copy of a template that stays: render writes that on it before it deletes it, which
// the differences do not show.
func (s *State) isLast(work *workv1alpha1.Work) bool {
	of := workv1alpha2.BoundTo(work)
	unbinds := func(change controlloop.Change) bool {
		binding, ok := change.Before.(workv1alpha2.Binding)
		return ok && change.After == nil && binding.GetNamespace()+"/"+binding.GetName() == of
	}
	has := func(other *workv1alpha1.Work) bool { return workv1alpha2.BoundTo(other) == of }
	return of != "" && !slices.ContainsFunc(s.Changes, unbinds) && !slices.ContainsFunc(s.Works, has)
}

// leaving are the Clusters that the change deletes, as they are until they are gone.
func (s *State) leaving() map[string]*clusterv1alpha1.Cluster {
	found := map[string]*clusterv1alpha1.Cluster{}
	for _, change := range s.Changes {
		if cluster, gone := change.Before.(*clusterv1alpha1.Cluster); gone && change.After == nil {
			cluster = cluster.DeepCopy()
			cluster.DeletionTimestamp = &metav1.Time{Time: s.Clock.Now()}
			found[cluster.Name] = cluster
		}
	}
	return found
}

// touched are the Works that may lose objects or replicas, in order.
func (s *State) touched() []touch {
	var found []touch
	for _, change := range s.Changes {
		before, ok := change.Before.(*workv1alpha1.Work)
		if !ok || workv1alpha1.IsRecord(before) {
			continue
		}
		after, _ := change.After.(*workv1alpha1.Work)
		cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(before.Namespace)
		if ok && (after != nil || !brake.Preserves(before)) {
			found = append(found, touch{cluster, before, after})
		}
	}
	return found
}

// extra is how many objects a touch removes or scales down besides those that are counted as leaving: what a namespace or a definition has,
// what a Work holds no more, and what has fewer replicas.
func (s *State) extra(t touch) int {
	n := 0
	kept := map[string]*unstructured.Unstructured{}
	for _, obj := range manifests(t.after) {
		kept[identity(obj)] = obj
	}
	for _, obj := range manifests(t.before) {
		now := kept[identity(obj)]
		switch {
		case now == nil && t.after != nil:
			n += 1 + s.goesWith(t.cluster, obj)
		case now == nil:
			n += s.goesWith(t.cluster, obj)
		case shrinks(obj, now):
			n++
		}
	}
	return n
}

func shrinks(before, after *unstructured.Unstructured) bool {
	had, was, _ := unstructured.NestedInt64(before.Object, "spec", "replicas")
	desired, is, _ := unstructured.NestedInt64(after.Object, "spec", "replicas")
	return was && is && desired < had
}

// goesWith is how many objects that stay otherwise a member deletes together with an object: those in a namespace, and those of a kind.
func (s *State) goesWith(cluster string, obj *unstructured.Unstructured) int {
	var within func(*unstructured.Unstructured) bool
	switch obj.GetKind() {
	case "Namespace":
		within = func(o *unstructured.Unstructured) bool { return o.GetNamespace() == obj.GetName() }
	case "CustomResourceDefinition":
		group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
		within = func(o *unstructured.Unstructured) bool {
			gvk := o.GroupVersionKind()
			return gvk.Group == group && gvk.Kind == kind
		}
	default:
		return 0
	}
	n := 0
	for _, work := range s.Works {
		if work.Namespace != workv1alpha1.ExecutionNamespace(cluster) || work.DeletionTimestamp != nil || workv1alpha1.IsRecord(work) {
			continue
		}
		for _, o := range manifests(work) {
			if within(o) {
				n++
			}
		}
	}
	return n
}

func identity(obj *unstructured.Unstructured) string {
	return obj.GroupVersionKind().GroupKind().String() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// manifests are the objects of a Work, without those that are none.
func manifests(work *workv1alpha1.Work) []*unstructured.Unstructured {
	if work == nil {
		return nil
	}
	var found []*unstructured.Unstructured
	for _, m := range work.Spec.Workload.Manifests {
		obj := &unstructured.Unstructured{}
		if obj.UnmarshalJSON(m.Raw) == nil {
			found = append(found, obj)
		}
	}
	return found
}

// evictions are the Clusters from which the change would have objects leave, and which the safety of the fleet holds.
func (s *State) evictions() []fleetv1alpha1.PreviewBrake {
	var found []fleetv1alpha1.PreviewBrake
	for _, change := range s.Changes {
		after, ok := change.After.(*clusterv1alpha1.Cluster)
		if !ok {
			continue
		}
		held := meta.FindStatusCondition(after.Status.Conditions, clusterv1alpha1.ClusterConditionEvictionHeld)
		if held == nil || held.Status != metav1.ConditionTrue {
			continue
		}
		if before, was := change.Before.(*clusterv1alpha1.Cluster); was && meta.IsStatusConditionTrue(before.Status.Conditions, held.Type) {
			continue // it was held before
		}
		found = append(found, fleetv1alpha1.PreviewBrake{Cluster: after.Name, Condition: held.Type, Reason: held.Reason, Message: held.Message})
	}
	return found
}

// dispatching are the Clusters to which nothing is written before a person allows it, and in which the change has something to do.
func (s *State) dispatching() []fleetv1alpha1.PreviewBrake {
	concerned := map[string]bool{}
	for _, change := range s.Changes {
		work, ok := cmp.Or(change.After, change.Before).(*workv1alpha1.Work)
		if !ok || workv1alpha1.IsRecord(work) {
			continue
		}
		if cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace); ok {
			concerned[cluster] = true
		}
	}
	var found []fleetv1alpha1.PreviewBrake
	for _, cluster := range s.Clusters {
		held := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld)
		if concerned[cluster.Name] && held != nil && held.Status == metav1.ConditionTrue {
			found = append(found, fleetv1alpha1.PreviewBrake{Cluster: cluster.Name, Condition: held.Type, Reason: held.Reason, Message: "nothing is written to the cluster: " + held.Message})
		}
	}
	return found
}
