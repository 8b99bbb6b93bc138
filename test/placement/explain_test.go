package placement_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// question is about a ConfigMap.
func question(ns, name string) *fleetv1alpha1.Explanation {
	return &fleetv1alpha1.Explanation{Spec: fleetv1alpha1.ExplanationSpec{Kind: "ConfigMap", Namespace: ns, Name: name}}
}

// ask creates a question and returns its steps, as one text each.
func ask(t *testing.T, as *fleettest.Cluster, q *fleetv1alpha1.Explanation) []string {
	t.Helper()
	if err := as.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range q.Status.Steps {
		line := fmt.Sprintf("%s %s %s %s", s.Stage, s.Cluster, s.Outcome, s.Message)
		if s.Object != nil {
			line += " of " + s.Object.Kind + " " + s.Object.Name
		}
		for _, e := range s.Fields {
			line += fmt.Sprintf(" %s:%s>%s", e.Path, e.From, e.To)
		}
		out = append(out, line+" "+strings.Join(s.Remedies, ", "))
	}
	return out
}

// expects fails unless some step has each of the texts.
func expects(t *testing.T, steps []string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !slices.ContainsFunc(steps, func(s string) bool { return strings.Contains(s, text) }) {
			t.Errorf("no step has %q:\n%s", text, strings.Join(steps, "\n"))
		}
	}
}

// explained has a ConfigMap in the west, by one of two policies, with an override of the administrator there and one of the tenant.
func explained(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	settings := fleettest.ConfigMap(ns, "settings", nil)
	west := policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "west"}}}}
	labels := func(value string) []policyv1alpha1.RuleWithCluster {
		return []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
			{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"team": value}},
		}}}}
	}
	selector := []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Namespace: ns, Name: "settings"}}
	wide := &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "hidden-override-" + ns}}
	wide.Spec.ResourceSelectors, wide.Spec.OverrideRules = selector, labels("hidden-value")
	own := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "own"}}
	own.Spec.ResourceSelectors, own.Spec.OverrideRules = selector, labels("front")
	fleettest.Create(t, fleet.Hub, settings, wide, own, fleettest.Policy(ns, "winner", west, settings))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "settings"), placed("west-1", "west-2", "west-3"))
	// The first policy that is seen holds the object, and the kinds of policies are watched one by one: two at once may be seen in either order.
	hidden := fleettest.ClusterPolicy("hidden-policy-"+ns, fleettest.To("east-1"), settings)
	fleettest.Create(t, fleet.Hub, hidden)
	fleettest.Eventually(t, "an explanation with the second policy", func() bool {
		return slices.ContainsFunc(ask(t, fleet.Hub, question(ns, "settings")), func(step string) bool { return strings.Contains(step, hidden.Name) })
	})
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace("west-1"), Name: workv1alpha1.WorkName("ConfigMap", ns, "settings"),
	}}
	fleettest.ExpectEventually(t, fleet.Hub, work, fleettest.Exists)
}

// TestExplainOfAnOperator: who may get everything sees the whole path.
func TestExplainOfAnOperator(t *testing.T) {
	fleet, ns := start(t)
	explained(t, fleet, ns)
	q := question(ns, "settings")
	steps := ask(t, fleet.Hub, q)
	expects(t, steps,
		"Template  Done",
		"Policy  Done selects the object by name, priority 0 of PropagationPolicy winner",
		"Policy  Dropped PropagationPolicy "+ns+"/winner, which holds it, is of the object's own namespace of ClusterPropagationPolicy hidden-policy-"+ns,
		"Binding  Done scheduled to west-1, west-2, west-3",
		"Cluster west-1 Done chosen",
		"Cluster east-2 Dropped does not match clusterAffinity.labelSelector label the cluster region=west",
		`Override west-1 Done rule 0: applied of ClusterOverridePolicy hidden-override-`+ns+` /metadata/annotations/team:>"hidden-value"`,
		`Override west-1 Done rule 0: applied of OverridePolicy own /metadata/annotations/team:"hidden-value">"front"`,
		"Work west-1 Done",
	)
	if q.Status.Summary == "" || q.Status.Object == nil || q.Status.Object.Name != "settings" || q.Name != "" {
		t.Errorf("the answer is %+v", q)
	}

	one := question(ns, "settings")
	one.Spec.Cluster = "east-2"
	for _, step := range ask(t, fleet.Hub, one) {
		if strings.Contains(step, " west-1 ") {
			t.Errorf("a step about another cluster: %s", step)
		}
	}

	other := question(ns, "setings")
	if ask(t, fleet.Hub, other); other.Status.Object != nil || len(other.Status.Instead) == 0 || other.Status.Instead[0].Name != "settings" {
		t.Errorf("instead of what does not exist: %+v", other.Status)
	}
	for reason, spec := range map[string]fleetv1alpha1.ExplanationSpec{
		"is no name of a cluster":             {Kind: "ConfigMap", Namespace: ns, Name: "settings", Member: "*"},
		"the namespace of the OverridePolicy": {Kind: "OverridePolicy", Name: "hidden-override-" + ns},
		"is no kind that is propagated":       {Kind: "Frigate", Name: "x"}, "spec needs a name": {Kind: "ConfigMap", Resource: "configmaps", Name: "x"},
	} {
		if err := fleet.Hub.Create(t.Context(), &fleetv1alpha1.Explanation{Spec: spec}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%+v: %v, want %q", spec, err, reason)
		}
	}
	othersAreExplained(t, fleet, ns)
	nothingIsStored(t, fleet)
	kubectlExplains(t, fleet, ns)
	commandExplains(t, fleet, ns)
}

