package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func TestJoin(t *testing.T) {
	f := joined(t, "m1")
	cluster := f.cluster()
	want := clusterv1alpha1.ClusterSpec{
		ID: "id-1", SyncMode: clusterv1alpha1.Push, APIEndpoint: "https://10.0.0.1:6443",
		SecretRef:             &clusterv1alpha1.LocalSecretReference{Namespace: "karmada-cluster", Name: "m1"},
		ImpersonatorSecretRef: &clusterv1alpha1.LocalSecretReference{Namespace: "karmada-cluster", Name: "m1-impersonator"},
	}
	if diff := cmp.Diff(want, cluster.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if !slices.Contains(cluster.Finalizers, "karmada.io/cluster-controller") {
		t.Errorf("finalizers are %v: a Cluster deleted at once would leave things behind", cluster.Finalizers)
	}
	for name, wantData := range map[string]map[string][]byte{
		"m1":              {"token": []byte(tokenFor("karmada-m1", epoch, membership.DefaultTokenLifetime)), "caBundle": []byte("ca")},
		"m1-impersonator": {"token": []byte(tokenFor("karmada-impersonator", epoch, membership.DefaultTokenLifetime))},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: name}}
		f.get(secret)
		if diff := cmp.Diff(wantData, secret.Data); diff != "" {
			t.Errorf("Secret %s (-want +got):\n%s", name, diff)
		}
		if !clusterv1alpha1.OwnsCredential(cluster, secret) {
			t.Errorf("Secret %s is owned by %v, want the Cluster", name, secret.OwnerReferences)
		}
	}
}

func TestJoinPreparesTheMember(t *testing.T) {
	f := joined(t, "m1")
	ctx := t.Context()
	ns, err := f.member.CoreV1().Namespaces().Get(ctx, "karmada-cluster", metav1.GetOptions{})
	if err != nil || ns.Labels["karmada.io/system"] != "true" {
		t.Errorf("namespace: %v, labels %v", err, ns.Labels)
	}
	const role = "karmada-controller-manager:karmada-m1"
	all, err := f.member.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantRules := []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
	}
	if diff := cmp.Diff(wantRules, all.Rules); diff != "" {
		t.Errorf("rights of the control plane (-want +got):\n%s", diff)
	}
	binding, err := f.member.RbacV1().ClusterRoleBindings().Get(ctx, role, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantSubjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "karmada-cluster", Name: "karmada-m1"}}
	if diff := cmp.Diff(wantSubjects, binding.Subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	if _, err := f.member.CoreV1().ServiceAccounts("karmada-cluster").Get(ctx, "karmada-impersonator", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := f.member.RbacV1().ClusterRoles().Get(ctx, "karmada-impersonator", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the impersonator has rights before a user holds clusters/proxy: %v", err)
	}
}

func TestJoinRefuses(t *testing.T) {
	cases := map[string]struct {
		name string
		id   string
		want string
	}{
		"SameClusterOtherName": {"m2", "id-1", `registered as cluster "m1" already`},
		"SameNameOtherCluster": {"m1", "id-2", `belongs to another cluster`},
		"NoLabel":              {"M_1", "id-2", `cluster name "M_1"`},
		"TooLong":              {strings.Repeat("a", 49), "id-2", "more than 48 characters"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := joined(t, "m1")
			member := newMember(tc.id, f.clock)
			err := joinerFor(f.hub, member, tc.name).Join(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			for _, action := range member.Actions() {
				if action.GetVerb() != "get" {
					t.Errorf("the member was changed: %s %s", action.GetVerb(), action.GetResource().Resource)
				}
			}
		})
	}
}

// TestJoinReadsNoOtherClusters: joining costs the same with a thousand members.
func TestJoinReadsNoOtherClusters(t *testing.T) {
	var lists []string
	hub := interceptor.NewClient(newHub(t).(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists = append(lists, fmt.Sprintf("%T", list))
			return c.List(ctx, list, opts...)
		},
	})
	clock := clocktesting.NewFakeClock(epoch)
	for _, name := range []string{"m1", "m2", "m1"} {
		if err := joinerFor(hub, newMember("id-of-"+name, clock), name).Join(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(lists) > 0 {
		t.Errorf("joining lists %v", lists)
	}
}

func TestJoinAgainRenewsCredentials(t *testing.T) {
	f := joined(t, "m1")
	before := f.cluster()
	f.clock.Step(48 * membership.DefaultTokenLifetime)
	if err := joinerFor(f.hub, f.member, "m1").Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, f.cluster()); diff != "" {
		t.Errorf("the Cluster changed (-want +got):\n%s", diff)
	}
	if got, want := f.token("m1"), tokenFor("karmada-m1", f.clock.Now(), membership.DefaultTokenLifetime); got != want {
		t.Errorf("token is %s, want a fresh one", got)
	}
}

func TestJoinThatFailsLeavesNoSecrets(t *testing.T) {
	hub := newHub(t)
	j := joinerFor(hub, newMember("id-1", clocktesting.NewFakeClock(epoch)), "m1")
	j.Access.Host = "http://insecure"
	if err := j.Join(t.Context()); err == nil || !strings.Contains(err.Error(), "no https URL") {
		t.Fatalf("got %v, want a refusal of the address", err)
	}
	var secrets corev1.SecretList
	if err := hub.List(t.Context(), &secrets); err != nil || len(secrets.Items) != 0 {
		t.Errorf("%d Secrets are left, %v", len(secrets.Items), err)
	}
}

func TestJoinTriesTheToken(t *testing.T) {
	hub := newHub(t)
	j := joinerFor(hub, newMember("id-1", clocktesting.NewFakeClock(epoch)), "m1")
	boom := errors.New("unauthorized")
	j.Try = func(context.Context, *rest.Config, string) error { return boom }
	if err := j.Join(t.Context()); !errors.Is(err, boom) {
		t.Fatalf("got %v, want the refusal", err)
	}
	var clusters clusterv1alpha1.ClusterList
	if err := hub.List(t.Context(), &clusters, &client.ListOptions{}); err != nil || len(clusters.Items) != 0 {
		t.Errorf("there are %d Clusters, %v; want none", len(clusters.Items), err)
	}
}

func TestJoinWaitsForTheRemainsOfAnEarlierMembership(t *testing.T) {
	hub, clock := newHub(t), clocktesting.NewFakeClock(epoch)
	member := newMember("id-1", clock)
	refusals := 2
	member.PrependReactor("patch", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		if refusals == 0 {
			return false, nil, nil
		}
		refusals--
		err := apierrors.NewForbidden(corev1.Resource("serviceaccounts"), "karmada-m1", errors.New("being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return true, nil, err
	})
	if err := joinerFor(hub, member, "m1").Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if refusals != 0 {
		t.Errorf("%d refusals are left: it was not tried again", refusals)
	}
}
