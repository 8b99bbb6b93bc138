package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// history reads the history of a Deployment.
func history(ctx context.Context, t *testing.T, as *fleettest.Cluster, ns, name string, contents ...int64) *fleetv1alpha1.History {
	t.Helper()
	h := &fleetv1alpha1.History{Spec: fleetv1alpha1.HistorySpec{Kind: "Deployment", Namespace: ns, Name: name, Contents: contents}}
	if err := as.Create(ctx, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// changesOf are the changes of a revision, joined.
func changesOf(r fleetv1alpha1.Revision) string {
	var texts []string
	for _, change := range r.Changes {
		texts = append(texts, change.Text)
	}
	return strings.Join(texts, "; ")
}

// expectRevision waits until a Deployment has a current revision of a number, with changes, and returns its whole history.
func expectRevision(t *testing.T, fleet *fleettest.Fleet, ns, name string, number int64, changes string) *fleetv1alpha1.History {
	t.Helper()
	var h *fleetv1alpha1.History
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		h = history(ctx, t, fleet.Hub, ns, name)
		return slices.ContainsFunc(h.Status.Revisions, func(r fleetv1alpha1.Revision) bool {
			return r.Revision == number && r.Current && strings.Contains(changesOf(r), changes)
		}), nil
	})
	if err != nil {
		t.Fatalf("no revision %d with %q: %v; the history is %+v", number, changes, err, h.Status.Revisions)
	}
	return h
}

// expectNoRevision waits until a Deployment has no revision of a number: one that a later one equals is deleted after that is written.
func expectNoRevision(t *testing.T, fleet *fleettest.Fleet, ns, name string, number int64) {
	t.Helper()
	var h *fleetv1alpha1.History
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		h = history(ctx, t, fleet.Hub, ns, name)
		return !slices.ContainsFunc(h.Status.Revisions, func(r fleetv1alpha1.Revision) bool { return r.Revision == number }), nil
	})
	if err != nil {
		t.Fatalf("revision %d is kept: %v; the history is %+v", number, err, h.Status.Revisions)
	}
}

// as returns the path of a kubeconfig for another user.
func as(t *testing.T, c *fleettest.Cluster, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, auth := range config.AuthInfos {
		auth.Impersonate = user
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// undo runs the command, which must succeed, and returns what it printed.
func undo(t *testing.T, fleet *fleettest.Fleet, args ...string) string {
	t.Helper()
	r := fleettest.Flagship(t, append([]string{"undo", "--kubeconfig", fleet.Hub.Kubeconfig}, args...)...)
	if r.Code != 0 {
		t.Fatalf("undo %v: code %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr
}

// recorded is a Deployment in the members that a label selects, with its policy and an override policy.
type recorded struct {
	label    string
	web      *appsv1.Deployment
	policy   *policyv1alpha1.PropagationPolicy
	override *policyv1alpha1.OverridePolicy
}

func label(t *testing.T, fleet *fleettest.Fleet, cluster, label, value string) {
	t.Helper()
	fleettest.Update(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}, func(c *clusterv1alpha1.Cluster) {
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[label] = value
	})
}

func image(t *testing.T, c *fleettest.Cluster, web *appsv1.Deployment, image string) {
	t.Helper()
	fleettest.Update(t, c, web.DeepCopy(), func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
}

func hasImage(image string) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		if got := d.Spec.Template.Spec.Containers[0].Image; got != image {
			return fmt.Errorf("the image is %s, want %s", got, image)
		}
		return nil
	}
}

// annotated is the condition of a Deployment with a value of the annotation that the override sets.
func annotated(value string) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		if got := d.Annotations["team"]; got != value {
			return fmt.Errorf("the annotation is %q, want %q", got, value)
		}
		return nil
	}
}

func team(value string) []policyv1alpha1.RuleWithCluster {
	return []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
		{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"team": value}},
	}}}}
}

