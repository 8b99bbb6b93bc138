// Package faults_test makes parts fail, real processes of which every one can be killed alone, and then checks the
// same questions: do the members have what their Works contain, is anything of ours left over, was anything touched that is not
// ours, and are the conditions true?
package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// patience is how long everything may take to be as it should be after a fault: the longest pause between two tries is a
// minute, and several in a row may fail while a part starts.
const patience = 5 * time.Minute

// atOnce is how many tests run at the same time, of those that share nothing or one control plane that none of them ends. They wait for
// times of their parts most of the time, and not for a processor.
const atOnce = 4

// TestMain sets how many tests run at the same time; the flag -parallel wins.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func namespace(t *testing.T, c *fleettest.Cluster, name string) string {
	t.Helper()
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	return name
}

// eventually calls check until it returns nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("never checked")
	err := wait.PollUntilContextTimeout(t.Context(), 250*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
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

// bystanders are objects in a member that the control plane does not manage.
type bystanders struct {
	member *fleettest.Cluster
	before map[types.NamespacedName]string
}

// bystanding is the namespace of foreign objects in members.
const bystanding = "bystanders"

// standBy puts foreign objects into a member: one that has nothing to do with us, one with our label, and one that
// a user made from a copy of an object of ours, with all its marks.
func standBy(t *testing.T, member *fleettest.Cluster, cluster string) bystanders {
	t.Helper()
	if err := member.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bystanding}}); err != nil {
		t.Fatal(err)
	}
	b := bystanders{member: member, before: map[types.NamespacedName]string{}}
	for _, name := range []string{"theirs", "labelled", "copied"} {
		c := fleettest.ConfigMap(bystanding, name, map[string]string{"whose": "theirs"})
		if name != "theirs" {
			c.Labels = map[string]string{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue}
		}
		if name == "copied" {
			c.Annotations = map[string]string{
				workv1alpha1.WorkNamespaceAnnotation: workv1alpha1.ExecutionNamespace(cluster), workv1alpha1.WorkNameAnnotation: "by-hand-0",
			}
		}
		if err := member.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		b.before[client.ObjectKeyFromObject(c)] = c.ResourceVersion
	}
	return b
}

func (b bystanders) untouched(ctx context.Context) error {
	for key, version := range b.before {
		c := &corev1.ConfigMap{}
		if err := b.member.Get(ctx, key, c); err != nil {
			return err
		}
		if c.ResourceVersion != version {
			return fmt.Errorf("%s is not ours and was changed", key)
		}
	}
	return nil
}

// expectCarried waits until every ConfigMap of a namespace has one binding, whose condition is that it is applied, and one Work
// with its content, and there are no others.
func expectCarried(t *testing.T, hub *fleettest.Cluster, cluster, ns string) {
	t.Helper()
	eventually(t, "every template has one binding and one Work that is up to date, and nothing else has", func(ctx context.Context) error {
		return carried(ctx, hub, cluster, ns)
	})
}

// carried returns what is wrong, if anything, with the bindings of a namespace and their Works in one cluster.
func carried(ctx context.Context, hub *fleettest.Cluster, cluster, ns string) error {
	var maps corev1.ConfigMapList
	var bindings workv1alpha2.ResourceBindingList
	var all workv1alpha1.WorkList
	for _, list := range []client.ObjectList{&maps, &bindings} {
		if err := hub.List(ctx, list, client.InNamespace(ns)); err != nil {
			return err
		}
	}
	if err := hub.List(ctx, &all, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster))); err != nil {
		return err
	}
	ours, content := 0, map[string]map[string]string{}
	for i := range all.Items {
		w := &all.Items[i]
		if w.Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation] != ns || w.Spec.Workload.Manifests[0].GroupVersionKind().Kind != "ConfigMap" {
			continue
		}
		ours++
		var c corev1.ConfigMap
		if err := json.Unmarshal(w.Spec.Workload.Manifests[0].Raw, &c); err != nil {
			return err
		}
		content[c.Name] = c.Data
	}
	// Each namespace has the authority of its own API server, which is no template.
	maps.Items = slices.DeleteFunc(maps.Items, func(c corev1.ConfigMap) bool { return c.Name == "kube-root-ca.crt" })
	for i := range maps.Items {
		if name, data := maps.Items[i].Name, maps.Items[i].Data; !reflect.DeepEqual(data, content[name]) {
			return fmt.Errorf("template %s holds %v, and what is carried of it is %v", name, data, content[name])
		}
	}
	bindings.Items = slices.DeleteFunc(bindings.Items, func(b workv1alpha2.ResourceBinding) bool { return b.Spec.Resource.Kind != "ConfigMap" })
	if len(bindings.Items) != len(maps.Items) || ours != len(maps.Items) {
		return fmt.Errorf("%d templates have %d bindings and %d Works", len(maps.Items), len(bindings.Items), ours)
	}
	for i := range bindings.Items {
		if err := fleettest.ConditionTrue(bindings.Items[i].Status.Conditions, workv1alpha2.FullyApplied); err != nil {
			return fmt.Errorf("%s: %w", bindings.Items[i].Name, err)
		}
	}
	return nil
}

