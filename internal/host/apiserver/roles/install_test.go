package roles_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/validation"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/roles"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	rolesPath    = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	bindingsPath = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	recordsPath  = "/api/v1/namespaces/" + clusterv1alpha1.SystemNamespace + "/configmaps"
	reviewsPath  = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	bindingPath  = bindingsPath + "/" + clusterv1alpha1.OperatorsGroup
	recordPath   = recordsPath + "/flagship-operators"
)

func TestInstall(t *testing.T) {
	server := fleettest.StartObjectServer(t)
	all := kubernetes.NewForConfigOrDie(server.Config).RbacV1().ClusterRoles()
	install := func() []string {
		t.Helper()
		before := len(server.Writes())
		if err := roles.Install(t.Context(), server.Config); err != nil {
			t.Fatal(err)
		}
		return server.Writes()[before:]
	}
	get := func(name string) *rbacv1.ClusterRole {
		t.Helper()
		role, err := all.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return role
	}

	if got := install(); len(got) != 7 {
		t.Errorf("a new control plane: %v, want seven roles", got)
	}
	wanted := get("karmada-operator").Rules
	if got := install(); len(got) != 0 {
		t.Errorf("a start writes %v, though nothing is missing", got)
	}

	changed := get("karmada-operator")
	own := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.io"}, Resources: []string{"ships"}}
	changed.Rules = append(slices.Clone(changed.Rules[1:]), own)
	delete(changed.Labels, clusterv1alpha1.BootstrappingLabel)
	if _, err := all.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := install(), []string{"PUT " + rolesPath + "/karmada-operator"}; !slices.Equal(got, want) {
		t.Errorf("a rule is missing: %v, want %v", got, want)
	}
	restored := get("karmada-operator")
	if covered, missing := validation.Covers(restored.Rules, append(wanted, own)); !covered {
		t.Errorf("rules lack %v, want the missing one back and that of the user kept", missing)
	}
	if restored.Labels[clusterv1alpha1.BootstrappingLabel] != clusterv1alpha1.BootstrappingRBACDefaults {
		t.Errorf("labels are %v", restored.Labels)
	}

	protected := get("karmada-edit")
	protected.Rules, protected.Annotations = nil, map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}
	if _, err := all.Update(t.Context(), protected, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := install(); len(got) != 0 || len(get("karmada-edit").Rules) != 0 {
		t.Errorf("a role that the user keeps from updates: %v", got)
	}
}

// TestInstallWithdrawsTheRightToReadOverrides: earlier versions gave it to the role for viewers.
func TestInstallWithdrawsTheRightToReadOverrides(t *testing.T) {
	server := fleettest.StartObjectServer(t)
	all := kubernetes.NewForConfigOrDie(server.Config).RbacV1().ClusterRoles()
	former := rbacv1.PolicyRule{
		Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"policy.karmada.io"},
		Resources: []string{"federatedresourcequotas", "federatedresourcequotas/status", "overridepolicies", "propagationpolicies"},
	}
	own := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"policy.karmada.io"}, Resources: []string{"overridepolicies"}}
	reads := func(auto string, rules ...rbacv1.PolicyRule) (verbs []string) {
		t.Helper()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "karmada-view", Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: auto}}, Rules: rules}
		_ = all.Delete(t.Context(), role.Name, metav1.DeleteOptions{}) // the first time there is none
		if _, err := all.Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := roles.Install(t.Context(), server.Config); err != nil {
			t.Fatal(err)
		}
		role, err := all.Get(t.Context(), role.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "overridepolicies") {
				verbs = append(verbs, rule.Verbs...)
			}
		}
		if covered, missing := validation.Covers(role.Rules, []rbacv1.PolicyRule{{Verbs: former.Verbs, APIGroups: former.APIGroups, Resources: []string{"propagationpolicies"}}}); !covered {
			t.Errorf("the role lacks %v", missing)
		}
		return verbs
	}
	if got := reads("true", former); len(got) != 0 {
		t.Errorf("the role of an earlier version: viewers still %v OverridePolicies", got)
	}
	if got := reads("true", former, own); !slices.Equal(got, own.Verbs) {
		t.Errorf("a rule that a user added: viewers %v OverridePolicies, want %v", got, own.Verbs)
	}
	if got := reads("false", former); !slices.Equal(got, former.Verbs) {
		t.Errorf("a role that the user keeps from updates: viewers %v OverridePolicies, want %v", got, former.Verbs)
	}
}

