package preview

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/crds"
	"github.com/flagship-k8s/flagship/internal/host/preview/braking"
	"github.com/flagship-k8s/flagship/internal/host/preview/fields"
	"github.com/flagship-k8s/flagship/internal/host/preview/overlay"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

const (
	// maxEntries bounds each list of an answer.
	maxEntries = 500
	// MaxFieldBytes bounds the fields of all entries of an answer, in bytes: an object of 1 MB may be another one in each of a hundred clusters.
	MaxFieldBytes = 8 << 20
)

// SizeOf is how many bytes fields have in an answer.
func SizeOf(edits []fleetv1alpha1.FieldEdit) int {
	n := 0
	for _, edit := range edits {
		n += len(edit.Path) + len(edit.From) + len(edit.To)
	}
	return n
}

// view is what of an answer a user may see.
type view struct {
	may    func(explain.Right) bool
	status *fleetv1alpha1.PreviewStatus
	// left is how many bytes of fields the answer may still have.
	left *int
}

// allows returns whether the user has all rights. If not, the answer has that something is hidden.
func (v view) allows(rights ...explain.Right) bool {
	if slices.ContainsFunc(rights, func(r explain.Right) bool { return !v.may(r) }) {
		v.status.Hidden = true
		return false
	}
	return true
}

// Answer adds to a status what has changed since Mark, as far as a user may get it, and returns the objects to apply in members.
func (r *Run) Answer(ctx context.Context, config brake.Config, may func(explain.Right) bool, status *fleetv1alpha1.PreviewStatus) ([]Copy, error) {
	v := view{may, status, ptr.To(MaxFieldBytes)}
	for _, t := range r.Templates.Changes() {
		r.claim(v, t)
		r.emptying(v, t)
	}
	changes := r.Hub.Changes()
	leaving := departures(changes)
	var copies []Copy
	for _, change := range changes {
		if err := ctx.Err(); err != nil { // a manifest of 1 MB takes a tenth of a second
			return nil, fmt.Errorf("comparing what the change does: %w", err)
		}
		switch object := cmp.Or(change.After, change.Before).(type) {
		case workv1alpha2.Binding:
			before, _ := change.Before.(workv1alpha2.Binding)
			after, _ := change.After.(workv1alpha2.Binding)
			r.placement(v, before, after)
		case *clusterv1alpha1.Cluster:
			before, _ := change.Before.(*clusterv1alpha1.Cluster)
			after, _ := change.After.(*clusterv1alpha1.Cluster)
			r.taints(v, before, after)
		case *workv1alpha1.Work:
			before, _ := change.Before.(*workv1alpha1.Work)
			after, _ := change.After.(*workv1alpha1.Work)
			found, err := r.copies(v, leaving, object, before, after)
			if err != nil {
				return nil, err
			}
			copies = append(copies, found...)
		}
	}
	if err := r.brakes(ctx, v, config, changes); err != nil {
		return nil, err
	}
	r.warn(v)
	return copies, nil
}

// leavers is what a change has leave: Clusters that are deleted, and the clusters that each binding is being evicted from, by its namespace
// and name.
type leavers struct {
	clusters map[string]*clusterv1alpha1.Cluster
	evicting map[string][]string
}

func departures(changes []controlloop.Change) leavers {
	l := leavers{map[string]*clusterv1alpha1.Cluster{}, map[string][]string{}}
	for _, change := range changes {
		if cluster, ok := change.Before.(*clusterv1alpha1.Cluster); ok && change.After == nil {
			l.clusters[cluster.Name] = cluster
		}
		if binding, ok := change.After.(workv1alpha2.Binding); ok {
			spec := binding.BindingSpec()
			for i := range spec.GracefulEvictionTasks {
				if from := spec.GracefulEvictionTasks[i].FromCluster; !eviction.IsTarget(spec, from) {
					l.evicting[compose.KeyOf(binding)] = append(l.evicting[compose.KeyOf(binding)], from)
				}
			}
		}
	}
	return l
}