// record makes a history of four revisions: an image, clusters, an override policy.
func record(t *testing.T, fleet *fleettest.Fleet, ns string) recorded {
	t.Helper()
	r := recorded{label: "history-" + ns, web: fleettest.Deployment(ns, "web", 1)}
	label(t, fleet, "member1", r.label, "yes")
	r.policy = fleettest.Policy(ns, "web", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{r.label: "yes"}},
	}}, r.web)
	r.web.Spec.Template.Spec.Containers[0].Image = "web:1.2"
	fleettest.Create(t, fleet.Hub, r.web, r.policy)
	fleettest.ExpectEventually(t, fleet.Member("member1"), r.web.DeepCopy(), hasImage("web:1.2"))
	if h := history(t.Context(), t, fleet.Hub, ns, "web"); len(h.Status.Revisions) != 1 || h.Status.Revisions[0].Revision != 0 || !h.Status.Revisions[0].Current {
		t.Errorf("what never changed has the history %+v", h.Status)
	}

	image(t, fleet.Hub, r.web, "web:1.3")
	expectRevision(t, fleet, ns, "web", 2, "image web:1.2 → web:1.3")
	label(t, fleet, "member2", r.label, "yes")
	expectRevision(t, fleet, ns, "web", 3, "clusters +member2")
	r.override = &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "team"}}
	r.override.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}
	r.override.Spec.OverrideRules = team("front")
	fleettest.Create(t, fleet.Hub, r.override)
	expectRevision(t, fleet, ns, "web", 4, "override +team")
	return r
}

// TestHistory: each change of what a template means is a revision, with its author, and a restart loses none, nor what was deleted.
func TestHistory(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	r := record(t, fleet, ns)
	fleet.Hub.ClusterRights(t, "alice",
		rbacv1.PolicyRule{APIGroups: []string{"policy.karmada.io"}, Resources: []string{"propagationpolicies"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"update"}}) // which the policy selects
	alice := fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "alice"})
	alice.AwaitRight(t, authorizationv1.ResourceAttributes{Namespace: ns, Verb: "update", Group: "policy.karmada.io", Resource: "propagationpolicies"})
	fleettest.Update(t, alice, r.policy.DeepCopy(), func(p *policyv1alpha1.PropagationPolicy) {
		p.Spec.Placement = fleettest.To("member2")
	})
	h := expectRevision(t, fleet, ns, "web", 5, "clusters -member1")
	if last := h.Status.Revisions[4]; last.User != "alice" || !strings.Contains(changesOf(last), "policy web: ") {
		t.Errorf("the last revision is %+v, want the change of a policy by alice", last)
	}
	if first := h.Status.Revisions[0]; first.Revision != 1 || first.User == "" && first.Manager == "" {
		t.Errorf("the first revision is %+v, want one with an author", first)
	}

	gone := fleettest.Secret(ns, "gone", map[string]string{"password": "s3cr3t-" + ns})
	fleettest.Create(t, fleet.Hub, gone, fleettest.Policy(ns, "gone", fleettest.To("member1"), gone))
	fleettest.ExpectEventually(t, fleet.Member("member1"), gone.DeepCopy(), fleettest.Exists)
	fleettest.Delete(t, fleet.Hub, gone)
	expectDeleted(t, fleet, ns, "Secret/gone")
	fleet.Stop(t)
	fleet.Restart(t)
	expectDeleted(t, fleet, ns, "Secret/gone")
	command(t, fleet.Hub.Kubeconfig, "undelete", "secret/gone", "-n", ns)
	back := fleettest.ExpectEventually(t, fleet.Member("member1"), fleettest.Secret(ns, "gone", nil), fleettest.Exists)
	if string(back.Data["password"]) != "s3cr3t-"+ns {
		t.Errorf("after a restart the Secret came back with %q", back.Data)
	}
	after := history(t.Context(), t, fleet.Hub, ns, "web")
	if got, want := fmt.Sprint(after.Status.Revisions), fmt.Sprint(h.Status.Revisions); got != want {
		t.Errorf("after a restart the history is\n%s\nbefore it was\n%s", got, want)
	}
	image(t, fleet.Hub, r.web, "web:1.4")
	expectRevision(t, fleet, ns, "web", 6, "image web:1.3 → web:1.4")

	out := fleettest.Flagship(t, "history", "deploy/web", "-n", ns, "--kubeconfig", fleet.Hub.Kubeconfig)
	for _, text := range []string{"REVISION", "6*", "alice", "image web:1.2 → web:1.3"} {
		if out.Code != 0 || !strings.Contains(out.Stdout, text) {
			t.Errorf("flagship history lacks %q: code %d\n%s%s", text, out.Code, out.Stdout, out.Stderr)
		}
	}
	out = fleettest.Flagship(t, "history", "deploy/web", "-n", ns, "--diff", "1,6", "--kubeconfig", fleet.Hub.Kubeconfig)
	for _, text := range []string{"spec.template.spec.containers[nginx].image", `"web:1.2"`, `"web:1.4"`, "overridepolicy/team", "clusters"} {
		if out.Code != 0 || !strings.Contains(out.Stdout, text) {
			t.Errorf("flagship history --diff lacks %q: code %d\n%s%s", text, out.Code, out.Stdout, out.Stderr)
		}
	}
	revisionsAreSealed(t, fleet, ns)
}

