package attacks_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// braked is a control plane of its own with one member, whose brake engages from forty objects on, and a namespace with
// many objects under one policy and a few under another.
type braked struct {
	hub, member *fleettest.Part
	ns          string
	policy      *policyv1alpha1.PropagationPolicy
}

const (
	manyObjects = 60
	fewObjects  = 10
)

func newBraked(t *testing.T) *braked {
	t.Helper()
	b := &braked{ns: "shop"}
	b.hub = fleettest.StartHub(t, "--brake-minimum", "40")
	b.member = fleettest.StartMember(t, "east", "--bare")
	if fleettest.InPullMode() {
		b.hub.StartAgent(t, "east", b.member.Kubeconfig, "--brake-minimum", "40")
	} else {
		b.hub.Join(t, "east", b.member.Kubeconfig)
	}
	b.label(t, map[string]string{"tier": "production"})
	b.create(t, nil)
	return b
}

// create makes the namespace, the policies and all objects, with the data given.
func (b *braked) create(t *testing.T, data map[string]string) {
	t.Helper()
	fleettest.Create(t, b.hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.ns}})
	var many, few []client.Object
	for i := range manyObjects {
		many = append(many, fleettest.ConfigMap(b.ns, fmt.Sprintf("many-%d", i), data))
	}
	for i := range fewObjects {
		few = append(few, fleettest.Deployment(b.ns, fmt.Sprintf("few-%d", i), 3))
	}
	production := policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "production"}},
	}}
	b.policy = fleettest.Policy(b.ns, "many", production, many...)
	fleettest.Create(t, b.hub.Cluster, b.policy, fleettest.Policy(b.ns, "few", fleettest.To("east"), few...))
	fleettest.Create(t, b.hub.Cluster, many...)
	fleettest.Create(t, b.hub.Cluster, few...)
	b.expectObjects(t, manyObjects)
	for i := range fewObjects {
		fleettest.ExpectEventually(t, b.member.Cluster, fleettest.Deployment(b.ns, fmt.Sprintf("few-%d", i), 3), fleettest.Exists)
	}
}

// uids are those of the many objects that the member has.
func (b *braked) uids(t *testing.T) map[string]types.UID {
	t.Helper()
	var l corev1.ConfigMapList
	if err := b.member.List(t.Context(), &l, client.InNamespace(b.ns)); err != nil {
		t.Fatal(err)
	}
	found := map[string]types.UID{}
	for _, cm := range l.Items {
		if strings.HasPrefix(cm.Name, "many-") && cm.DeletionTimestamp == nil {
			found[cm.Name] = cm.UID
		}
	}
	return found
}

// expectKept waits until the member has all objects with a value, and checks that none of those that it had was made anew.
func (b *braked) expectKept(t *testing.T, before map[string]types.UID, key, value string) {
	t.Helper()
	fleettest.ExpectListed(t, b.member.Cluster, &corev1.ConfigMapList{}, b.ns, func(l *corev1.ConfigMapList) error {
		n := 0
		for _, cm := range l.Items {
			if old := before[cm.Name]; old != "" && old != cm.UID {
				t.Fatalf("%s was deleted and made anew", cm.Name)
			}
			if strings.HasPrefix(cm.Name, "many-") && cm.Data[key] == value {
				n++
			}
		}
		if n != manyObjects {
			return fmt.Errorf("%d of %d are what their templates say", n, manyObjects)
		}
		return nil
	})
	b.expectEngaged(t, metav1.ConditionFalse) // nothing waits any more
}

// label replaces the labels of the cluster, by which the policy of the many objects selects it.
func (b *braked) label(t *testing.T, labels map[string]string) {
	t.Helper()
	fleettest.Update(t, b.hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}, func(c *clusterv1alpha1.Cluster) { c.Labels = labels })
}