// isLate returns whether a copy changes when it is evicted, or later. It stays as it is while it is being evicted, so whether it is written
// before depends on which comes first.
func (r *Run) isLate(l leavers, work *workv1alpha1.Work, cluster string) bool {
	bound := workv1alpha2.BoundTo(work)
	namespace, name, _ := strings.Cut(bound, "/")
	begun, ok := r.evicted[client.ObjectKey{Namespace: namespace, Name: name}][cluster]
	return ok && slices.Contains(l.evicting[bound], cluster) && r.written[client.ObjectKeyFromObject(work)] >= begun.at
}

// right is the right to get a template.
func (r *Run) right(ref hubstore.Ref) explain.Right {
	resource, _, ok := r.Templates.Mapping(ref.GroupVersionKind)
	if !ok {
		resource.Resource = "*"
	}
	return explain.Right{Group: ref.GroupVersionKind.Group, Resource: resource.Resource, Namespace: ref.Namespace, Name: ref.Name}
}

func identityOf(ref hubstore.Ref) fleetv1alpha1.ObjectIdentity {
	return fleetv1alpha1.ObjectIdentity{
		APIVersion: ref.GroupVersionKind.GroupVersion().String(), Kind: ref.GroupVersionKind.Kind, Namespace: ref.Namespace, Name: ref.Name,
	}
}

// claim adds that a template comes to belong to another policy. One that is deleted is not mentioned here.
func (r *Run) claim(v view, t overlay.Template) {
	from, to := claimOn(t.Before), claimOn(t.After)
	if t.After == nil || from == to {
		return
	}
	rights := []explain.Right{r.right(t.Ref)}
	entry := fleetv1alpha1.PreviewPolicy{Object: identityOf(t.Ref)}
	for _, side := range []struct {
		key  policy.Key
		into **fleetv1alpha1.ObjectIdentity
	}{{from, &entry.From}, {to, &entry.To}} {
		if side.key.Name != "" {
			rights = append(rights, explain.PolicyRight(side.key))
			*side.into = policyIdentity(side.key)
		}
	}
	if v.allows(rights...) {
		add(v.status, &v.status.Policies, entry)
	}
}

func claimOn(obj *unstructured.Unstructured) policy.Key {
	if obj == nil {
		return policy.Key{}
	}
	return policy.ClaimOn(obj).Policy
}

func policyIdentity(key policy.Key) *fleetv1alpha1.ObjectIdentity {
	kind := policyv1alpha1.KindPropagationPolicy
	if key.Namespace == "" {
		kind = policyv1alpha1.KindClusterPropagationPolicy
	}
	return &fleetv1alpha1.ObjectIdentity{APIVersion: policyv1alpha1.SchemeGroupVersion.String(), Kind: kind, Namespace: key.Namespace, Name: key.Name}
}

// emptying adds a template that is deleted with its namespace.
func (r *Run) emptying(v view, t overlay.Template) {
	entry := fleetv1alpha1.PreviewObject{Object: identityOf(t.Ref), Action: fleetv1alpha1.PreviewDelete}
	named := func(o fleetv1alpha1.PreviewObject) bool { return o.Object == entry.Object }
	if t.Before != nil && t.After == nil && r.emptied[t.Ref.Namespace] && !slices.ContainsFunc(v.status.Objects, named) && v.allows(r.right(t.Ref)) {
		add(v.status, &v.status.Objects, entry)
	}
}

// taints adds which taints a Cluster gets or loses by ClusterTaintPolicies.
func (r *Run) taints(v view, before, after *clusterv1alpha1.Cluster) {
	if after == nil {
		return
	}
	own, changed := r.tainted[after.Name]
	if !changed && before != nil {
		own = before.Spec.Taints
	}
	entry := fleetv1alpha1.PreviewTaints{Cluster: after.Name, Added: missing(after.Spec.Taints, own), Removed: missing(own, after.Spec.Taints)}
	if len(entry.Added)+len(entry.Removed) > 0 && v.allows(clusterRight(after.Name)) {
		add(v.status, &v.status.Taints, entry)
	}
}

// missing are the taints that others do not have.
func missing(taints, others []corev1.Taint) []string {
	var found []string
	for i := range taints {
		text := taints[i].ToString()
		if !slices.ContainsFunc(others, func(other corev1.Taint) bool { return other.ToString() == text }) {
			found = append(found, text)
		}
	}
	return found
}

