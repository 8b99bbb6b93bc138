package attacks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// guarded are objects in members, with the uids that they must keep.
type guarded struct {
	member *fleettest.Cluster
	object client.Object
	uid    types.UID
}

func guard(t *testing.T, member *fleettest.Cluster, objects ...client.Object) []guarded {
	t.Helper()
	var all []guarded
	for _, object := range objects {
		seen := fleettest.ExpectEventually(t, member, object, fleettest.Exists)
		all = append(all, guarded{member, object, seen.GetUID()})
	}
	return all
}

func expectUntouched(t *testing.T, after string, all ...guarded) {
	t.Helper()
	for _, g := range all {
		live := g.object.DeepCopyObject().(client.Object)
		err := g.member.Get(t.Context(), client.ObjectKeyFromObject(g.object), live)
		switch {
		case err != nil:
			t.Errorf("after %s: %T %s in %s: %v", after, g.object, g.object.GetName(), g.member.Name, err)
		case live.GetUID() != g.uid:
			t.Errorf("after %s: %T %s in %s was deleted and made again", after, g.object, g.object.GetName(), g.member.Name)
		case live.GetDeletionTimestamp() != nil:
			t.Errorf("after %s: %T %s in %s is being deleted", after, g.object, g.object.GetName(), g.member.Name)
		}
	}
}

// reaches changes a template and waits until the member has the change: whatever was under way before has happened then.
func reaches(t *testing.T, fleet *fleettest.Fleet, cm *corev1.ConfigMap, value string, members ...*fleettest.Cluster) {
	t.Helper()
	fleettest.Update(t, fleet.Hub, cm, func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"k": value} })
	for _, member := range members {
		fleettest.ExpectEventually(t, member, cm, func(cm *corev1.ConfigMap) error {
			if cm.Data["k"] != value {
				return fmt.Errorf("its value is %q", cm.Data["k"])
			}
			return nil
		})
	}
}

// anew waits until an object is another one of the same name.
func anew[T client.Object](t *testing.T, c *fleettest.Cluster, before T) T {
	t.Helper()
	return fleettest.ExpectEventually(t, c, before, func(now T) error {
		if now.GetUID() == before.GetUID() {
			return errors.New("it is the one that was deleted")
		}
		if now.GetDeletionTimestamp() != nil {
			return errors.New("it is being deleted")
		}
		return nil
	})
}

func bindingOf(ns, kind, name string) *workv1alpha2.ResourceBinding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: workv1alpha2.BindingName(kind, name)}}
}

func workOf(cluster, kind, ns, name string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName(kind, ns, name),
	}}
}

// TestBindingsThatAPersonDeletesComeBack: `kubectl delete rb --all` removed every workload in every member.
func TestBindingsThatAPersonDeletesComeBack(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web, conf := fleettest.Deployment(ns, "web", 3), fleettest.ConfigMap(ns, "conf", map[string]string{"k": "1"})
	secret := fleettest.Secret(ns, "key", map[string]string{"k": "v"})
	web.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key"}}}}
	policy := fleettest.Policy(ns, "p", fleettest.Divided(fleettest.Weight{Cluster: "member1", Weight: 2}, fleettest.Weight{Cluster: "member2", Weight: 1}), web)
	policy.Spec.PropagateDeps = true
	fleettest.Create(t, fleet.Hub, secret, web, conf, policy, fleettest.Policy(ns, "everywhere", fleettest.Everywhere(), conf))
	var all []guarded
	for _, member := range fleet.Members {
		all = append(all, guard(t, member, web, conf, secret)...)
	}
	before := fleettest.ExpectEventually(t, fleet.Hub, bindingOf(ns, "Deployment", "web"), func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Spec.Clusters) != 2 {
			return fmt.Errorf("it goes to %v", b.Spec.Clusters)
		}
		return nil
	})
	attached := fleettest.ExpectEventually(t, fleet.Hub, bindingOf(ns, "Secret", "key"), fleettest.Exists)

	if err := fleet.Hub.DeleteAllOf(t.Context(), &workv1alpha2.ResourceBinding{}, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	anew(t, fleet.Hub, before)
	after := fleettest.ExpectEventually(t, fleet.Hub, before, func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Spec.Clusters) == 0 {
			return errors.New("it has not been scheduled")
		}
		return nil
	})
	if fmt.Sprint(after.Spec.Clusters) != fmt.Sprint(before.Spec.Clusters) {
		t.Errorf("the replicas moved from %v to %v", before.Spec.Clusters, after.Spec.Clusters)
	}
	anew(t, fleet.Hub, attached)
	reaches(t, fleet, conf, "2", fleet.Members...)
	expectUntouched(t, "kubectl delete rb --all", all...)

	// One that is deleted by force takes no finalizer along.
	fleettest.Update(t, fleet.Hub, after, func(b *workv1alpha2.ResourceBinding) { b.Finalizers = nil })
	fleettest.Delete(t, fleet.Hub, after)
	anew(t, fleet.Hub, after)
	reaches(t, fleet, conf, "3", fleet.Members...)
	expectUntouched(t, "a binding lost its finalizer", all...)

	// Who wants the copies gone still gets that.
	fleettest.Delete(t, fleet.Hub, conf)
	for _, member := range fleet.Members {
		fleettest.ExpectGone(t, member, conf)
	}
	expectUntouched(t, "the deletion of another template", all[0])
}