func TestInstallReportsFailures(t *testing.T) {
	server := fleettest.StartObjectServer(t)
	server.Handle("POST "+rolesPath, func(w http.ResponseWriter, _ *http.Request) {
		fleettest.WriteJSON(w, http.StatusInternalServerError, apierrors.NewInternalError(errors.New("no leader")).Status())
	})
	if err := roles.Install(t.Context(), server.Config); err == nil || !strings.Contains(err.Error(), "installing the ClusterRole karmada-view: ") {
		t.Errorf("got %v, want the role that could not be installed", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	before := len(server.Writes())
	if err := roles.Install(ended, server.Config); !errors.Is(err, context.Canceled) || len(server.Writes()) != before {
		t.Errorf("a server that stops: %v, %v", err, server.Writes()[before:])
	}
}

// reviews answers whether the operators have all rights: yes from the given request on. It returns the reviews so far.
func reviews(t *testing.T, server *fleettest.ObjectServer, allowed int) *[]authorizationv1.SubjectAccessReviewSpec {
	t.Helper()
	asked := &[]authorizationv1.SubjectAccessReviewSpec{}
	server.Handle("POST "+reviewsPath, func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		*asked = append(*asked, review.Spec)
		review.Status.Allowed = len(*asked) >= allowed
		fleettest.WriteJSON(w, http.StatusCreated, review)
	})
	return asked
}

func TestOperatorsGetAllRightsOnce(t *testing.T) {
	server := fleettest.StartObjectServer(t)
	asked := reviews(t, server, 3)
	if err := roles.BindOperators(t.Context(), server.Config); err != nil {
		t.Fatal(err)
	}
	clients := kubernetes.NewForConfigOrDie(server.Config)
	binding, err := clients.RbacV1().ClusterRoleBindings().Get(t.Context(), clusterv1alpha1.OperatorsGroup, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterv1alpha1.OperatorsGroup}
	if binding.RoleRef.Name != "cluster-admin" || !slices.Equal(binding.Subjects, []rbacv1.Subject{subject}) {
		t.Errorf("bound are %v to %v", binding.Subjects, binding.RoleRef)
	}
	if len(*asked) != 3 {
		t.Errorf("it returned after %d reviews, want it to wait until the rights are in effect", len(*asked))
	}
	for _, review := range *asked {
		if review.User != clusterv1alpha1.OperatorUser || !slices.Equal(review.Groups, []string{clusterv1alpha1.OperatorsGroup}) || review.ResourceAttributes.Verb != "*" {
			t.Errorf("reviewed is %v", review)
		}
	}

	// An owner takes the rights away. They do not come back with the next start.
	if err := clients.RbacV1().ClusterRoleBindings().Delete(t.Context(), clusterv1alpha1.OperatorsGroup, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := len(server.Writes())
	if err := roles.BindOperators(t.Context(), server.Config); err != nil || len(server.Writes()) != before {
		t.Errorf("the second start: %v, writes %v", err, server.Writes()[before:])
	}
}

func TestAnInterruptedStartIsFinished(t *testing.T) {
	server := fleettest.StartObjectServer(t)
	own := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: clusterv1alpha1.OperatorsGroup}, RoleRef: rbacv1.RoleRef{Name: "view"}}
	server.Add(t, bindingsPath, rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), own)
	asked := reviews(t, server, 1)
	if err := roles.BindOperators(t.Context(), server.Config); err != nil {
		t.Fatal(err)
	}
	if server.Object(recordPath) == nil || len(*asked) != 0 {
		t.Errorf("%d reviews, record %v; want the record, and no wait for rights that a user may have reduced", len(*asked), server.Object(recordPath))
	}
	if role, _ := server.Object(bindingPath).Object["roleRef"].(map[string]any); role["name"] != "view" {
		t.Errorf("the binding of the user is now to %v", role)
	}
}

// TestTheRecordWaitsForItsNamespace: the controller that makes the namespace starts at the same time.
func TestTheRecordWaitsForItsNamespace(t *testing.T) {
	server := fleettest.StartObjectServer(t)
	reviews(t, server, 1)
	attempts := 0
	server.Handle("POST "+recordsPath, func(w http.ResponseWriter, _ *http.Request) {
		attempts++
		switch attempts {
		case 1:
			fleettest.WriteJSON(w, http.StatusNotFound, apierrors.NewNotFound(corev1.Resource("namespaces"), clusterv1alpha1.SystemNamespace).Status())
		default: // written by another server that starts at the same time
			fleettest.WriteJSON(w, http.StatusConflict, apierrors.NewAlreadyExists(corev1.Resource("configmaps"), "flagship-operators").Status())
		}
	})
	if err := roles.BindOperators(t.Context(), server.Config); err != nil || attempts != 2 {
		t.Errorf("%v after %d attempts, want success after the second", err, attempts)
	}
}

func TestFailuresToBindAreReported(t *testing.T) {
	fail := func(w http.ResponseWriter, _ *http.Request) {
		fleettest.WriteJSON(w, http.StatusInternalServerError, apierrors.NewInternalError(errors.New("no leader")).Status())
	}
	for request, want := range map[string]string{
		"GET " + recordPath:    "reading whether",
		"POST " + bindingsPath: "binding the operators",
		"POST " + reviewsPath:  "waiting for the operators' rights",
		"POST " + recordsPath:  "recording that",
	} {
		t.Run(request, func(t *testing.T) {
			server := fleettest.StartObjectServer(t)
			reviews(t, server, 1)
			server.Handle(request, fail)
			if err := roles.BindOperators(t.Context(), server.Config); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "no leader") {
				t.Errorf("got %v, want %q and the cause", err, want)
			}
		})
	}
}

func TestBindingEndsWithTheServer(t *testing.T) {
	server := fleettest.StartObjectServer(t)
	ctx, end := context.WithCancel(t.Context())
	server.Handle("POST "+reviewsPath, func(w http.ResponseWriter, _ *http.Request) {
		fleettest.WriteJSON(w, http.StatusCreated, authorizationv1.SubjectAccessReview{}) // never allowed
		end()
	})
	if err := roles.BindOperators(ctx, server.Config); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}
