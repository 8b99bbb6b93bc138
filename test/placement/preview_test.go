package placement_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// manifestOf is an object as a user writes it.
func manifestOf(t *testing.T, c *fleettest.Cluster, obj client.Object) map[string]any {
	t.Helper()
	kind, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	content["apiVersion"], content["kind"] = kind.ToAPIVersionAndKind()
	delete(content, "status")
	delete(content["metadata"].(map[string]any), "creationTimestamp")
	return content
}

// previewOf creates a Preview of objects that are applied, or deleted, and returns the answer.
func previewOf(t *testing.T, as *fleettest.Cluster, spec fleetv1alpha1.PreviewSpec, objects ...client.Object) fleetv1alpha1.PreviewStatus {
	t.Helper()
	for _, obj := range objects {
		raw, err := json.Marshal(manifestOf(t, as, obj))
		if err != nil {
			t.Fatal(err)
		}
		spec.Apply = append(spec.Apply, runtime.RawExtension{Raw: raw})
	}
	p := &fleetv1alpha1.Preview{Spec: spec}
	if err := as.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p.Status
}

// placementOf is where an answer places an object, as a text.
func placementOf(t *testing.T, status fleetv1alpha1.PreviewStatus, kind, name string) string {
	t.Helper()
	var out []string
	for _, p := range status.Placements {
		if p.Object.Kind != kind || p.Object.Name != name {
			continue
		}
		for _, c := range p.Clusters {
			out = append(out, fmt.Sprintf("%s:%s>%s", c.Name, count(c.From), count(c.To)))
		}
	}
	return strings.Join(out, " ")
}

func count(n *int32) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// placedAt is a condition of a binding: the clusters with their replicas, as a text.
func placedAt(want string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		var out []string
		for _, c := range b.Spec.Clusters {
			out = append(out, fmt.Sprintf("%s:%d", c.Name, c.Replicas))
		}
		slices.Sort(out)
		if got := strings.Join(out, " "); got != want {
			return fmt.Errorf("it is placed at %q, want %q", got, want)
		}
		return nil
	}
}

