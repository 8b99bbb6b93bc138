package enroll

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

func (f *fixture) reconcile() (reconcile.Result, error) {
	return f.reconciler.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "m1"}})
}

func (f *fixture) mustReconcile() reconcile.Result {
	f.t.Helper()
	result, err := f.reconcile()
	if err != nil {
		f.t.Fatal(err)
	}
	return result
}

func (f *fixture) exists(obj client.Object) bool {
	f.t.Helper()
	err := f.hub.Get(f.t.Context(), client.ObjectKeyFromObject(obj), obj)
	if err != nil && !apierrors.IsNotFound(err) {
		f.t.Fatal(err)
	}
	return err == nil
}

func space() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-es-m1"}}
}

func (f *fixture) setReady(ready bool) {
	f.t.Helper()
	cluster := f.cluster()
	condition := clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "gone")
	if ready {
		condition = clusterv1alpha1.Ready()
	}
	meta.SetStatusCondition(&cluster.Status.Conditions, condition)
	if err := f.hub.Status().Update(f.t.Context(), cluster); err != nil {
		f.t.Fatal(err)
	}
}

func TestExecutionNamespace(t *testing.T) {
	f := joined(t, "m1")
	cluster := f.cluster()
	cluster.Finalizers = nil // As of one that was written by hand.
	if err := f.hub.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	f.mustReconcile()
	ns := space()
	if !f.exists(ns) || ns.Labels["karmada.io/system"] != "true" {
		t.Errorf("the execution namespace is missing or unlabelled: %v", ns.Labels)
	}
	if !slices.Contains(f.cluster().Finalizers, clusterv1alpha1.ClusterFinalizer) {
		t.Error("the finalizer is missing")
	}
	f.mustReconcile()
	if !slices.Equal(f.events, []string{"CreateExecutionSpaceSucceed"}) {
		t.Errorf("events are %v, want one", f.events)
	}
}

// A status that is written meanwhile makes the write of the finalizer fail, and causes no other write.
func TestConflictIsTriedAgain(t *testing.T) {
	f := joined(t, "m1")
	cluster := f.cluster()
	cluster.Finalizers = nil
	if err := f.hub.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	stale := f.cluster()
	f.setReady(true)
	f.reconciler.client = interceptor.NewClient(f.hub.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if out, ok := obj.(*clusterv1alpha1.Cluster); ok && stale != nil {
				stale.DeepCopyInto(out)
				stale = nil
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	if result := f.mustReconcile(); result.RequeueAfter == 0 {
		t.Error("it is not reconciled again")
	}
	f.mustReconcile()
	if !f.exists(space()) {
		t.Error("the execution namespace is missing")
	}
}

func TestRenewal(t *testing.T) {
	f := joined(t, "m1")
	f.issue("renewal")
	f.mustReconcile()
	f.refreshed = 0
	first := f.token("m1")
	if got, want := f.mustReconcile().RequeueAfter, 20*24*time.Hour; got != want {
		t.Errorf("the next look is after %s, want a third of the life: %s", got, want)
	}
	f.clock.Step(19 * 24 * time.Hour)
	if f.mustReconcile(); f.token("m1") != first {
		t.Error("the token was renewed before its time")
	}
	f.clock.Step(24 * time.Hour)
	if got, want := f.mustReconcile().RequeueAfter, 20*24*time.Hour; got != want {
		t.Errorf("the next look is after %s, want %s", got, want)
	}
	for secret, account := range map[string]string{"m1": "karmada-m1", "m1-impersonator": "karmada-impersonator"} {
		if got, want := f.token(secret), tokenFor(account, f.clock.Now(), membership.DefaultTokenLifetime); got != want {
			t.Errorf("the token in %s is %s, want %s", secret, got, want)
		}
	}
	ca := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "m1"}}
	f.get(ca)
	if string(ca.Data["caBundle"]) != "ca" {
		t.Error("renewing the token lost the CA")
	}
	if f.refreshed != 1 {
		t.Errorf("the connection was refreshed %d times, want once", f.refreshed)
	}
}