// revisionsAreSealed: who may read ControllerRevisions reads nothing of the content, and they are no templates.
func revisionsAreSealed(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	var revisions appsv1.ControllerRevisionList
	if err := fleet.Hub.List(t.Context(), &revisions, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if len(revisions.Items) != 6 {
		t.Errorf("there are %d ControllerRevisions, want 6", len(revisions.Items))
	}
	for i := range revisions.Items {
		if bytes.Contains(revisions.Items[i].Data.Raw, []byte("web:")) { // base64 has no colon
			t.Errorf("%s is readable: %s", revisions.Items[i].Name, revisions.Items[i].Data.Raw)
		}
	}
	own := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "own"}, Data: runtime.RawExtension{Raw: []byte(`{"a":"b"}`)}}
	everything := fleettest.Policy(ns, "revisions", fleettest.To("member1"))
	everything.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "ControllerRevision"}}
	fleettest.Create(t, fleet.Hub, own, everything)
	fleettest.ExpectEventually(t, fleet.Member("member1"), own.DeepCopy(), fleettest.Exists)
	var inMember appsv1.ControllerRevisionList
	if err := fleet.Member("member1").List(t.Context(), &inMember, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range inMember.Items {
		if strings.HasPrefix(inMember.Items[i].Name, workv1alpha1.HistoryPrefix) {
			t.Errorf("%s was propagated", inMember.Items[i].Name)
		}
	}
}

// TestUndo brings back a template, a policy and an override policy. It takes 40 s beside other tests, which share its fleet.
func TestUndo(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	r := record(t, fleet, ns)
	member1, member2 := fleet.Member("member1"), fleet.Member("member2")

	if out := undo(t, fleet, "deploy/web", "-n", ns, "--to", "1", "--dry-run"); !strings.Contains(out, `"web:1.3" → "web:1.2"`) || !strings.Contains(out, "(dry run)") {
		t.Errorf("a dry run printed\n%s", out)
	}
	fleettest.ExpectEventually(t, fleet.Hub, r.web.DeepCopy(), hasImage("web:1.3"))
	undo(t, fleet, "deploy/web", "-n", ns, "--to", "1", "--what", "template")
	fleettest.ExpectEventually(t, member1, r.web.DeepCopy(), hasImage("web:1.2"))
	fleettest.ExpectEventually(t, member2, r.web.DeepCopy(), hasImage("web:1.2"))
	expectRevision(t, fleet, ns, "web", 5, "image web:1.3 → web:1.2")

	fleettest.Update(t, fleet.Hub, r.override.DeepCopy(), func(o *policyv1alpha1.OverridePolicy) { o.Spec.OverrideRules = team("back") })
	expectRevision(t, fleet, ns, "web", 6, "override team: ")
	fleettest.ExpectEventually(t, member1, r.web.DeepCopy(), annotated("back"))
	undo(t, fleet, "deploy/web", "-n", ns) // to the one before
	fleettest.ExpectEventually(t, member1, r.web.DeepCopy(), annotated("front"))
	expectRevision(t, fleet, ns, "web", 7, "override team: ")
	expectNoRevision(t, fleet, ns, "web", 5) // which is equal to 7

	fleettest.Update(t, fleet.Hub, r.policy.DeepCopy(), func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("member2") })
	expectRevision(t, fleet, ns, "web", 8, "clusters -member1")
	fleettest.ExpectGone(t, member1, r.web.DeepCopy())
	undo(t, fleet, "deploy/web", "-n", ns, "--what", "policy")
	fleettest.ExpectEventually(t, member1, r.web.DeepCopy(), hasImage("web:1.2"))
	expectRevision(t, fleet, ns, "web", 9, "clusters +member1")

	label(t, fleet, "member2", r.label, "no") // neither template nor policy
	expectRevision(t, fleet, ns, "web", 10, "clusters -member2")
	if out := undo(t, fleet, "deploy/web", "-n", ns, "--to", "9"); !strings.Contains(out, "nothing to change") || !strings.Contains(out, "since the clusters changed") {
		t.Errorf("undo of a change of a cluster printed\n%s", out)
	}
	if out := fleettest.Flagship(t, "undo", "deploy/web", "-n", ns, "--to", "99", "--kubeconfig", fleet.Hub.Kubeconfig); out.Code == 0 || !strings.Contains(out.Stderr, "recorded are: ") {
		t.Errorf("undo to a revision that does not exist: code %d\n%s", out.Code, out.Stderr)
	}
}