func clusterRight(name string) explain.Right {
	return explain.Right{Group: clusterv1alpha1.GroupName, Resource: clusterv1alpha1.ResourcePluralCluster, Name: name}
}

// add appends to a list of an answer, as long as it is not full.
func add[T any](status *fleetv1alpha1.PreviewStatus, list *[]T, entry T) {
	if len(*list) >= maxEntries {
		status.Omitted++
		return
	}
	*list = append(*list, entry)
}

// placement adds what changes about the clusters of a binding.
func (r *Run) placement(v view, before, after workv1alpha2.Binding) {
	either := after
	if after == nil {
		either = before
	}
	ref := hubstore.TemplateOf(either.BindingSpec()).Canonical(r.Templates)
	entry := fleetv1alpha1.PreviewPlacement{Object: identityOf(ref)}
	from, to := targetsOf(before), targetsOf(after)
	key := client.ObjectKey{Namespace: either.GetNamespace(), Name: either.GetName()}
	evicted := r.evicted[key]
	names := maps.Clone(from)
	maps.Copy(names, to)
	for name := range evicted {
		names[name] = 0
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		cluster := fleetv1alpha1.PreviewCluster{
			Name: name, Eviction: evicted[name].why, AfterSeconds: seconds(max(evicted[name].at, r.moved[key][name])),
		}
		if n, ok := from[name]; ok {
			cluster.From = ptr.To(n)
		}
		if n, ok := to[name]; ok {
			cluster.To = ptr.To(n)
		}
		if !ptr.Equal(cluster.From, cluster.To) || cluster.Eviction != "" {
			entry.Clusters = append(entry.Clusters, cluster)
		}
	}
	was, is := unplaced(before), unplaced(after)
	if entry.Message = is.Message; was.Type == is.Type && was.Reason == is.Reason && len(entry.Clusters) == 0 {
		return // a message may count the clusters, and is computed again some minutes later
	}
	if v.allows(r.right(ref), explain.BindingRight(either)) {
		add(v.status, &v.status.Placements, entry)
	}
}

// targetsOf are the replicas of each cluster of a binding; 0 where they do not follow from the binding.
func targetsOf(binding workv1alpha2.Binding) map[string]int32 {
	replicas := map[string]int32{}
	if binding == nil || binding.GetDeletionTimestamp() != nil {
		return replicas
	}
	for _, t := range compose.TargetsOf(binding.BindingSpec()) {
		replicas[t.Name] = 0
		if t.Scheduled {
			replicas[t.Name] = t.Replicas
		}
	}
	return replicas
}

// unplaced is the condition that reports why a binding has no place, or not for all of its replicas; empty if it has.
func unplaced(binding workv1alpha2.Binding) metav1.Condition {
	if binding == nil {
		return metav1.Condition{}
	}
	for _, c := range binding.BindingStatus().Conditions {
		if c.Type == workv1alpha2.Scheduled && c.Status != "True" || c.Type == workv1alpha2.Rendered && c.Status == "False" ||
			c.Type == workv1alpha2.EvictionHeld && c.Status == "True" {
			return c
		}
	}
	return metav1.Condition{}
}

// Copy is an object in members that changes, with the place of its entry in the answer.
type Copy struct {
	Cluster  string
	Manifest *unstructured.Unstructured
	Entry    int
}