func TestRenewalThatFailsIsTriedAgain(t *testing.T) {
	f := joined(t, "m1")
	old := f.token("m1")
	f.clock.Step(21 * 24 * time.Hour)
	boom := errors.New("no answer")
	failing := true
	f.member.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing, nil, boom
	})
	if _, err := f.reconcile(); !errors.Is(err, boom) {
		t.Fatalf("got %v, want the failure, to be retried", err)
	}
	if f.token("m1") != old {
		t.Error("the token that still works was touched")
	}
	if !slices.Contains(f.events, events.RenewCredentialsFailed) {
		t.Errorf("events are %v", f.events)
	}
	failing = false
	if f.mustReconcile(); f.token("m1") == old {
		t.Error("the token was not renewed when the member was back")
	}
}

func TestCredentialsOfAPersonAreLeftAlone(t *testing.T) {
	f := joined(t, "m1")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "m1"}}
	f.get(secret)
	secret.Data["token"] = []byte("opaque")
	if err := f.hub.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	f.clock.Step(1000 * time.Hour)
	f.mustReconcile()
	if got := f.token("m1"); got != "opaque" {
		t.Errorf("token is %s; one that does not say when it ends cannot be due", got)
	}
}

// TestADeclaredCluster: the Secrets of a manifest say which Cluster they are for, and at which address.
func TestADeclaredCluster(t *testing.T) {
	const address = "https://10.0.0.1:6443"
	for name, test := range map[string]struct {
		declared string
		edit     func(*clusterv1alpha1.Cluster, *corev1.Secret)
		owned    bool
	}{
		"Declared":      {declared: "m1 " + address, owned: true},
		"NotDeclared":   {},
		"OtherCluster":  {declared: "m2 " + address},
		"OtherAddress":  {declared: "m1 https://10.0.0.2:6443"},
		"LongerAddress": {declared: "m1 " + address + "/path"},
		"OwnedByAnother": {declared: "m1 " + address, edit: func(_ *clusterv1alpha1.Cluster, s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.karmada.io/v1alpha1", Kind: "Cluster", Name: "m2", UID: "2"}}
		}},
		"ThroughAProxy": {declared: "m1 " + address, edit: func(c *clusterv1alpha1.Cluster, _ *corev1.Secret) { c.Spec.ProxyURL = "https://proxy.example.com" }},
		"NotVerified":   {declared: "m1 " + address, edit: func(c *clusterv1alpha1.Cluster, _ *corev1.Secret) { c.Spec.InsecureSkipTLSVerification = true }},
		"OtherNamespace": {declared: "m1 " + address, edit: func(c *clusterv1alpha1.Cluster, s *corev1.Secret) {
			s.Namespace, c.Spec.SecretRef.Namespace = "shop", "shop"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := joined(t, "other")
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "declared"},
				Data: map[string][]byte{"token": []byte("t"), "caBundle": []byte("ca")}}
			if test.declared != "" {
				secret.Annotations = map[string]string{clusterv1alpha1.CredentialOfAnnotation: test.declared}
			}
			ref := &clusterv1alpha1.LocalSecretReference{Namespace: "karmada-cluster", Name: "declared"}
			cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1", UID: "1"},
				Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, APIEndpoint: address, SecretRef: ref}}
			if test.edit != nil {
				test.edit(cluster, secret)
			}
			if err := errors.Join(f.hub.Create(t.Context(), cluster), f.hub.Create(t.Context(), secret)); err != nil {
				t.Fatal(err)
			}
			if requests := clusterOfSecret(t.Context(), secret); test.owned && (len(requests) != 1 || requests[0].Name != "m1") {
				t.Errorf("the Secret enqueues %v", requests)
			}
			if err := f.reconciler.claim(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			f.get(secret)
			if err := clusterv1alpha1.CheckCredential(cluster, clusterv1alpha1.ControllerCredential, secret, []byte("ca")); (err == nil) != test.owned {
				t.Errorf("owners are %v, annotations %v: %v", secret.OwnerReferences, secret.Annotations, err)
			}
		})
	}
}