// TestHistoryOfATenant: a user gets of a history what he may get of its objects, writes none, and undoes with his own rights.
func TestHistoryOfATenant(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 1)
	policy := fleettest.ClusterPolicy("hidden-"+ns, fleettest.To("member1"), web)
	fleettest.Create(t, fleet.Hub, web, policy)
	fleettest.ExpectEventually(t, fleet.Member("member1"), web.DeepCopy(), hasImage("nginx"))
	image(t, fleet.Hub, web, "web:2")
	expectRevision(t, fleet, ns, "web", 2, "image nginx → web:2")
	fleettest.Update(t, fleet.Hub, policy.DeepCopy(), func(p *policyv1alpha1.ClusterPropagationPolicy) { p.Spec.Placement = fleettest.To("member2") })
	expectRevision(t, fleet, ns, "web", 3, "clusters -member1 +member2")

	tenant := fleet.Hub.Tenant(t, ns, "controllerrevisions", "deployments")
	user := "tenant-" + ns
	question := &fleetv1alpha1.History{Spec: fleetv1alpha1.HistorySpec{Kind: "Deployment", Namespace: ns, Name: "web"}}
	if err := tenant.Create(t.Context(), question); !apierrors.IsForbidden(err) {
		t.Errorf("without the right to create Histories: %v", err)
	}
	fleet.Hub.ClusterRights(t, user, rbacv1.PolicyRule{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"histories"}, Verbs: []string{"create"}})
	tenant.AwaitRight(t, authorizationv1.ResourceAttributes{Verb: "create", Group: fleetv1alpha1.GroupName, Resource: "histories"})
	forge(t, tenant, fleet, ns, web)
	h := history(t.Context(), t, tenant, ns, "web", 1, 2, 3)
	if text := fmt.Sprintf("%+v", h.Status); strings.Contains(text, "hidden-") || strings.Contains(text, "member") {
		t.Errorf("a tenant sees policies or clusters: %s", text)
	}
	if len(h.Status.Revisions) != 3 || changesOf(h.Status.Revisions[1]) != "image nginx → web:2" || !h.Status.Revisions[2].Changes[0].Hidden || h.Status.Revisions[2].User != "" {
		t.Errorf("a tenant sees %+v", h.Status.Revisions)
	}
	if h.Status.Unreadable != 1 {
		t.Errorf("%d revisions are not readable, want the one that the tenant wrote", h.Status.Unreadable)
	}
	secret := &fleetv1alpha1.History{Spec: fleetv1alpha1.HistorySpec{Kind: "Secret", Namespace: ns, Name: "any"}}
	if err := tenant.Create(t.Context(), secret); !apierrors.IsForbidden(err) {
		t.Errorf("about a Secret: %v, want Forbidden whether it exists or not", err)
	}

	kubeconfig := as(t, fleet.Hub, user)
	if r := fleettest.Flagship(t, "undo", "deploy/web", "-n", ns, "--to", "1", "--kubeconfig", kubeconfig); r.Code == 0 || !strings.Contains(r.Stderr, "may not get") {
		t.Errorf("undo with a policy of others: code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := fleettest.Flagship(t, "undo", "deploy/web", "-n", ns, "--to", "1", "--what", "template", "--kubeconfig", kubeconfig); r.Code != 0 {
		t.Errorf("undo of a template of his own: code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	h = expectRevision(t, fleet, ns, "web", 4, "image web:2 → nginx")
	if last := h.Status.Revisions[len(h.Status.Revisions)-1]; last.User != user {
		t.Errorf("the author of an undo is %q, want %s", last.User, user)
	}

	reader := "reader-" + ns
	fleet.Hub.ClusterRights(t, reader,
		rbacv1.PolicyRule{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"histories"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get"}})
	fleet.Hub.As(t, rest.ImpersonationConfig{UserName: reader}).AwaitRight(t, authorizationv1.ResourceAttributes{Namespace: ns, Verb: "get", Group: "apps", Resource: "deployments"})
	if r := fleettest.Flagship(t, "undo", "deploy/web", "-n", ns, "--to", "2", "--what", "template", "--kubeconfig", as(t, fleet.Hub, reader)); r.Code == 0 || !strings.Contains(r.Stderr, "cannot update resource") {
		t.Errorf("undo without the right to update: code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// forge has a tenant write a ControllerRevision with the label of a revision of a Deployment.
func forge(t *testing.T, tenant *fleettest.Cluster, fleet *fleettest.Fleet, ns string, web *appsv1.Deployment) {
	t.Helper()
	found := &appsv1.Deployment{}
	if err := fleet.Hub.Get(t.Context(), client.ObjectKeyFromObject(web), found); err != nil {
		t.Fatal(err)
	}
	fleettest.Create(t, tenant, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: workv1alpha1.HistoryPrefix + "forged", Labels: map[string]string{workv1alpha1.HistoryLabel: string(found.UID)}},
		Data:       runtime.RawExtension{Raw: []byte(`{"sealed":"c2VhbGVk"}`)}, Revision: 1 << 62,
	})
}

// deletedIn are the names of what was deleted in a namespace, as a user sees it.
func deletedIn(ctx context.Context, t *testing.T, as *fleettest.Cluster, ns string) []string {
	t.Helper()
	question := &fleetv1alpha1.Undeletion{Spec: fleetv1alpha1.UndeletionSpec{Namespace: ns}}
	if err := as.Create(ctx, question); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range question.Status.Objects {
		names = append(names, d.Object.Kind+"/"+d.Object.Name)
	}
	slices.Sort(names)
	return names
}

// expectDeleted waits until exactly these objects of a namespace can be brought back.
func expectDeleted(t *testing.T, fleet *fleettest.Fleet, ns string, want ...string) {
	t.Helper()
	var got []string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		got = deletedIn(ctx, t, fleet.Hub, ns)
		return slices.Equal(got, want), nil
	})
	if err != nil {
		t.Fatalf("what can be brought back is %v, want %v", got, want)
	}
}

// command runs flagship against the hub; it must succeed.
func command(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	r := fleettest.Flagship(t, append(args, "--kubeconfig", kubeconfig)...)
	if r.Code != 0 {
		t.Fatalf("flagship %v: code %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// TestUndelete brings back a Deployment with its policy, twice, a Secret, and what was deleted with its namespace. TestHistory has a restart.
func TestUndelete(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	leaving := leave(t, fleet)
	ns := fleet.Namespace(t)
	member1 := fleet.Member("member1")
	web, secret := fleettest.Deployment(ns, "web", 1), fleettest.Secret(ns, "token", map[string]string{"password": "s3cr3t-" + ns})
	policy, alone := fleettest.Policy(ns, "web", fleettest.To("member1"), web, secret), fleettest.ConfigMap(ns, "alone", nil)
	fleettest.Create(t, fleet.Hub, web, secret, policy, alone)
	fleettest.ExpectEventually(t, member1, web.DeepCopy(), fleettest.Exists)
	fleettest.ExpectEventually(t, member1, secret.DeepCopy(), fleettest.Exists)

	fleettest.Delete(t, fleet.Hub, policy, web, secret, alone)    // of the policy it is known for three seconds what it was for
	expectDeleted(t, fleet, ns, "Deployment/web", "Secret/token") // ConfigMap alone was in no cluster
	fleettest.ExpectGone(t, member1, web.DeepCopy())
	tombstonesAreClosed(t, fleet, ns)

	if out := command(t, fleet.Hub.Kubeconfig, "undelete", "-n", ns); !strings.Contains(out, "Deployment") || !strings.Contains(out, "web") {
		t.Errorf("the list is\n%s", out)
	}
	if out := command(t, fleet.Hub.Kubeconfig, "undelete", "deploy/web", "-n", ns, "--dry-run"); !strings.Contains(out, "deployment/web created (dry run)") {
		t.Errorf("a dry run printed\n%s", out)
	}
	fleettest.ExpectAbsent(t, fleet.Hub, web.DeepCopy())
	if out := command(t, fleet.Hub.Kubeconfig, "undelete", "deploy/web", "-n", ns); !strings.Contains(out, "propagationpolicy/web created") || !strings.Contains(out, "deployment/web created") {
		t.Errorf("undelete printed\n%s", out)
	}
	fleettest.ExpectEventually(t, member1, web.DeepCopy(), hasImage("nginx"))
	command(t, fleet.Hub.Kubeconfig, "undelete", "secret/token", "-n", ns)
	back := fleettest.ExpectEventually(t, member1, secret.DeepCopy(), fleettest.Exists)
	if string(back.Data["password"]) != "s3cr3t-"+ns {
		t.Errorf("the Secret came back with %q", back.Data)
	}
	if r := fleettest.Flagship(t, "undelete", "deploy/web", "-n", ns, "--kubeconfig", fleet.Hub.Kubeconfig); r.Code == 0 || !strings.Contains(r.Stderr, "exists, and was not changed") {
		t.Errorf("undelete of what exists: code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	image(t, fleet.Hub, web, "web:2")
	fleettest.ExpectEventually(t, member1, web.DeepCopy(), hasImage("web:2"))
	fleettest.Delete(t, fleet.Hub, web.DeepCopy())
	expectDeleted(t, fleet, ns, "Deployment/web", "Deployment/web", "Secret/token")
	command(t, fleet.Hub.Kubeconfig, "undelete", "--all", "-n", ns) // the last one counts, and what exists is left as it is
	fleettest.ExpectEventually(t, member1, web.DeepCopy(), hasImage("web:2"))
	comeBack(t, fleet, leaving)
}

// mayUndelete is a tenant with all rights on resources of a namespace who may create Undeletions.
func mayUndelete(t *testing.T, fleet *fleettest.Fleet, ns string, resources ...string) *fleettest.Cluster {
	t.Helper()
	tenant := fleet.Hub.Tenant(t, ns, resources...)
	fleet.Hub.ClusterRights(t, "tenant-"+ns, rbacv1.PolicyRule{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"undeletions"}, Verbs: []string{"create"}})
	tenant.AwaitRight(t, authorizationv1.ResourceAttributes{Verb: "create", Group: fleetv1alpha1.GroupName, Resource: "undeletions"})
	return tenant
}

// tombstonesAreClosed: what was deleted is read through questions alone, by those who may get the kind.
func tombstonesAreClosed(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	tenant := mayUndelete(t, fleet, ns, "configmaps", "deployments")
	if got := deletedIn(t.Context(), t, tenant, ns); !slices.Equal(got, []string{"Deployment/web"}) {
		t.Errorf("a tenant without rights on Secrets sees %v", got)
	}
	if got := deletedIn(t.Context(), t, tenant, ""); !slices.Equal(got, []string{"Deployment/web"}) {
		t.Errorf("a tenant sees of all namespaces %v", got)
	}
	content := &fleetv1alpha1.Undeletion{Spec: fleetv1alpha1.UndeletionSpec{Namespace: ns, Contents: true}}
	if err := tenant.Create(t.Context(), content); err != nil {
		t.Fatal(err)
	}
	if c := content.Status.Objects[0].Content; c.Policy != nil || len(c.Clusters) > 0 {
		t.Errorf("a tenant without rights on policies and bindings sees %+v", c)
	}
}

// leave deletes a namespace with a Deployment and a Secret in a member. Kubernetes takes ten seconds to end one, so that this begins before
// what does not need it.
func leave(t *testing.T, fleet *fleettest.Fleet) (ns string) {
	t.Helper()
	ns = fleet.Namespace(t)
	web, secret := fleettest.Deployment(ns, "web", 1), fleettest.Secret(ns, "token", nil)
	fleettest.Create(t, fleet.Hub, web, secret, fleettest.Policy(ns, "web", fleettest.To("member1"), web, secret))
	fleettest.ExpectEventually(t, fleet.Member("member1"), web.DeepCopy(), fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Member("member1"), secret.DeepCopy(), fleettest.Exists)
	fleettest.Delete(t, fleet.Hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	return ns
}

// comeBack brings back what was in a namespace that was deleted. Who has the namespace of that name next does not see it.
func comeBack(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	fleettest.ExpectGone(t, fleet.Hub, namespace.DeepCopy())
	expectDeleted(t, fleet, ns, "Deployment/web", "Secret/token")
	if r := fleettest.Flagship(t, "undelete", "-n", ns, "--all", "--kubeconfig", fleet.Hub.Kubeconfig); r.Code == 0 || !strings.Contains(r.Stderr, "kubectl create namespace "+ns) {
		t.Errorf("undelete without the namespace: code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	fleettest.Create(t, fleet.Hub, namespace.DeepCopy())
	next := mayUndelete(t, fleet, ns, "deployments", "secrets")
	if got := deletedIn(t.Context(), t, next, ns); len(got) > 0 {
		t.Errorf("the next tenant of a namespace sees what the last one deleted: %v", got)
	}
	command(t, fleet.Hub.Kubeconfig, "undelete", "-n", ns, "--all")
	fleettest.ExpectEventually(t, fleet.Member("member1"), fleettest.Deployment(ns, "web", 1), hasImage("nginx"))
	fleettest.ExpectEventually(t, fleet.Member("member1"), fleettest.Secret(ns, "token", nil), fleettest.Exists)
}

// timelineOf is what happened in a namespace lately, as a user sees it.
func timelineOf(t *testing.T, as *fleettest.Cluster, ns string) []string {
	t.Helper()
	question := &fleetv1alpha1.Timeline{Spec: fleetv1alpha1.TimelineSpec{Namespace: ns}}
	if err := as.Create(t.Context(), question); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range question.Status.Entries {
		lines = append(lines, fmt.Sprintf("%s %s/%s %s: %s", e.Source, e.Object.Kind, e.Object.Name, e.Reason, e.Message))
	}
	return lines
}

// TestTimeline: changes, moves and deletions are in one list, of which a user sees what he may get.
func TestTimeline(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	record(t, fleet, ns)
	other := fleettest.ConfigMap(ns, "other", nil)
	fleettest.Create(t, fleet.Hub, other, fleettest.Policy(ns, "other", fleettest.To("member1"), other))
	fleettest.ExpectEventually(t, fleet.Member("member1"), other.DeepCopy(), fleettest.Exists)
	fleettest.Delete(t, fleet.Hub, other)
	expectDeleted(t, fleet, ns, "ConfigMap/other")
	lines := timelineOf(t, fleet.Hub, ns)
	at := -1
	for _, want := range []string{
		"Revision Deployment/web 2: image web:1.2 → web:1.3", "Revision Deployment/web 3: clusters +member2", "Revision Deployment/web 4: override +team",
		"Deletion ConfigMap/other : deleted",
	} {
		next := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) })
		if next <= at {
			t.Errorf("%q is at %d, want it after %d:\n%s", want, next, at, strings.Join(lines, "\n"))
		}
		at = next
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "ScheduleBindingSucceed") }) {
		t.Errorf("no event of the scheduler is in\n%s", strings.Join(lines, "\n"))
	}
	if out := command(t, fleet.Hub.Kubeconfig, "timeline", "-n", ns, "--since", "10m"); !strings.Contains(out, "revision 2: image web:1.2 → web:1.3") {
		t.Errorf("flagship timeline printed\n%s", out)
	}

	tenant := fleet.Hub.Tenant(t, ns, "configmaps")
	fleet.Hub.ClusterRights(t, "tenant-"+ns, rbacv1.PolicyRule{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"timelines"}, Verbs: []string{"create"}})
	tenant.AwaitRight(t, authorizationv1.ResourceAttributes{Verb: "create", Group: fleetv1alpha1.GroupName, Resource: "timelines"})
	if got := timelineOf(t, tenant, ""); !slices.Equal(got, []string{"Deletion ConfigMap/other : deleted"}) {
		t.Errorf("a tenant who may get ConfigMaps of one namespace sees\n%s", strings.Join(got, "\n"))
	}
}