// expectConverged waits until the ConfigMaps of a member are exactly what its Works contain, with the conditions for it.
func expectConverged(t *testing.T, hub, member *fleettest.Cluster, cluster string, foreign bystanders) {
	t.Helper()
	eventually(t, cluster+" has what its Works contain", func(ctx context.Context) error {
		wanted, err := wantedOf(ctx, hub, cluster)
		if err != nil {
			return err
		}
		return sameAs(ctx, member, wanted)
	})
	if err := foreign.untouched(t.Context()); err != nil {
		t.Error(err)
	}
}

// wantedOf reads what the Works of a cluster contain, if all of them are applied.
func wantedOf(ctx context.Context, hub *fleettest.Cluster, cluster string) (map[types.NamespacedName]corev1.ConfigMap, error) {
	works := &workv1alpha1.WorkList{}
	if err := hub.List(ctx, works, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster))); err != nil {
		return nil, err
	}
	wanted := map[types.NamespacedName]corev1.ConfigMap{}
	for i := range works.Items {
		w := &works.Items[i]
		if workv1alpha1.IsRecord(w) {
			continue // what an agent reports has nothing for the member
		}
		if err := finished(w); err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		for _, m := range w.Spec.Workload.Manifests {
			if m.GroupVersionKind().Kind != "ConfigMap" {
				continue
			}
			var c corev1.ConfigMap
			if err := json.Unmarshal(m.Raw, &c); err != nil {
				return nil, err
			}
			c.Annotations = map[string]string{workv1alpha1.WorkNameAnnotation: w.Name}
			wanted[client.ObjectKeyFromObject(&c)] = c
		}
	}
	return wanted, nil
}

func finished(w *workv1alpha1.Work) error {
	if w.DeletionTimestamp != nil {
		return errors.New("it is still being deleted")
	}
	for _, kind := range []string{workv1alpha1.WorkApplied, workv1alpha1.WorkAvailable} {
		if err := is(w, kind, metav1.ConditionTrue); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(w.Status.Conditions, kind); c.ObservedGeneration != w.Generation {
			return fmt.Errorf("%s is about generation %d of %d", kind, c.ObservedGeneration, w.Generation)
		}
	}
	if len(w.Status.ManifestStatuses) != len(w.Spec.Workload.Manifests) {
		return fmt.Errorf("%d manifests have %d statuses", len(w.Spec.Workload.Manifests), len(w.Status.ManifestStatuses))
	}
	for _, s := range w.Status.ManifestStatuses {
		if s.Health == workv1alpha1.ResourceUnknown {
			return fmt.Errorf("the health of %s %s is unknown", s.Identifier.Kind, s.Identifier.Name)
		}
	}
	return nil
}

func is(w *workv1alpha1.Work, kind string, status metav1.ConditionStatus) error {
	c := meta.FindStatusCondition(w.Status.Conditions, kind)
	switch {
	case c == nil:
		return fmt.Errorf("it has no condition %s", kind)
	case c.Status != status:
		return fmt.Errorf("%s is %s (%s): %s", kind, c.Status, c.Reason, c.Message)
	}
	return nil
}

// sameAs compares what is ours in a member, which names one of our Works, with what was ordered.
func sameAs(ctx context.Context, member *fleettest.Cluster, wanted map[types.NamespacedName]corev1.ConfigMap) error {
	present := &corev1.ConfigMapList{}
	if err := member.List(ctx, present, client.MatchingLabels{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue}); err != nil {
		return err
	}
	found := map[types.NamespacedName]bool{}
	for i := range present.Items {
		c := &present.Items[i]
		work := c.Annotations[workv1alpha1.WorkNameAnnotation]
		if work == "" || c.Namespace == bystanding {
			continue
		}
		key := client.ObjectKeyFromObject(c)
		want, ok := wanted[key]
		if !ok {
			return fmt.Errorf("%s is left over", key)
		}
		if !reflect.DeepEqual(want.Data, c.Data) || want.Annotations[workv1alpha1.WorkNameAnnotation] != work {
			return fmt.Errorf("%s has %.100v of Work %s, want %.100v", key, c.Data, work, want.Data)
		}
		found[key] = true
	}
	for key := range wanted {
		if !found[key] {
			return fmt.Errorf("%s is missing", key)
		}
	}
	return nil
}

// byHand is a Work of ConfigMaps with the data.
func byHand(cluster, namespace, name string, manifests int, data map[string]string) *workv1alpha1.Work {
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: name}}
	order(w, namespace, manifests, data)
	return w
}

// order gives a Work its manifests.
func order(w *workv1alpha1.Work, namespace string, manifests int, data map[string]string) {
	w.Spec.Workload.Manifests = nil
	for i := range manifests {
		c := fleettest.ConfigMap(namespace, fmt.Sprintf("%s-%d", w.Name, i), data)
		c.APIVersion, c.Kind = "v1", "ConfigMap"
		raw, err := json.Marshal(c)
		if err != nil {
			panic(err) // a ConfigMap
		}
		m := workv1alpha1.Manifest{}
		m.Raw = raw
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, m)
	}
}

func rendered(cluster, kind, namespace, name string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName(kind, namespace, name),
	}}
}