// TestPreview: what a preview has is what happens when the change is made. It takes a minute beside other tests, which change what it previews.
func TestPreview(t *testing.T) {
	fleettest.NeedsPushMode(t, "it compares members with a dry run through the proxy")
	fleet := fleettest.Start(t, fleettest.Options{Members: 2})
	ns := fleet.Namespace(t)
	for _, m := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(m), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	}
	web := fleettest.Deployment(ns, "web", 3)
	rule := fleettest.Policy(ns, "web", fleettest.Divided(fleettest.Weight{Cluster: "member1", Weight: 1}, fleettest.Weight{Cluster: "member2", Weight: 2}), web)
	rule.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{PurgeMode: policyv1alpha1.PurgeModeGracefully}}
	bound := binding(ns, "Deployment", "web")

	t.Run("NewDeployment", func(t *testing.T) {
		status := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{}, web, rule)
		if got := placementOf(t, status, "Deployment", "web"); got != "member1:->1 member2:->2" || !status.Changes {
			t.Fatalf("the preview places it at %q: %+v", got, status)
		}
		if len(status.Policies) != 1 || status.Policies[0].To == nil || status.Policies[0].To.Name != "web" || len(status.Copies) != 2 {
			t.Errorf("policies and copies are %+v, %+v", status.Policies, status.Copies)
		}
		for _, gone := range []client.Object{web.DeepCopy(), rule.DeepCopy()} {
			if err := fleet.Hub.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
				t.Errorf("a preview stored %T: %v", gone, err)
			}
		}
		fleettest.Create(t, fleet.Hub, web.DeepCopy(), rule.DeepCopy())
		fleettest.ExpectEventually(t, fleet.Hub, bound, placedAt("member1:1 member2:2"))
		for m, n := range map[string]int32{"member1": 1, "member2": 2} {
			fleettest.ExpectEventually(t, fleet.Member(m), web.DeepCopy(), fleettest.Replicas(n))
		}
		if again := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{}, web, rule); again.Changes {
			t.Errorf("what was applied changes once more: %+v", again)
		}
	})
	t.Run("ChangedPolicy", func(t *testing.T) {
		changed := rule.DeepCopy()
		changed.Spec.Placement = fleettest.Divided(fleettest.Weight{Cluster: "member1", Weight: 2}, fleettest.Weight{Cluster: "member2", Weight: 1})
		status := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{}, changed)
		if got := placementOf(t, status, "Deployment", "web"); got != "member1:1>2 member2:2>1" {
			t.Fatalf("the preview places it at %q: %+v", got, status)
		}
		for _, c := range status.Copies {
			if len(c.Fields) != 1 || c.Fields[0].Path != "/spec/replicas" {
				t.Errorf("in %v other fields change: %v", c.Clusters, c.Fields)
			}
		}
		fleettest.Update(t, fleet.Hub, rule.DeepCopy(), func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = changed.Spec.Placement })
		fleettest.ExpectEventually(t, fleet.Hub, bound, placedAt("member1:2 member2:1"))
	})
	t.Run("Taint", func(t *testing.T) {
		member2 := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member2"}}
		if err := fleet.Hub.Get(t.Context(), client.ObjectKeyFromObject(member2), member2); err != nil {
			t.Fatal(err)
		}
		tainted := member2.DeepCopy()
		tainted.ManagedFields, tainted.ResourceVersion = nil, ""
		tainted.Spec.Taints = append(tainted.Spec.Taints, corev1.Taint{Key: "repair", Effect: corev1.TaintEffectNoExecute})
		status := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{}, tainted)
		if got := placementOf(t, status, "Deployment", "web"); got != "member1:2>3 member2:1>-" {
			t.Fatalf("the preview places it at %q: %+v", got, status)
		}
		if e := status.Placements[0].Clusters[1].Eviction; !strings.Contains(e, "repair") {
			t.Errorf("the reason of the eviction is %q", e)
		}
		fleettest.Update(t, fleet.Hub, member2, func(c *clusterv1alpha1.Cluster) { c.Spec.Taints = tainted.Spec.Taints })
		fleettest.ExpectEventually(t, fleet.Hub, bound, placedAt("member1:3"))
		fleettest.ExpectGone(t, fleet.Member("member2"), web.DeepCopy())
	})
	t.Run("BrokenManifest", func(t *testing.T) {
		broken := fleettest.Deployment(ns, "broken", 1)
		broken.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
		status := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{}, broken, fleettest.ConfigMap(ns, "fine", nil))
		if len(status.Refused) != 1 || !strings.Contains(status.Refused[0].Message, "selector") || len(status.Objects) != 1 {
			t.Errorf("the answer is %+v", status)
		}
	})
	t.Run("Members", func(t *testing.T) { membersArePreviewed(t, fleet, ns) })
	t.Run("Tenant", func(t *testing.T) { tenantsPreview(t, fleet, ns) })
	t.Run("Command", func(t *testing.T) { commandPreviews(t, fleet, web) })
	t.Run("Deletion", func(t *testing.T) {
		id := fleetv1alpha1.ObjectIdentity{APIVersion: "apps/v1", Kind: "Deployment", Namespace: ns, Name: "web"}
		status := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{Delete: []fleetv1alpha1.ObjectIdentity{id}})
		if got := placementOf(t, status, "Deployment", "web"); got != "member1:3>-" {
			t.Errorf("the preview places it at %q: %+v", got, status)
		}
		if len(status.Copies) != 1 || status.Copies[0].Action != fleetv1alpha1.PreviewDelete || !slices.Equal(status.Copies[0].Clusters, []string{"member1"}) {
			t.Errorf("copies are %+v", status.Copies)
		}
		if err := fleet.Hub.Get(t.Context(), client.ObjectKeyFromObject(web), &appsv1.Deployment{}); err != nil {
			t.Fatalf("after a preview: %v", err)
		}
		fleettest.Delete(t, fleet.Hub, web.DeepCopy())
		fleettest.ExpectGone(t, fleet.Member("member1"), web.DeepCopy())
	})
}

// membersArePreviewed: a dry run in a member has what the member adds, a Secret has no values, and what has no right is not read.
func membersArePreviewed(t *testing.T, fleet *fleettest.Fleet, ns string) {
	service := fleettest.Service(ns, "front")
	secret := fleettest.Secret(ns, "key", map[string]string{"password": "correct-horse"})
	rule := fleettest.Policy(ns, "front", fleettest.To("member1"), service, secret)
	var status fleetv1alpha1.PreviewStatus
	fleettest.Eventually(t, "member1 answers in time", func() bool {
		status = previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{Members: true}, service, secret, rule)
		return !slices.ContainsFunc(status.Copies, func(c fleetv1alpha1.PreviewCopy) bool { return strings.Contains(c.Message, "does not answer") })
	})
	found := map[string]string{}
	for _, c := range status.Copies {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		found[c.Object.Kind] = string(raw)
		if len(c.Member) == 0 || c.Message != "" {
			t.Errorf("%s has no dry run: %s", c.Object.Kind, raw)
		}
	}
	if !strings.Contains(found["Service"], "clusterIP") {
		t.Errorf("the field that the member sets is not in %s", found["Service"])
	}
	all, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"correct-horse", "Y29ycmVjdC1ob3JzZQ"} {
		if strings.Contains(string(all), value) {
			t.Errorf("the value of a Secret is in the answer: %s", all)
		}
	}
}

