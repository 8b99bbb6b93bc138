package pipeline_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// A member that hangs must not hold up the others, and gets its share when it is back.
func TestAHangingMemberDelaysNoOtherMember(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	first := fleettest.ConfigMap(ns, "first", map[string]string{"a": "1"})
	second := fleettest.ConfigMap(ns, "second", map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, first, fleettest.Policy(ns, "all", fleettest.Everywhere(), first, second))
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, first, fleettest.Exists)
	}
	fleet.PauseMember(t, "member2")
	fleettest.Create(t, fleet.Hub, second)
	fleettest.ExpectEventually(t, fleet.Member("member1"), second, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "second"), workIs("Applied", metav1.ConditionTrue, ""))
	fleet.ResumeMember(t, "member2")
	fleettest.ExpectEventually(t, fleet.Member("member2"), second, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, work("member2", "ConfigMap", ns, "second"), workIs("Applied", metav1.ConditionTrue, ""))
	expectBack(t, fleet, "member2")
}

// A control plane that is killed while Deployments are in flight carries all of them, each once, when it is back; and one
// that finds everything in place writes nothing. It takes 100 s beside other tests, for the starts of a control plane with its members.
func TestKillLosesNothingAndARestartWritesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a fleet of its own")
	}
	const many = 200
	fleet := fleettest.Start(t, fleettest.Options{Members: 2, Bare: true})
	ns := fleet.Namespace(t)
	deployments := make([]*appsv1.Deployment, many)
	for i := range deployments {
		deployments[i] = fleettest.Deployment(ns, fmt.Sprintf("app-%03d", i), 1)
		fleettest.Create(t, fleet.Hub, deployments[i])
	}
	// One policy for all: they take off together, and most are somewhere between template and member when the hub dies.
	policy := fleettest.Policy(ns, "all", fleettest.Everywhere(), fleettest.Deployment(ns, "", 1))
	fleettest.Create(t, fleet.Hub, policy)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", deployments[many/10].Name), fleettest.Exists)
	fleet.Kill(t)
	fleet.Restart(t)
	created := map[string]string{}
	for _, m := range fleet.Members {
		for _, d := range deployments {
			created[m.Name+key(d)] = string(fleettest.ExpectEventually(t, m, d, fleettest.Exists).UID)
			fleettest.ExpectEventually(t, fleet.Hub, work(m.Name, "Deployment", ns, d.Name), workIs("Applied", metav1.ConditionTrue, ""))
		}
	}
	for _, d := range deployments {
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", d.Name), bindingIs("FullyApplied", metav1.ConditionTrue, ""))
	}

	if !fleettest.InPullMode() { // agents keep their credentials themselves
		for _, m := range fleet.Members {
			fleettest.ExpectEventually(t, fleet.Hub, fleettest.Secret(clusterv1alpha1.ClusterNamespace, m.Name, nil), fleettest.HasRenewalToken)
		}
	}
	probe(t, fleet, ns, "before")
	before := written(t, fleet.Hub, ns)
	if len(before) != 3*many {
		t.Fatalf("there are %d bindings and Works of %d Deployments in two clusters", len(before), many)
	}
	fleet.Stop(t)
	fleet.Restart(t)
	probe(t, fleet, ns, "after")
	for _, m := range fleet.Members {
		if requests := fleettest.CountRequests(t, m).Of("deployments").Writes(); requests.Total() > 0 {
			t.Errorf("a restart with nothing to do wrote to %s: %s", m.Name, requests)
		}
		for _, d := range deployments {
			if uid := string(fleettest.ExpectEventually(t, m, d, fleettest.Exists).UID); uid != created[m.Name+key(d)] {
				t.Errorf("%s in %s was made twice", key(d), m.Name)
			}
		}
	}
	if requests := fleettest.CountRequests(t, fleet.Hub).Of("secrets").Writes(); requests.Total() > 0 {
		t.Errorf("a restart with nothing to do wrote Secrets: %s", requests)
	}
	after := written(t, fleet.Hub, ns)
	for key, was := range before {
		if diff := cmp.Diff(was, after[key]); diff != "" {
			t.Errorf("a restart with nothing to do wrote %s:\n%s", key, diff)
		}
	}
}

// probe creates an object that arrives and whose status returns: every loop has been through its queue by then, in which all others were
// first.
func probe(t *testing.T, fleet *fleettest.Fleet, ns, name string) {
	t.Helper()
	object := fleettest.ConfigMap(ns, name, map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, object, fleettest.Policy(ns, name, fleettest.Everywhere(), object))
	expectSettled(t, fleet, ns, name, "member1", "member2")
}

// written are all bindings and Works for the Deployments of a namespace, as a restart must leave them. It may coincide with the end of the
// minute after which a Deployment that nothing runs makes its Work Degraded, which is written then.
func written(t *testing.T, hub *fleettest.Cluster, ns string) map[string]client.Object {
	t.Helper()
	var bindings workv1alpha2.ResourceBindingList
	var works workv1alpha1.WorkList
	if err := errors.Join(hub.List(t.Context(), &bindings, client.InNamespace(ns)), hub.List(t.Context(), &works)); err != nil {
		t.Fatal(err)
	}
	found := map[string]client.Object{}
	for i := range bindings.Items {
		if b := &bindings.Items[i]; b.Spec.Resource.Kind == "Deployment" {
			b.ResourceVersion, b.ManagedFields = "", nil
			found["binding "+key(b)] = b
		}
	}
	for i := range works.Items {
		if w := &works.Items[i]; strings.HasSuffix(w.Annotations[workv1alpha2.ResourceBindingNameAnnotation], "-deployment") {
			w.ResourceVersion, w.ManagedFields = "", nil
			meta.RemoveStatusCondition(&w.Status.Conditions, workv1alpha1.WorkDegraded)
			found["Work "+key(w)] = w
		}
	}
	return found
}