// copies adds what changes of the manifests of a Work.
func (r *Run) copies(v view, leaving leavers, either, before, after *workv1alpha1.Work) ([]Copy, error) {
	cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(either.Namespace)
	if !ok || workv1alpha1.IsRecord(either) {
		return nil, nil
	}
	from, err := manifests(before)
	if err != nil {
		return nil, err
	}
	to, err := manifests(after)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(from)
	maps.Copy(all, to)
	var found []Copy
	for _, ref := range slices.SortedFunc(maps.Keys(all), func(a, b hubstore.Ref) int { return strings.Compare(a.String(), b.String()) }) {
		entry := fleetv1alpha1.PreviewCopy{
			Object: identityOf(ref), Clusters: []string{cluster}, Action: fleetv1alpha1.PreviewUpdate, AfterSeconds: seconds(r.written[client.ObjectKeyFromObject(either)]),
		}
		switch {
		case from[ref] == nil:
			entry.Action, entry.Fields = fleetv1alpha1.PreviewCreate, fields.Edits(&unstructured.Unstructured{Object: map[string]any{}}, to[ref])
		case to[ref] == nil:
			entry.Action, entry.Message = fleetv1alpha1.PreviewDelete, fate(either, leaving.clusters[cluster], ref)
		default:
			if entry.Fields = fields.Edits(from[ref], to[ref]); len(entry.Fields) == 0 || r.isLate(leaving, either, cluster) {
				continue
			}
			entry.Message = crds.HeldBack(cluster, from[ref], to[ref])
		}
		if after != nil && after.Spec.SuspendDispatching != nil && *after.Spec.SuspendDispatching {
			entry.Message = "nothing is written: dispatching is suspended"
		}
		if !v.allows(append(bindingRights(either), r.right(ref))...) || !v.allowsWork(either, before, after) {
			continue
		}
		at := slices.IndexFunc(v.status.Copies, func(c fleetv1alpha1.PreviewCopy) bool { return alike(c, entry) })
		switch size := SizeOf(entry.Fields); {
		case at >= 0:
			v.status.Copies[at].Clusters = append(v.status.Copies[at].Clusters, cluster)
		case size > *v.left || len(v.status.Copies) >= maxEntries:
			v.status.Omitted++
			continue
		default:
			*v.left -= size
			at = len(v.status.Copies)
			v.status.Copies = append(v.status.Copies, entry)
		}
		if to[ref] != nil && entry.Message == "" {
			found = append(found, Copy{cluster, to[ref], at})
		}
	}
	return found, nil
}

// fate is what becomes of an object in a member when its Work is deleted, if it is not just deleted. Leaving is its Cluster if that is
// deleted, too.
func fate(work *workv1alpha1.Work, leaving *clusterv1alpha1.Cluster, ref hubstore.Ref) string {
	switch {
	case leaving != nil && !apimeta.IsStatusConditionTrue(leaving.Status.Conditions, clusterv1alpha1.ClusterConditionReady):
		return "it stays in the cluster, which is not ready"
	case brake.Preserves(work):
		return "it stays in the cluster: spec.preserveResourcesOnDeletion"
	case leaving != nil && !clusterv1alpha1.DeletesObjects(leaving):
		return fmt.Sprintf("it stays in the cluster: the Cluster lacks the annotation %s=%s", clusterv1alpha1.OnRemovalAnnotation, clusterv1alpha1.OnRemovalDeleteObjects)
	case ref == hubstore.NamespaceRef(ref.Name):
		return "the cluster deletes all that the namespace has"
	case ref.GroupVersionKind.GroupKind() == definitionKind:
		return "the cluster deletes all objects of its kind; it stays where others have such objects"
	}
	return ""
}

// alike returns whether two entries differ in nothing but their clusters.
func alike(a, b fleetv1alpha1.PreviewCopy) bool {
	return a.Object == b.Object && a.Action == b.Action && a.Message == b.Message && a.AfterSeconds == b.AfterSeconds && slices.Equal(a.Fields, b.Fields)
}

// bindingRights is the right to get the binding of a Work, if it has one.
func bindingRights(work *workv1alpha1.Work) []explain.Right {
	namespace, name, found := strings.Cut(workv1alpha2.BoundTo(work), "/")
	if !found {
		return nil
	}
	binding := workv1alpha2.EmptyBinding(namespace)
	binding.SetNamespace(namespace)
	binding.SetName(name)
	return []explain.Right{explain.BindingRight(binding)}
}