// count is how many of the many objects the member has.
func (b *braked) count(l *corev1.ConfigMapList) int {
	n := 0
	for i := range l.Items {
		if strings.HasPrefix(l.Items[i].Name, "many-") && l.Items[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func (b *braked) expectObjects(t *testing.T, want int) {
	t.Helper()
	fleettest.ExpectListed(t, b.member.Cluster, &corev1.ConfigMapList{}, b.ns, func(l *corev1.ConfigMapList) error {
		if n := b.count(l); n != want {
			return fmt.Errorf("the member has %d objects, want %d", n, want)
		}
		return nil
	})
}

func (b *braked) expectEngaged(t *testing.T, want metav1.ConditionStatus) {
	t.Helper()
	fleettest.ExpectEventually(t, b.hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}, func(c *clusterv1alpha1.Cluster) error {
		found := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionBrakeEngaged)
		if found == nil || found.Status != want {
			return fmt.Errorf("the condition is %+v, want %s", found, want)
		}
		return nil
	})
}

// expectMostKept checks that no more than about half of the objects have been removed, after something else was carried to
// the member meanwhile: creations do not wait.
func (b *braked) expectMostKept(t *testing.T, proof string) {
	t.Helper()
	cm := fleettest.ConfigMap(b.ns, proof, nil)
	fleettest.Create(t, b.hub.Cluster, cm, fleettest.Policy(b.ns, proof, fleettest.To("east"), cm))
	fleettest.ExpectEventually(t, b.member.Cluster, fleettest.ConfigMap(b.ns, proof, nil), fleettest.Exists)
	var l corev1.ConfigMapList
	if err := b.member.List(t.Context(), &l, client.InNamespace(b.ns)); err != nil {
		t.Fatal(err)
	}
	// The member has some more than the ones counted here, so half of all is a few more than half of these.
	if n := b.count(&l); n < manyObjects/3 {
		t.Fatalf("%d of %d objects are left in the member", n, manyObjects)
	}
}

// waiting is how many Works say that they wait for the brake.
func (b *braked) waiting(t *testing.T) int {
	t.Helper()
	var works workv1alpha1.WorkList
	if err := b.hub.List(t.Context(), &works, client.InNamespace(workv1alpha1.ExecutionNamespace("east"))); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range works.Items {
		c := meta.FindStatusCondition(works.Items[i].Status.Conditions, workv1alpha1.WorkApplied)
		if c != nil && c.Reason == workv1alpha1.AppliedBrakedReason {
			n++
		}
	}
	return n
}

// TestMassDeletionWaits deletes most of what a member has, by deleting the templates. The rest waits, a restart changes
// nothing, other objects arrive, and a person lets the objects stay or go. It takes 40 s beside other tests, for the starts of a control plane.
func TestMassDeletionWaits(t *testing.T) {
	t.Parallel()
	b := newBraked(t)
	var warnings recordedWarnings
	config := rest.CopyConfig(b.hub.Config)
	config.WarningHandlerWithContext = &warnings
	warned, err := client.New(config, client.Options{Scheme: b.hub.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := warned.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(b.ns)); err != nil {
		t.Fatal(err)
	}
	if got := warnings.take(); len(got) != 1 || !strings.Contains(got[0], "flagship release-brake east") {
		t.Errorf("who deletes is warned %q", got)
	}
	b.expectEngaged(t, metav1.ConditionTrue)
	b.expectMostKept(t, "during")
	fleettest.ExpectListed(t, b.hub.Cluster, &workv1alpha1.WorkList{}, workv1alpha1.ExecutionNamespace("east"), func(*workv1alpha1.WorkList) error {
		if n := b.waiting(t); n == 0 {
			return fmt.Errorf("no Work says that it waits")
		}
		return nil
	})
	fleettest.ExpectListed(t, b.hub.Cluster, &corev1.EventList{}, metav1.NamespaceDefault, func(l *corev1.EventList) error {
		for _, e := range l.Items {
			if e.Reason == "BrakeEngaged" && e.InvolvedObject.Name == "east" {
				return nil
			}
		}
		return fmt.Errorf("no event reports it")
	})

	// A tenant with all rights in his namespace cannot release it.
	tenant := b.hub.Tenant(t, b.ns, "*")
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"flagship.io/brake-released-until":"2126-01-01T00:00:00Z"}}}`))
	if err := tenant.Patch(t.Context(), cluster.DeepCopy(), patch); err == nil {
		t.Error("a tenant may annotate a Cluster")
	}

	b.hub.Kill()
	b.hub.Start(t)
	b.expectMostKept(t, "restarted")
	b.expectEngaged(t, metav1.ConditionTrue)

	// Who makes the templates again has what is left of the copies, as they are: also after the whole namespace was deleted.
	left := b.uids(t)
	for i := range manyObjects {
		fleettest.Create(t, b.hub.Cluster, fleettest.ConfigMap(b.ns, fmt.Sprintf("many-%d", i), map[string]string{"made": "again"}))
	}
	b.expectKept(t, left, "made", "again")
	namespace := fleettest.ExpectEventually(t, b.member.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.ns}}, fleettest.Exists)
	fleettest.Delete(t, b.hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.ns}})
	b.expectEngaged(t, metav1.ConditionTrue)
	fleettest.ExpectGone(t, b.hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.ns}})
	left = b.uids(t)
	if len(left) < manyObjects/3 {
		t.Fatalf("%d of %d objects are left in the member", len(left), manyObjects)
	}
	b.create(t, map[string]string{"made": "twice"})
	for _, proof := range []string{"during", "restarted"} {
		cm := fleettest.ConfigMap(b.ns, proof, nil)
		fleettest.Create(t, b.hub.Cluster, cm, fleettest.Policy(b.ns, proof, fleettest.To("east"), cm))
	}
	b.expectKept(t, left, "made", "twice")
	fleettest.ExpectEventually(t, b.member.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.ns}}, func(ns *corev1.Namespace) error {
		if ns.UID != namespace.UID || ns.DeletionTimestamp != nil {
			t.Fatal("the namespace was deleted in the member")
		}
		return nil
	})
	if err := b.hub.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(b.ns)); err != nil {
		t.Fatal(err)
	}
	b.expectEngaged(t, metav1.ConditionTrue)

	// What waits stays, and belongs to the same templates again when they are made again.
	var before corev1.ConfigMapList
	if err := b.member.List(t.Context(), &before, client.InNamespace(b.ns)); err != nil {
		t.Fatal(err)
	}
	kept := b.count(&before)
	if r := fleettest.Flagship(t, "release-brake", "east", "--keep-objects", "--kubeconfig", b.hub.Kubeconfig); r.Code != 0 {
		t.Fatalf("releasing: %s%s", r.Stdout, r.Stderr)
	}
	fleettest.ExpectListed(t, b.hub.Cluster, &workv1alpha1.WorkList{}, workv1alpha1.ExecutionNamespace("east"), func(l *workv1alpha1.WorkList) error {
		for i := range l.Items {
			if l.Items[i].DeletionTimestamp != nil {
				return fmt.Errorf("the Work %s is still being deleted", l.Items[i].Name)
			}
		}
		return nil
	})
	b.expectObjects(t, kept)
	var uid = map[string]string{}
	for _, cm := range before.Items {
		uid[cm.Name] = string(cm.UID)
	}
	for i := range manyObjects {
		fleettest.Create(t, b.hub.Cluster, fleettest.ConfigMap(b.ns, fmt.Sprintf("many-%d", i), map[string]string{"again": "1"}))
	}
	fleettest.ExpectListed(t, b.member.Cluster, &corev1.ConfigMapList{}, b.ns, func(l *corev1.ConfigMapList) error {
		again := 0
		for _, cm := range l.Items {
			if cm.Data["again"] == "" {
				continue
			}
			again++
			if old := uid[cm.Name]; old != "" && old != string(cm.UID) {
				t.Fatalf("%s was deleted and made anew", cm.Name)
			}
		}
		if again != manyObjects {
			return fmt.Errorf("%d of %d are what their templates say", again, manyObjects)
		}
		return nil
	})

	// And with a word everything goes.
	if r := fleettest.Flagship(t, "release-brake", "east", "--kubeconfig", b.hub.Kubeconfig); r.Code != 0 {
		t.Fatalf("releasing: %s%s", r.Stdout, r.Stderr)
	}
	b.expectEngaged(t, metav1.ConditionFalse)
	fleettest.Delete(t, b.hub.Cluster, b.policy)
	if err := b.hub.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(b.ns)); err != nil {
		t.Fatal(err)
	}
	b.expectObjects(t, 0)
}

// TestMassShrinkageWaits removes too much, first by taking the label from the last cluster that a policy selects. It scales a Deployment
// down meanwhile, and releases everything at once.
func TestMassShrinkageWaits(t *testing.T) {
	t.Parallel()
	b := newBraked(t)
	// All of it is the cause of one change, so that nothing is removed before the brake has counted it, and nothing when the change is undone.
	before := b.uids(t)
	b.label(t, nil)
	b.expectEngaged(t, metav1.ConditionTrue)
	b.expectMostKept(t, "unlabelled")
	b.expectObjects(t, manyObjects)
	fleettest.ExpectListed(t, b.hub.Cluster, &corev1.EventList{}, b.ns, func(l *corev1.EventList) error {
		for _, e := range l.Items {
			if e.Reason == "RemovalWaits" && e.InvolvedObject.Name == "many-0" {
				return nil
			}
		}
		return fmt.Errorf("no event of the template says that it waits")
	})
	b.label(t, map[string]string{"tier": "production"})
	b.expectKept(t, before, "", "")
	b.label(t, nil)
	b.expectEngaged(t, metav1.ConditionTrue)
	b.expectObjects(t, manyObjects)
	fleettest.Delete(t, b.hub.Cluster, b.policy)
	if err := b.hub.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(b.ns)); err != nil {
		t.Fatal(err)
	}
	b.expectEngaged(t, metav1.ConditionTrue)
	// Shrinkages wait, too, while the brake is engaged.
	d := fleettest.Deployment(b.ns, "few-0", 3)
	scale := func(replicas int32) {
		t.Helper()
		fleettest.Update(t, b.hub.Cluster, d, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
	}
	scale(1)
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace("east"), Name: workv1alpha1.WorkName("Deployment", b.ns, "few-0")}}
	expectApplied := func(reason string) {
		t.Helper()
		fleettest.ExpectEventually(t, b.hub.Cluster, work, func(w *workv1alpha1.Work) error {
			c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied)
			if c == nil || c.Reason != reason {
				return fmt.Errorf("condition is %+v", c)
			}
			return nil
		})
	}
	expectApplied(workv1alpha1.AppliedBrakedReason)
	scale(3)
	expectApplied(workv1alpha1.AppliedSuccessfulReason)
	scale(1)
	expectApplied(workv1alpha1.AppliedBrakedReason)
	fleettest.ExpectEventually(t, b.member.Cluster, d, fleettest.Replicas(3))
	if r := fleettest.Flagship(t, "release-brake", "--all", "--kubeconfig", b.hub.Kubeconfig); r.Code != 0 || !strings.Contains(r.Stdout, "east") {
		t.Fatalf("releasing: %s%s", r.Stdout, r.Stderr)
	}
	fleettest.ExpectEventually(t, b.member.Cluster, d, fleettest.Replicas(1))
	b.expectObjects(t, 0)
}