// othersAreExplained has each object on the path of the ConfigMap explained.
func othersAreExplained(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	work := workv1alpha1.WorkName("ConfigMap", ns, "settings")
	for _, tc := range []struct {
		kind, namespace, name string
		want                  []string
	}{
		{"PropagationPolicy", ns, "winner", []string{
			"Template  Done belongs to this policy of ConfigMap settings", "Binding  Done scheduled to west-1, west-2, west-3 of ResourceBinding settings-configmap",
		}},
		{"ClusterPropagationPolicy", "", "hidden-policy-" + ns, []string{
			"Template  Dropped is selected, and belongs to PropagationPolicy " + ns + "/winner of ConfigMap settings",
		}},
		{"OverridePolicy", ns, "own", []string{
			"Override west-1 Done ConfigMap " + ns + "/settings, rule 0: applied of OverridePolicy own /metadata/annotations/team:\"hidden-value\">\"front\"",
		}},
		{"ClusterOverridePolicy", "", "hidden-override-" + ns, []string{"Override west-2 Done ConfigMap " + ns + "/settings, rule 0: applied of ClusterOverridePolicy"}},
		{"Cluster", "", "west-1", []string{"Cluster west-1 Done Ready is True", "Work west-1 Waiting Work " + work + ": not applied yet"}},
		{"Work", workv1alpha1.ExecutionNamespace("west-1"), work, []string{
			"Binding  Done the Work is written from this binding of ResourceBinding settings-configmap", "Work west-1 Waiting not applied yet",
		}},
	} {
		q := &fleetv1alpha1.Explanation{Spec: fleetv1alpha1.ExplanationSpec{Kind: tc.kind, Namespace: tc.namespace, Name: tc.name}}
		expects(t, ask(t, fleet.Hub, q), tc.want...)
		if q.Status.Object == nil || q.Status.Object.Name != tc.name {
			t.Errorf("the answer is about %+v", q.Status.Object)
		}
		q.Spec.Name = tc.name + "x"
		if ask(t, fleet.Hub, q); q.Status.Object != nil || !strings.HasPrefix(q.Status.Summary, "There is no ") {
			t.Errorf("about a %s that does not exist: %+v", tc.kind, q.Status)
		}
		if !slices.ContainsFunc(q.Status.Instead, func(o fleetv1alpha1.ObjectIdentity) bool { return o.Kind == tc.kind && o.Name == tc.name }) {
			t.Errorf("instead of a %s that does not exist: %+v", tc.kind, q.Status.Instead)
		}
	}
}