// TestABindingWithoutPolicyCanBeDeleted: that is how copies are removed after their policy.
func TestABindingWithoutPolicyCanBeDeleted(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	conf := fleettest.ConfigMap(ns, "conf", nil)
	policy := fleettest.Policy(ns, "p", fleettest.Everywhere(), conf)
	fleettest.Create(t, fleet.Hub, conf, policy)
	guard(t, fleet.Members[0], conf)
	fleettest.Delete(t, fleet.Hub, policy)
	fleettest.ExpectGone(t, fleet.Hub, policy)
	fleettest.Delete(t, fleet.Hub, bindingOf(ns, "ConfigMap", "conf"))
	for _, member := range fleet.Members {
		fleettest.ExpectGone(t, member, conf)
	}
}

// TestWorksThatAPersonDeletesComeBack: `kubectl delete works --all` removed every object, and namespaces with all they held.
func TestWorksThatAPersonDeletesComeBack(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web, conf := fleettest.Deployment(ns, "web", 1), fleettest.ConfigMap(ns, "conf", map[string]string{"k": "1"})
	fleettest.Create(t, fleet.Hub, web, conf, fleettest.Policy(ns, "p", fleettest.Everywhere(), web, conf))
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	all := guard(t, fleet.Members[0], web, conf, space)
	local := fleettest.ConfigMap(ns, "local", nil)
	fleettest.Create(t, fleet.Members[0], local)
	all = append(all, guard(t, fleet.Members[0], local)...)
	works := []*workv1alpha1.Work{
		workOf("member1", "Deployment", ns, "web"), workOf("member1", "ConfigMap", ns, "conf"), workOf("member1", "Namespace", "", ns),
	}
	for i := range works {
		works[i] = fleettest.ExpectEventually(t, fleet.Hub, works[i], fleettest.Exists)
	}
	byHand := workOf("member1", "ConfigMap", "default", "by-hand-"+ns)
	byHand.Spec.Workload.Manifests = []workv1alpha1.Manifest{{}}
	byHand.Spec.Workload.Manifests[0].Raw = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"by-hand-%s"}}`, ns)
	fleettest.Create(t, fleet.Hub, byHand)
	made := fleettest.ConfigMap("default", "by-hand-"+ns, nil)
	guard(t, fleet.Members[0], made)

	for _, work := range append(works, byHand) { // not --all: other tests have Works there
		fleettest.Delete(t, fleet.Hub, work)
	}
	for _, work := range works {
		anew(t, fleet.Hub, work)
	}
	reaches(t, fleet, conf, "2", fleet.Members[0])
	expectUntouched(t, "kubectl delete works --all", all...)
	fleettest.ExpectGone(t, fleet.Members[0], made) // a Work that a person made is that person's to delete

	// Works and bindings at once.
	for i := range works {
		works[i] = fleettest.ExpectEventually(t, fleet.Hub, works[i], fleettest.Exists)
	}
	if err := fleet.Hub.DeleteAllOf(t.Context(), &workv1alpha2.ResourceBinding{}, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, work := range works {
		fleettest.Delete(t, fleet.Hub, work)
	}
	for _, work := range works {
		anew(t, fleet.Hub, work)
	}
	reaches(t, fleet, conf, "3", fleet.Members[0])
	expectUntouched(t, "kubectl delete rb,works --all", all...)
}

// TestNamespacesOfClustersStay: deleting an execution namespace emptied a member for minutes.
func TestNamespacesOfClustersStay(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	for _, name := range []string{workv1alpha1.ExecutionNamespace("member1"), "karmada-cluster", "karmada-system"} {
		err := fleet.Hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if !apierrors.IsForbidden(err) {
			t.Fatalf("deleting namespace %s: %v, want that it is forbidden", name, err)
		}
		if strings.HasPrefix(name, "karmada-es-") && !strings.Contains(err.Error(), "flagship unjoin member1") {
			t.Errorf("the refusal does not say what to do: %v", err)
		}
	}
	// One that no cluster has may go.
	left := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workv1alpha1.ExecutionNamespace("unregistered")}}
	if err := fleet.Hub.Create(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	fleettest.Delete(t, fleet.Hub, left)
	fleettest.ExpectGone(t, fleet.Hub, left)
}

// TestDeletionsBeforeARestart: the control plane is killed right after a user deleted bindings and Works. It takes 45 s beside other tests, for the starts of a control plane and a member.
func TestDeletionsBeforeARestart(t *testing.T) {
	t.Parallel()
	hub, member := fleettest.StartHub(t), fleettest.StartMember(t, "m1")
	hub.Join(t, "m1", member.Kubeconfig)
	const ns = "shop"
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	a, b := fleettest.ConfigMap(ns, "a", nil), fleettest.ConfigMap(ns, "b", nil)
	fleettest.Create(t, hub.Cluster, a, b, fleettest.Policy(ns, "p", policyv1alpha1.Placement{}, a, b))
	all := guard(t, member.Cluster, a, b)
	bindings := []*workv1alpha2.ResourceBinding{bindingOf(ns, "ConfigMap", "a"), bindingOf(ns, "ConfigMap", "b")}
	for i := range bindings {
		bindings[i] = fleettest.ExpectEventually(t, hub.Cluster, bindings[i], fleettest.Exists)
	}
	work := fleettest.ExpectEventually(t, hub.Cluster, workOf("m1", "ConfigMap", ns, "b"), fleettest.Exists)
	fleettest.Delete(t, hub.Cluster, bindings[0], work)
	hub.Kill()
	hub.Start(t)
	anew(t, hub.Cluster, bindings[0])
	anew(t, hub.Cluster, work)
	fleettest.Update(t, hub.Cluster, a, func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"k": "v"} })
	fleettest.ExpectEventually(t, member.Cluster, a, func(cm *corev1.ConfigMap) error {
		if cm.Data["k"] != "v" {
			return errors.New("the change is not there yet")
		}
		return nil
	})
	expectUntouched(t, "a restart amid deletions", all...)
}
