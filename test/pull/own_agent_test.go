package pull_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestOwnAgent runs the agent of this project: it registers, applies, survives a kill without a write, may do nothing but its work, and
// loses its credential with its Cluster.
func TestOwnAgent(t *testing.T) {
	hub := fleettest.StartHub(t, append([]string{"--enable-bootstrap-token-auth"}, impatient...)...)
	member := fleettest.StartMember(t, "far", "--nodes", "1")
	agent := hub.StartAgent(t, "far", member.Kubeconfig, "--cluster-probe-period=1s", "--cluster-lease-duration=1s")
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "far"}}
	fleettest.ExpectEventually(t, hub.Cluster, cluster, ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))

	web := fleettest.Deployment("shop", "web", 2)
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, fleettest.Policy("shop", "web", fleettest.To("far"), web), web)
	running := func(d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas != *d.Spec.Replicas || d.Status.ObservedGeneration != d.Generation {
			return fmt.Errorf("%d of %d replicas are ready", d.Status.ReadyReplicas, *d.Spec.Replicas)
		}
		return nil
	}
	there := fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), running)
	fleettest.ExpectEventually(t, hub.Cluster, web, running)

	t.Run("AKilledAgentTouchesNothingWhenItIsBack", func(t *testing.T) {
		agent.Kill()
		fleettest.ExpectEventually(t, hub.Cluster, cluster,
			ready(metav1.ConditionUnknown, clusterv1alpha1.ClusterStatusUnknownReason, clusterv1alpha1.TaintClusterUnreachable))
		agent.Start(t)
		fleettest.ExpectEventually(t, hub.Cluster, cluster, ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))
		// An object that is new comes after everything that the agent does at its start.
		later := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "later"}}
		fleettest.Create(t, hub.Cluster, fleettest.Policy("shop", "later", fleettest.To("far"), later), later)
		fleettest.ExpectEventually(t, member.Cluster, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "later"}},
			func(*corev1.ConfigMap) error { return nil })
		fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), func(d *appsv1.Deployment) error {
			if d.UID != there.UID || d.Generation != there.Generation {
				return fmt.Errorf("its generation went from %d to %d", there.Generation, d.Generation)
			}
			return nil
		})
	})
	t.Run("AStolenCredentialDoesNothingElse", func(t *testing.T) { doesNothingElse(t, hub, agent) })
	t.Run("TheCredentialEndsWithTheCluster", func(t *testing.T) {
		if err := hub.Delete(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		fleettest.ExpectGone(t, hub.Cluster, cluster)
		fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), running) // its objects stay
		fleettest.Create(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "far"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull}})
		err := agent.List(t.Context(), &workv1alpha1.WorkList{}, client.InNamespace(workv1alpha1.ExecutionNamespace("far")))
		if !apierrors.IsForbidden(err) {
			t.Errorf("the agent of an earlier Cluster reads the Works of a later one of the same name: %v", err)
		}
	})
	t.Run("ATokenIsForOneCluster", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "near.kubeconfig")
		if r := fleettest.Flagship(t, "token", "create", "near", "--kubeconfig", hub.Kubeconfig, "--file", file); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
		r := fleettest.Flagship(t, "register", "other", "--bootstrap-kubeconfig", file, "--cluster-kubeconfig", member.Kubeconfig, "--data-dir", t.TempDir())
		if r.Code == 0 || !strings.Contains(r.Stderr, `registers cluster "near" only`) {
			t.Errorf("a token registers another cluster than its own: %d %s", r.Code, r.Stderr)
		}
	})
}

// doesNothingElse requests every verb on every resource that is served, as a thief of the agent's certificate would.
func doesNothingElse(t *testing.T, hub *fleettest.Part, agent *fleettest.Agent) {
	allowed := sets.New(
		"get list watch resourceinterpretercustomizations", "get list watch resourceinterpreterwebhookconfigurations",
		"create get list watch certificatesigningrequests",
		// Every user may request these about itself.
		"create selfsubjectaccessreviews", "create selfsubjectrulesreviews", "create selfsubjectreviews",
	)
	permitted := func(verb, resource string) bool {
		for rule := range allowed {
			words := strings.Fields(rule)
			if words[len(words)-1] == resource && slices.Contains(words[:len(words)-1], verb) {
				return true
			}
		}
		return false
	}
	served, err := discovery.NewDiscoveryClientForConfigOrDie(hub.Config).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	unlimited := rest.CopyConfig(agent.Config)
	unlimited.QPS = -1
	reviews := kubernetes.NewForConfigOrDie(unlimited).AuthorizationV1().SelfSubjectAccessReviews()
	requests := 0
	for _, list := range served {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "proxy", "approve", "bind", "escalate"} {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Group: version.Group, Version: version.Version, Resource: resource.Name,
				}}}
				answer, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				requests++
				if answer.Status.Allowed != permitted(verb, resource.Name) {
					t.Errorf("%s %s: allowed=%v", verb, resource.Name, answer.Status.Allowed)
				}
			}
		}
	}
	if requests < 500 {
		t.Errorf("only %d verbs were tried: discovery has not everything", requests)
	}
	for name, list := range map[string]client.ObjectList{
		"karmada-es-near": &workv1alpha1.WorkList{}, "karmada-cluster": &corev1.SecretList{}, "kube-system": &corev1.SecretList{}, "shop": &appsv1.DeploymentList{},
	} {
		if err := agent.List(t.Context(), list, client.InNamespace(name)); !apierrors.IsForbidden(err) {
			t.Errorf("it lists %T in %s: %v", list, name, err)
		}
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "far"}}
	if err := agent.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Labels = map[string]string{"tier": "production"}
	if err := agent.Update(t.Context(), cluster); !apierrors.IsForbidden(err) {
		t.Errorf("it labels its Cluster: %v", err)
	}
	lie := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lie"}, InvolvedObject: corev1.ObjectReference{Kind: "Cluster", Name: "near"}}
	if err := agent.Create(t.Context(), lie); !apierrors.IsForbidden(err) {
		t.Errorf("it publishes an event about another Cluster: %v", err)
	}
}