// leaving returns a fixture whose Cluster is being deleted, with one Work in its namespace.
func leaving(t *testing.T, ready bool) (*fixture, *workv1alpha1.Work) {
	t.Helper()
	f := joined(t, "m1")
	f.setReady(ready)
	f.mustReconcile()
	ns := space()
	f.get(ns)
	ns.Finalizers = []string{"kubernetes"} // The fake has no namespace controller.
	if err := f.hub.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: "karmada-es-m1", Name: "w", Finalizers: []string{workv1alpha1.ExecutionFinalizer, "other"}}}
	if err := f.hub.Create(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	if err := f.hub.Delete(t.Context(), f.cluster()); err != nil {
		t.Fatal(err)
	}
	return f, work
}

func (f *fixture) emptySpace() {
	f.t.Helper()
	ns := space()
	f.get(ns)
	ns.Finalizers = nil
	if err := f.hub.Update(f.t.Context(), ns); err != nil {
		f.t.Fatal(err)
	}
}

func TestLeavingInOrder(t *testing.T) {
	f, work := leaving(t, true)
	f.mustReconcile()
	ns := space()
	if !f.exists(ns) || ns.DeletionTimestamp == nil {
		t.Fatal("the execution namespace is not being deleted")
	}
	if f.get(work); work.DeletionTimestamp == nil || len(work.Finalizers) != 2 {
		t.Error("a Work is not being deleted, or was let go although its objects can be removed from the member")
	}
	if f.token("m1") == "" || len(f.cluster().Finalizers) != 1 {
		t.Error("credentials or Cluster went before the Works")
	}
	f.emptySpace()
	f.mustReconcile()
	for what, obj := range map[string]client.Object{
		"the Cluster":             &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}},
		"its Secret":              &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "m1"}},
		"the impersonator Secret": &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "m1-impersonator"}},
	} {
		if f.exists(obj) {
			t.Errorf("%s is still there", what)
		}
	}
	ctx := t.Context()
	roles, _ := f.member.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	bindings, _ := f.member.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	namespaces, _ := f.member.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if len(roles.Items)+len(bindings.Items) != 0 || len(namespaces.Items) != 1 {
		t.Errorf("left in the member: %d roles, %d bindings, %d namespaces", len(roles.Items), len(bindings.Items), len(namespaces.Items))
	}
}

// TestLeavingEndsWithoutWarnings: after a conflict over the finalizer, leaving is tried again without the rights in the member
// that the first attempt released.
func TestLeavingEndsWithoutWarnings(t *testing.T) {
	f, _ := leaving(t, true)
	f.mustReconcile()
	f.emptySpace()
	gone := false
	f.member.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return gone, nil, apierrors.NewForbidden(corev1.Resource(action.GetResource().Resource), "", errors.New("no rights"))
	})
	conflicts := 0
	f.reconciler.client = interceptor.NewClient(f.hub.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if _, ok := obj.(*clusterv1alpha1.Cluster); ok && conflicts == 0 {
				conflicts++
				gone = true
				return apierrors.NewConflict(clusterv1alpha1.Resource("clusters"), obj.GetName(), errors.New("the status was written meanwhile"))
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	if result := f.mustReconcile(); conflicts != 1 || result.RequeueAfter == 0 {
		t.Fatalf("%d conflicts, the next attempt is after %s", conflicts, result.RequeueAfter)
	}
	f.mustReconcile()
	if f.exists(&clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}) {
		t.Error("the Cluster is still there")
	}
	for _, reason := range []string{events.LeaveMemberFailed, events.RemoveExecutionSpaceFailed} {
		if slices.Contains(f.events, reason) {
			t.Errorf("events are %v, want no %s", f.events, reason)
		}
	}
}

func TestLeavingUnreachable(t *testing.T) {
	f, work := leaving(t, false)
	f.away = true
	if result := f.mustReconcile(); result.RequeueAfter == 0 {
		t.Error("a Work that the cache did not show would be stuck")
	}
	if f.get(work); !slices.Equal(work.Finalizers, []string{"other"}) {
		t.Errorf("finalizers of the Work are %v, want ours gone", work.Finalizers)
	}
	f.emptySpace()
	f.mustReconcile()
	if f.exists(&clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}) {
		t.Error("the Cluster is still there")
	}
	if !slices.Contains(f.events, events.LeaveMemberFailed) {
		t.Errorf("events are %v, want one that says what was left", f.events)
	}
}

