package scheduling

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/bench"
	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func scheduled(uid string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
	b.Status.Conditions = []metav1.Condition{{Type: workv1alpha2.Scheduled, Status: metav1.ConditionTrue}}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1"}}
	return b
}

// TestATallyCountsEachObjectOnce: a result that comes twice must not end the measurement early.
func TestATallyCountsEachObjectOnce(t *testing.T) {
	done := newTally(2, isScheduled)
	pending := scheduled("c")
	pending.Status.Conditions[0].Status = metav1.ConditionFalse
	nowhere := scheduled("d")
	nowhere.Spec.Clusters = nil
	done.OnAdd(scheduled("a"), true)
	done.OnUpdate(nil, scheduled("a"))
	for _, other := range []any{pending, nowhere, &workv1alpha2.ResourceBindingList{}, "text"} {
		done.OnAdd(other, false)
	}
	ended, end := context.WithCancelCause(t.Context())
	late := errors.New("not done within 1m")
	end(late)
	if err := done.wait(ended, "bindings"); !errors.Is(err, late) || !strings.Contains(err.Error(), "waiting for bindings, 1 still to come") {
		t.Errorf("with one of two: %v, want what is missing and why it ends", err)
	}
	done.OnUpdate(nil, scheduled("b"))
	done.OnUpdate(nil, scheduled("e")) // more than wanted
	if err := done.wait(t.Context(), "bindings"); err != nil {
		t.Errorf("with both: %v", err)
	}
}

// TestPaperClusters: a fleet that is all alike, or that nothing fits in, would measure another scheduler than that of users.
func TestPaperClusters(t *testing.T) {
	names, regions, zones, tainted := sets.New[string](), sets.New[string](), sets.New[string](), 0
	for i := range 1000 {
		c := paperCluster(i)
		if problems := validation.IsDNS1123Label(c.Name); len(problems) > 0 {
			t.Fatalf("%s: %v", c.Name, problems)
		}
		names.Insert(c.Name)
		regions.Insert(c.Spec.Region)
		zones.Insert(c.Spec.Zones...)
		tainted += len(c.Spec.Taints)
		if c.Status.ResourceSummary.Allocatable.Cpu().IsZero() {
			t.Errorf("%s has no CPU", c.Name)
		}
		for _, condition := range c.Status.Conditions {
			if condition.Status != metav1.ConditionTrue || condition.LastTransitionTime.IsZero() {
				t.Errorf("%s has the condition %v", c.Name, condition)
			}
		}
		serves := slices.ContainsFunc(c.Status.APIEnablements, func(e clusterv1alpha1.APIEnablement) bool {
			return e.GroupVersion == thing.GroupVersion().String() && e.Resources[0].Kind == thing.Kind
		})
		if !serves {
			t.Errorf("%s does not serve what is scheduled", c.Name)
		}
	}
	if names.Len() != 1000 || regions.Len() != 10 || zones.Len() != 30 || tainted != 100 {
		t.Errorf("%d names, %d regions, %d zones, %d taints; want 1000, 10, 30, 100", names.Len(), regions.Len(), zones.Len(), tainted)
	}
}

// TestPaperBindings: every way to divide replicas is measured with and without a spread over regions.
func TestPaperBindings(t *testing.T) {
	names, kinds := sets.New[string](), map[string]int{}
	for i := range 80 {
		b := paperBinding(i)
		names.Insert(b.Name)
		s := b.Spec.Placement.ReplicaScheduling
		kind := string(s.ReplicaSchedulingType) + "/" + string(s.ReplicaDivisionPreference)
		if s.WeightPreference != nil {
			kind += "/" + string(s.WeightPreference.DynamicWeight)
		}
		for _, constraint := range b.Spec.Placement.SpreadConstraints {
			kind += "/" + string(constraint.SpreadByField)
			if constraint.MinGroups > constraint.MaxGroups {
				t.Errorf("%s has the impossible constraint %v", b.Name, constraint)
			}
		}
		kinds[kind]++
		if b.Spec.Replicas <= 0 || b.Spec.ReplicaRequirements.ResourceRequest.Cpu().IsZero() || b.Spec.Resource.Name != b.Name || b.Namespace != fleet.Namespace {
			t.Errorf("%s has %d replicas of %v, of %v", b.Name, b.Spec.Replicas, b.Spec.ReplicaRequirements, b.Spec.Resource)
		}
	}
	if names.Len() != 80 || len(kinds) != 8 {
		t.Errorf("%d names and the kinds %v, want 80 names and 8 kinds", names.Len(), kinds)
	}
	for kind, n := range kinds {
		if n != 10 || !strings.Contains(kind, string(policyv1alpha1.SpreadByFieldCluster)) {
			t.Errorf("%d bindings are %s, want 10 with a spread over clusters", n, kind)
		}
	}
}

// TestPaperClustersRenewTheirLeases: a cluster whose lease ends is not ready, and nothing is scheduled to it.
func TestPaperClustersRenewTheirLeases(t *testing.T) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/" + clusterv1alpha1.ClusterNamespace + "/leases"
	server := fleettest.StartObjectServer(t)
	s := &stand{&bench.Stand{Top: &fleet.Cluster{Kube: kubernetes.NewForConfigOrDie(server.Config)}}}
	if err := s.breathe(t.Context(), "m1"); err != nil {
		t.Fatal(err)
	}
	renewal := func() any {
		lease := server.Object(leases + "/m1")
		if lease == nil {
			t.Fatal("there is no lease")
		}
		return lease.Object["spec"].(map[string]any)["renewTime"]
	}
	first := renewal()
	if err := s.breathe(t.Context(), "m1"); err != nil || renewal() == first || first == nil {
		t.Errorf("renewed from %v to %v: %v", first, renewal(), err)
	}
	server.Handle("PATCH "+leases+"/m1", func(w http.ResponseWriter, _ *http.Request) {
		fleettest.WriteJSON(w, http.StatusInternalServerError, apierrors.NewInternalError(errors.New("no leader")).Status())
	})
	if err := s.breathe(t.Context(), "m1"); err == nil || !strings.Contains(err.Error(), "renewing the lease of cluster m1: ") {
		t.Errorf("a failure is reported as %v", err)
	}
}

func TestUntypedObjectsKeepTheirKind(t *testing.T) {
	u, err := untyped(paperCluster(3), clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	var back clusterv1alpha1.Cluster
	if err := json.Unmarshal(text, &back); err != nil || back.Kind != "Cluster" || back.Name != "paper-00003" || len(back.Spec.Taints) != 1 {
		t.Errorf("%v:\n%s", err, text)
	}
}