// tenantsPreview: a tenant needs the rights of the change, and sees nothing that he may not get.
func tenantsPreview(t *testing.T, fleet *fleettest.Fleet, ns string) {
	tenant := fleet.Hub.Tenant(t, ns, "propagationpolicies", "configmaps")
	mine := fleettest.ConfigMap(ns, "mine", nil)
	rule := fleettest.Policy(ns, "mine", fleettest.To("member1"), mine)
	if err := tenant.Create(t.Context(), &fleetv1alpha1.Preview{}); !apierrors.IsForbidden(err) {
		t.Errorf("without the right to create Previews: %v", err)
	}
	fleet.Hub.ClusterRights(t, "tenant-"+ns, rbacv1.PolicyRule{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"previews"}, Verbs: []string{"create"}})
	tenant.AwaitRight(t, authorizationv1.ResourceAttributes{Verb: "create", Group: fleetv1alpha1.GroupName, Resource: "previews"})
	hidden := fleet.Namespace(t)
	status := previewOf(t, tenant, fleetv1alpha1.PreviewSpec{Members: true}, mine, rule, fleettest.ConfigMap(hidden, "theirs", nil), fleettest.Deployment(ns, "web", 9))
	if len(status.Refused) != 2 || status.Refused[0].Reason != string(metav1.StatusReasonForbidden) || status.Refused[1].Reason != string(metav1.StatusReasonForbidden) {
		t.Errorf("without rights: %+v", status.Refused)
	}
	if len(status.Objects) != 2 || len(status.Policies) != 1 || !status.Hidden || len(status.Placements)+len(status.Copies) > 0 {
		t.Errorf("a tenant who may get no bindings: %+v", status)
	}
	fleet.Hub.ClusterRights(t, "tenant-"+ns, rbacv1.PolicyRule{APIGroups: []string{"work.karmada.io"}, Resources: []string{"resourcebindings"}, Verbs: []string{"get"}})
	tenant.AwaitRight(t, authorizationv1.ResourceAttributes{Namespace: ns, Verb: "get", Group: "work.karmada.io", Resource: "resourcebindings"})
	status = previewOf(t, tenant, fleetv1alpha1.PreviewSpec{Members: true}, mine, rule)
	if got := placementOf(t, status, "ConfigMap", "mine"); got != "member1:->0" || len(status.Copies) > 0 {
		t.Errorf("a tenant who may get bindings and no clusters: %q, %+v", got, status)
	}
	work := &fleetv1alpha1.Preview{Spec: fleetv1alpha1.PreviewSpec{Apply: []runtime.RawExtension{{Raw: []byte(`{"apiVersion":"work.karmada.io/v1alpha1","kind":"Work","metadata":{"name":"x","namespace":"karmada-es-member1"}}`)}}}}
	if err := tenant.Create(t.Context(), work); err != nil || len(work.Status.Refused) != 1 {
		t.Errorf("a preview of a Work: %v, %+v", err, work.Status)
	}
	for reason, spec := range map[string]fleetv1alpha1.PreviewSpec{
		"need 1 to 500": {}, "is no manifest": {Apply: []runtime.RawExtension{{Raw: []byte(`{"a":1}`)}}},
		"needs apiVersion": {Delete: []fleetv1alpha1.ObjectIdentity{{Name: "x"}}},
	} {
		if err := tenant.Create(t.Context(), &fleetv1alpha1.Preview{Spec: spec}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%+v: %v, want %q", spec, err, reason)
		}
	}
}

// commandPreviews: the command has the exit codes of "kubectl diff", and an export gives the same answer.
func commandPreviews(t *testing.T, fleet *fleettest.Fleet, web *appsv1.Deployment) {
	changed := web.DeepCopy()
	changed.Spec.Replicas = ptr.To(int32(5))
	dir := t.TempDir()
	write := func(name string, obj client.Object) string {
		text, err := yaml.Marshal(manifestOf(t, fleet.Hub, obj))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	same, more := write("same.yaml", web), write("more.yaml", changed)
	hub := []string{"--kubeconfig", fleet.Hub.Kubeconfig}
	run := func(args ...string) fleettest.Result {
		t.Helper()
		return fleettest.Flagship(t, append([]string{"preview"}, args...)...)
	}
	if r := run(append(hub, "-f", same)...); r.Code != 0 || !strings.Contains(r.Stdout, "Nothing changes") {
		t.Errorf("nothing changes: %+v", r)
	}
	live := run(append(hub, "-f", more)...)
	if live.Code != 1 || !strings.Contains(live.Stdout, "member1: 3 → 5 replicas") || live.Stderr != "" {
		t.Errorf("a change: %+v", live)
	}
	if r := run(append(hub, "-f", filepath.Join(dir, "absent"))...); r.Code != 2 {
		t.Errorf("a file that does not exist: %+v", r)
	}
	file := filepath.Join(dir, "fleet.yaml")
	if r := run(append(hub, "--export", file)...); r.Code != 0 {
		t.Fatalf("the export: %+v", r)
	}
	if r := run("--hub-snapshot", file, "-f", same); r.Code != 0 {
		t.Errorf("nothing changes, by an export: %+v", r)
	}
	if r := run("--hub-snapshot", file, "-f", more); r.Stdout != live.Stdout {
		t.Errorf("an export gives\n%s\nthe control plane\n%s", r.Stdout, live.Stdout)
	}
	for _, line := range strings.Split(run(append(hub, "-f", more, "-o", "table")...).Stdout, "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("%d letters wide: %s", len([]rune(line)), line)
		}
	}
	if err := fleet.Hub.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || *web.Spec.Replicas != 3 {
		t.Errorf("a preview changed the object: %v %v", err, *web.Spec.Replicas)
	}
}