// TestLeavingWithTheAgentOfKarmada: it may fail for ever to remove the finalizer of a Work whose objects stay.
func TestLeavingWithTheAgentOfKarmada(t *testing.T) {
	f, work := leaving(t, true)
	cluster := f.cluster()
	cluster.Annotations = map[string]string{clusterv1alpha1.AgentCredentialsAnnotation: "X509SHA256=1"}
	f.get(work)
	work.Spec.PreserveResourcesOnDeletion = new(true)
	if err := errors.Join(f.hub.Update(t.Context(), cluster), f.hub.Update(t.Context(), work)); err != nil {
		t.Fatal(err)
	}
	f.clock.SetTime(time.Now()) // the time of deletion is the fake's
	f.mustReconcile()
	f.get(work)
	f.clock.SetTime(work.DeletionTimestamp.Add(karmadaRelease - time.Second))
	if result := f.mustReconcile(); result.RequeueAfter == 0 {
		t.Error("nothing enqueues the Cluster once its agent has had its time")
	}
	if f.get(work); len(work.Finalizers) != 2 {
		t.Errorf("finalizers of the Work are %v before the agent has had its time", work.Finalizers)
	}
	f.clock.Step(time.Second)
	f.mustReconcile()
	if f.get(work); !slices.Equal(work.Finalizers, []string{"other"}) {
		t.Errorf("finalizers of the Work are %v, want ours gone", work.Finalizers)
	}
}

func TestLeavingAMemberOfTwo(t *testing.T) {
	f := joined(t, "m1")
	if err := memberaccount.ControllerOf("other-hub").Install(t.Context(), f.member); err != nil {
		t.Fatal(err)
	}
	if err := memberaccount.Leave(t.Context(), "m1", "hub-1", f.member); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, account := range []string{"karmada-other-hub", "karmada-impersonator"} {
		if _, err := f.member.CoreV1().ServiceAccounts("karmada-cluster").Get(ctx, account, metav1.GetOptions{}); err != nil {
			t.Errorf("account %s, which another control plane uses: %v", account, err)
		}
	}
	if _, err := f.member.CoreV1().ServiceAccounts("karmada-cluster").Get(ctx, "karmada-m1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("our own account: %v, want it gone", err)
	}
}

func TestClusterChanges(t *testing.T) {
	leaving := func(c *clusterv1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: epoch} }
	ready := func(c *clusterv1alpha1.Cluster) {
		meta.SetStatusCondition(&c.Status.Conditions, clusterv1alpha1.Ready())
	}
	cases := map[string]struct {
		before, after func(*clusterv1alpha1.Cluster)
		want          bool
	}{
		"Resources":       {nil, func(c *clusterv1alpha1.Cluster) { c.Status.KubernetesVersion = "v1" }, false},
		"Ready":           {nil, ready, false},
		"ReadyAndLeaving": {leaving, func(c *clusterv1alpha1.Cluster) { leaving(c); ready(c) }, true},
		"Leaving":         {nil, leaving, true},
		"Spec":            {nil, func(c *clusterv1alpha1.Cluster) { c.Generation++ }, true},
		"Finalizer":       {nil, func(c *clusterv1alpha1.Cluster) { c.Finalizers = []string{"x"} }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := &clusterv1alpha1.Cluster{}, &clusterv1alpha1.Cluster{}
			for c, edit := range map[*clusterv1alpha1.Cluster]func(*clusterv1alpha1.Cluster){before: tc.before, after: tc.after} {
				if edit != nil {
					edit(c)
				}
			}
			if got := clusterChanges().Update(crevent.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestClusterOf(t *testing.T) {
	one := []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "m1"}}}
	if got := clusterOfNamespace(t.Context(), space()); !slices.Equal(got, one) {
		t.Errorf("execution namespace leads to %v", got)
	}
	if got := clusterOfNamespace(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}); got != nil {
		t.Errorf("any other leads to %v", got)
	}
	f := joined(t, "m1")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "m1"}}
	f.get(secret)
	if got := clusterOfSecret(t.Context(), secret); !slices.Equal(got, one) {
		t.Errorf("the Secret leads to %v", got)
	}
}