// allowsWork returns whether the user may get a Work, or else the Cluster and every override policy that made it what it is.
func (v view) allowsWork(either, before, after *workv1alpha1.Work) bool {
	if v.may(explain.Right{Group: workv1alpha1.GroupName, Resource: workv1alpha1.ResourcePluralWork, Namespace: either.Namespace, Name: either.Name}) {
		return true
	}
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(either.Namespace)
	rights := []explain.Right{clusterRight(cluster)}
	for _, work := range []*workv1alpha1.Work{before, after} {
		if work == nil {
			continue
		}
		for annotation, resource := range map[string]string{
			workv1alpha1.AppliedOverridesAnnotation:        policyv1alpha1.ResourcePluralOverridePolicy,
			workv1alpha1.AppliedClusterOverridesAnnotation: policyv1alpha1.ResourcePluralClusterOverridePolicy,
		} {
			var applied []override.Applied
			if text := work.Annotations[annotation]; text != "" && json.Unmarshal([]byte(text), &applied) != nil {
				v.status.Hidden = true
				return false
			}
			for _, a := range applied {
				namespace, name, found := strings.Cut(a.PolicyName, "/")
				if !found {
					namespace, name = "", a.PolicyName
				}
				if namespace == "" && resource == policyv1alpha1.ResourcePluralOverridePolicy {
					namespace = work.Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation]
				}
				rights = append(rights, explain.Right{Group: policyv1alpha1.GroupName, Resource: resource, Namespace: namespace, Name: name})
			}
		}
	}
	return v.allows(rights...)
}

// manifests are the objects of a Work without what the control plane adds to each.
func manifests(work *workv1alpha1.Work) (map[hubstore.Ref]*unstructured.Unstructured, error) {
	found := map[hubstore.Ref]*unstructured.Unstructured{}
	if work == nil || work.DeletionTimestamp != nil {
		return found, nil
	}
	for _, m := range work.Spec.Workload.Manifests {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(m.Raw); err != nil {
			return nil, fmt.Errorf("reading a manifest of Work %s/%s: %w", work.Namespace, work.Name, err)
		}
		obj.SetLabels(users(obj.GetLabels()))
		obj.SetAnnotations(users(obj.GetAnnotations()))
		found[hubstore.RefOf(obj)] = obj
	}
	return found, nil
}

// users are the labels or annotations that are not of the control plane.
func users(all map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range all {
		if !workv1alpha1.IsOwnershipKey(key) {
			kept[key] = value
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// brakes adds what of the change waits for a person.
func (r *Run) brakes(ctx context.Context, v view, config brake.Config, changes []controlloop.Change) error {
	var clusters clusterv1alpha1.ClusterList
	if err := r.Hub.List(ctx, &clusters); err != nil {
		return fmt.Errorf("listing clusters: %w", err)
	}
	state := braking.State{Config: config, Clock: r.config.Clock, Changes: changes}
	if state.Touches() {
		present, err := hubclient.ListWorks(ctx, r.Hub)
		if err != nil {
			return err
		}
		state.Works = present
	}
	for i := range clusters.Items {
		state.Clusters = append(state.Clusters, &clusters.Items[i])
	}
	for _, entry := range state.Brakes() {
		if v.allows(clusterRight(entry.Cluster), explain.AllClusters) {
			add(v.status, &v.status.Brakes, entry)
		}
	}
	return nil
}

// warn adds the warnings of the loops. They are events, and need the same right.
func (r *Run) warn(v view) {
	seen := map[string]bool{}
	for _, e := range r.warnings {
		kind := schema.FromAPIVersionAndKind(e.Object.APIVersion, e.Object.Kind)
		ref := hubstore.Ref{GroupVersionKind: kind, Namespace: e.Object.Namespace, Name: e.Object.Name}
		right := r.right(ref)
		if kind.Group == policyv1alpha1.GroupName {
			right = explain.PolicyRight(policy.Key{Namespace: ref.Namespace, Name: ref.Name})
		}
		text := fmt.Sprintf("%s %s: %s", ref.GroupVersionKind.Kind, strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/"), e.Message)
		if !seen[text] && v.allows(right, explain.Right{Resource: "events", Namespace: ref.Namespace}) {
			add(v.status, &v.status.Warnings, text)
		}
		seen[text] = true
	}
	for _, err := range r.problems {
		if v.allows(explain.AllClusters) {
			add(v.status, &v.status.Warnings, err.Error())
		}
	}
}