// nothingIsStored sends the other requests that a kind may have.
func nothingIsStored(t *testing.T, fleet *fleettest.Fleet) {
	t.Helper()
	web, err := rest.HTTPClientFor(fleet.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		for _, path := range []string{"", "/x"} {
			request, err := http.NewRequestWithContext(t.Context(), method, fleet.Hub.Config.Host+"/apis/fleet.flagship.io/v1alpha1/explanations"+path,
				strings.NewReader(`{"apiVersion":"fleet.flagship.io/v1alpha1","kind":"Explanation","metadata":{"name":"x"},"spec":{"name":"x","kind":"ConfigMap"}}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/apply-patch+yaml")
			response, err := web.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusMethodNotAllowed && response.StatusCode != http.StatusNotFound {
				t.Errorf("%s explanations%s: %s", method, path, response.Status)
			}
		}
	}
}

func commandExplains(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	flagship := func(args ...string) fleettest.Result {
		return fleettest.Flagship(t, append([]string{"explain", "--kubeconfig", fleet.Hub.Kubeconfig, "-n", ns}, args...)...)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"cm/settings"}, "to let it in: label the cluster region=west"},
		{[]string{"configmaps", "settings", "-o", "table"}, "STAGE"},
		{[]string{"configmap/settings", "--cluster", "west-1"}, "cluster west-1"},
	} {
		if r := flagship(tc.args...); r.Code != 0 || !strings.Contains(r.Stdout, tc.want) {
			t.Errorf("flagship explain %v: code %d, want %q in\n%s%s", tc.args, r.Code, tc.want, r.Stdout, r.Stderr)
		}
	}
	if r := flagship("cm/setings"); r.Code != 1 || !strings.HasSuffix(r.Stderr, "try: flagship explain configmap/settings -n "+ns+"\n") {
		t.Errorf("what does not exist: code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := flagship("frigate/x"); r.Code != 1 || !strings.HasSuffix(r.Stderr, "kubectl api-resources\n") {
		t.Errorf("what is not served: code %d\n%s", r.Code, r.Stderr)
	}
	var answer fleetv1alpha1.Explanation
	if r := flagship("cm/settings", "-o", "json"); json.Unmarshal([]byte(r.Stdout), &answer) != nil || len(answer.Status.Steps) == 0 {
		t.Errorf("the answer as JSON: %s", r.Stdout)
	}
}

// kubectlExplains calls the command by the name of a file alone: by kubectl where it is installed, and otherwise as kubectl would.
func kubectlExplains(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	binary, err := fleettest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plugin := filepath.Join(dir, "kubectl-flagship")
	if err := os.Symlink(binary, plugin); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("KUBECONFIG", fleet.Hub.Kubeconfig)
	command := []string{"kubectl", "flagship"}
	if _, err := exec.LookPath("kubectl"); err != nil {
		command = []string{plugin}
	}
	command = append(command, "explain", "cm/settings", "-n", ns)
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "ConfigMap "+ns+"/settings\n") {
		t.Errorf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

// TestExplainOfATenant: what the user may not get is not in the answer, neither its content nor its name.
func TestExplainOfATenant(t *testing.T) {
	fleet, ns := start(t)
	explained(t, fleet, ns)
	tenant := fleet.Hub.Tenant(t, ns, "overridepolicies", "propagationpolicies", "configmaps")
	if err := tenant.Create(t.Context(), question(ns, "settings")); !apierrors.IsForbidden(err) {
		t.Errorf("without the right to create Explanations: %v", err)
	}
	fleet.Hub.ClusterRights(t, "tenant-"+ns, rbacv1.PolicyRule{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"explanations"}, Verbs: []string{"create"}})
	tenant.AwaitRight(t, authorizationv1.ResourceAttributes{Verb: "create", Group: fleetv1alpha1.GroupName, Resource: "explanations"})

	q := question(ns, "settings")
	steps := ask(t, tenant, q)
	expects(t, steps,
		"Policy  Done selects the object by name, priority 0 of PropagationPolicy winner",
		"Policy  Hidden needs get on clusterpropagationpolicies.policy.karmada.io",
		"Binding  Hidden needs get on resourcebindings.work.karmada.io",
		"Cluster  Hidden needs get on resourcebindings.work.karmada.io",
	)
	fleet.Hub.ClusterRights(t, "tenant-"+ns, rbacv1.PolicyRule{APIGroups: []string{"work.karmada.io"}, Resources: []string{"resourcebindings"}, Verbs: []string{"get"}})
	tenant.AwaitRight(t, authorizationv1.ResourceAttributes{Namespace: ns, Verb: "get", Group: "work.karmada.io", Resource: "resourcebindings"})
	steps = ask(t, tenant, question(ns, "settings"))
	expects(t, steps,
		"Binding  Done scheduled to west-1, west-2, west-3",
		"Cluster  Hidden needs get on clusters.cluster.karmada.io",
		"Work  Hidden needs get on works.work.karmada.io",
	)
	for _, secret := range []string{"hidden-", "east-"} {
		if i := slices.IndexFunc(steps, func(s string) bool { return strings.Contains(s, secret) }); i >= 0 {
			t.Errorf("%q is in an answer to a tenant: %s", secret, steps[i])
		}
	}

	for kind, name := range map[string]string{"ClusterOverridePolicy": "hidden-override-" + ns, "Cluster": "west-1", "Work": "absent"} {
		q := &fleetv1alpha1.Explanation{Spec: fleetv1alpha1.ExplanationSpec{Kind: kind, Namespace: ns, Name: name}}
		if err := tenant.Create(t.Context(), q); !apierrors.IsForbidden(err) {
			t.Errorf("about the %s %s: %v, want Forbidden", kind, name, err)
		}
	}
	rules := &fleetv1alpha1.Explanation{Spec: fleetv1alpha1.ExplanationSpec{Kind: "OverridePolicy", Namespace: ns, Name: "own"}}
	for _, step := range ask(t, tenant, rules) {
		if strings.Contains(step, "hidden-value") {
			t.Errorf("what another policy wrote is in an answer to a tenant: %s", step)
		}
	}

	elsewhere := fleet.Namespace(t)
	hidden := fleettest.ConfigMap(elsewhere, "absent", nil)
	fleettest.Create(t, fleet.Hub, fleettest.ConfigMap(elsewhere, "settings", nil), hidden, fleettest.Policy(elsewhere, "absent", fleettest.To("east-1"), hidden))
	for _, name := range []string{"settings", "nothing"} {
		if err := tenant.Create(t.Context(), question(elsewhere, name)); !apierrors.IsForbidden(err) {
			t.Errorf("%s of another tenant: %v, want Forbidden whether it exists or not", name, err)
		}
	}
	for _, kind := range []string{"ConfigMap", "PropagationPolicy"} {
		absent := question(ns, "absent")
		absent.Spec.Kind = kind
		if ask(t, tenant, absent); len(absent.Status.Instead) > 0 {
			t.Errorf("instead of a %s that does not exist, a tenant sees %v", kind, absent.Status.Instead)
		}
	}
}
