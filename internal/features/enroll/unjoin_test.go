package enroll

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func TestUnjoinWithoutACluster(t *testing.T) {
	u := &membership.Unjoiner{Hub: newHub(t), Options: membership.UnjoinOptions{Name: "m1"}}
	if err := u.Unjoin(t.Context()); err == nil || !strings.Contains(err.Error(), `no cluster "m1"`) {
		t.Errorf("got %v", err)
	}
}

func TestUnjoinWrongCluster(t *testing.T) {
	f := joined(t, "m1")
	u := &membership.Unjoiner{Hub: f.hub, Member: newMember("id-2", f.clock), Options: membership.UnjoinOptions{Name: "m1"}}
	if err := u.Unjoin(t.Context()); err == nil || !strings.Contains(err.Error(), "leads to another cluster") {
		t.Errorf("got %v", err)
	}
	if f.cluster().DeletionTimestamp != nil {
		t.Error("the Cluster is being deleted nevertheless")
	}
}

func TestUnjoinWithAnAdministratorsRights(t *testing.T) {
	f := joined(t, "m1")
	cluster := f.cluster()
	cluster.Finalizers = nil // Nothing holds it up.
	if err := f.hub.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	u := &membership.Unjoiner{Hub: f.hub, Member: f.member, Options: membership.UnjoinOptions{Name: "m1"}}
	if err := u.Unjoin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.member.CoreV1().Namespaces().Get(t.Context(), "karmada-cluster", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("our namespace in the member: %v, want it gone", err)
	}
}

func TestUnjoinThatHangs(t *testing.T) {
	f, work := leaving(t, true)
	u := &membership.Unjoiner{Hub: f.hub, Options: membership.UnjoinOptions{Name: "m1", Wait: 10 * time.Millisecond}}
	err := u.Unjoin(t.Context())
	if err == nil || !strings.Contains(err.Error(), "1 Works still have objects") || !strings.Contains(err.Error(), "--force") {
		t.Errorf("got %v, want the obstacle and the way out", err)
	}
	u.Options.Force = true
	if err := u.Unjoin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.exists(&clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}) {
		t.Error("the Cluster is still there")
	}
	if f.get(work); slices.Contains(work.Finalizers, workv1alpha1.ExecutionFinalizer) {
		t.Error("the Work still waits for the member")
	}
}
