package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

var deploymentKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

type policyOption func(*metav1.ObjectMeta, *policyv1alpha1.PropagationSpec)

// pp is a policy of namespace shop, cpp a cluster-wide one; both select Deployments and have the id "<name>-id".
func pp(name string, options ...policyOption) *policyv1alpha1.PropagationPolicy {
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: "uid-" + "pp",
		Labels: map[string]string{policyv1alpha1.PropagationPolicyPermanentIDLabel: name + "-id"},
	}}
	return configured(p, &p.ObjectMeta, options)
}

func cpp(name string, options ...policyOption) *policyv1alpha1.ClusterPropagationPolicy {
	p := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel: name + "-id"},
	}}
	return configured(p, &p.ObjectMeta, options)
}

func configured[P policyv1alpha1.Propagation](p P, meta *metav1.ObjectMeta, options []policyOption) P {
	for _, option := range options {
		option(meta, p.PropagationSpec())
	}
	if len(p.PropagationSpec().ResourceSelectors) == 0 {
		selecting("")(meta, p.PropagationSpec())
	}
	return p
}

// selecting adds a selector for Deployments: by name, by "key=value", or any.
func selecting(what string) policyOption {
	return func(_ *metav1.ObjectMeta, spec *policyv1alpha1.PropagationSpec) {
		selector := policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment"}
		if key, value, ok := strings.Cut(what, "="); ok {
			selector.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
		} else {
			selector.Name = what
		}
		spec.ResourceSelectors = append(spec.ResourceSelectors, selector)
	}
}

func inNamespace(namespace string) policyOption {
	return func(meta *metav1.ObjectMeta, _ *policyv1alpha1.PropagationSpec) { meta.Namespace = namespace }
}

func priority(n int32) policyOption {
	return func(_ *metav1.ObjectMeta, spec *policyv1alpha1.PropagationSpec) { spec.Priority = ptr.To(n) }
}

func preempting(_ *metav1.ObjectMeta, spec *policyv1alpha1.PropagationSpec) {
	spec.Preemption = policyv1alpha1.PreemptAlways
}

func deleting(meta *metav1.ObjectMeta, _ *policyv1alpha1.PropagationSpec) {
	meta.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
	meta.Finalizers = []string{policyv1alpha1.PropagationPolicyFinalizer}
}

func with(change func(*policyv1alpha1.PropagationSpec)) policyOption {
	return func(_ *metav1.ObjectMeta, spec *policyv1alpha1.PropagationSpec) { change(spec) }
}

var web = Subject{
	GroupVersionKind: deploymentKind, Namespace: "shop", Name: "web",
	Labels: map[string]string{"tier": "front"},
}

func TestChoose(t *testing.T) {
	type policies = []policyv1alpha1.Propagation
	for reason, tc := range map[string]struct {
		policies policies
		want     string // winner
		dropped  map[string]string
	}{
		"nothing selects it": {
			policies: policies{pp("a", selecting("other")), pp("b", selecting("tier=back"))},
			want:     "",
			dropped: map[string]string{
				"PropagationPolicy shop/a": "selects Deployment by other names",
				"PropagationPolicy shop/b": "selects Deployment with labels tier=back",
			},
		},
		"a namespaced policy beats a cluster-wide one of any priority and precision": {
			policies: policies{cpp("a", selecting("web"), priority(100)), pp("b")},
			want:     "b",
			dropped:  map[string]string{"ClusterPropagationPolicy a": "PropagationPolicy shop/b is of the object's own namespace"},
		},
		"priority beats precision": {
			policies: policies{pp("a", selecting("web")), pp("b", priority(1))},
			want:     "b",
			dropped:  map[string]string{"PropagationPolicy shop/a": "PropagationPolicy shop/b has priority 1, this one 0"},
		},
		"a name beats labels": {
			policies: policies{pp("a", selecting("tier=front")), pp("b", selecting("web"))},
			want:     "b",
			dropped:  map[string]string{"PropagationPolicy shop/a": "PropagationPolicy shop/b selects the object by name, this one by labels"},
		},
		"labels beat the kind alone": {
			policies: policies{pp("a"), pp("b", selecting("tier=front"))},
			want:     "b",
			dropped:  map[string]string{"PropagationPolicy shop/a": "PropagationPolicy shop/b selects the object by labels, this one by kind"},
		},
		"the best of several selectors counts": {
			policies: policies{pp("a", selecting("tier=front")), pp("b", selecting(""), selecting("web"))},
			want:     "b",
			dropped:  map[string]string{"PropagationPolicy shop/a": "PropagationPolicy shop/b selects the object by name, this one by labels"},
		},
		"the smaller name decides in the end": {
			policies: policies{pp("b"), pp("a")},
			want:     "a",
			dropped:  map[string]string{"PropagationPolicy shop/b": "PropagationPolicy shop/a has the smaller name"},
		},
		"policies being deleted do not count": {
			policies: policies{pp("a", deleting), pp("b")},
			want:     "b",
			dropped:  map[string]string{"PropagationPolicy shop/a": "is being deleted"},
		},
		"a policy of another namespace does not count": {
			policies: policies{pp("a", inNamespace("bank"))},
			dropped:  map[string]string{"PropagationPolicy bank/a": "is of another namespace"},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			decision := Choose(web, tc.policies)
			got := ""
			if decision.Winner != nil {
				got = decision.Winner.GetName()
			}
			if got != tc.want {
				t.Errorf("winner %q, want %q", got, tc.want)
			}
			dropped := map[string]string{}
			for _, c := range decision.Candidates {
				if c.Dropped != "" {
					dropped[c.Policy.String()] = c.Dropped
				}
			}
			if diff := cmp.Diff(tc.dropped, dropped); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectors(t *testing.T) {
	selector := func(change func(*policyv1alpha1.ResourceSelector)) policyOption {
		return with(func(spec *policyv1alpha1.PropagationSpec) {
			s := policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment"}
			change(&s)
			spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{s}
		})
	}
	role := Subject{GroupVersionKind: schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, Name: "web"}
	for reason, tc := range map[string]struct {
		subject Subject
		policy  policyv1alpha1.Propagation
		want    Rank
	}{
		"another kind": {web, pp("p", selector(func(s *policyv1alpha1.ResourceSelector) { s.Kind = "StatefulSet" })), RankNone},
		"another version that is served": {func() Subject {
			s := web
			s.OtherVersions = []string{"v1beta1"}
			return s
		}(), pp("p", selector(func(s *policyv1alpha1.ResourceSelector) { s.APIVersion = "apps/v1beta1" })), RankKind},
		"another version": {web, pp("p", selector(func(s *policyv1alpha1.ResourceSelector) { s.APIVersion = "apps/v1beta1" })), RankNone},
		"labels are ignored beside a name": {web, pp("p", selector(func(s *policyv1alpha1.ResourceSelector) {
			s.Name = "web"
			s.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
		})), RankName},
		"an empty label selector is everything": {web, pp("p", selector(func(s *policyv1alpha1.ResourceSelector) { s.LabelSelector = &metav1.LabelSelector{} })), RankLabels},
		"an invalid label selector is nothing": {web, pp("p", selector(func(s *policyv1alpha1.ResourceSelector) {
			s.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Odd"}}}
		})), RankNone},
		"cluster-wide, any namespace":                         {web, cpp("p"), RankKind},
		"cluster-wide, the namespace":                         {web, cpp("p", selector(func(s *policyv1alpha1.ResourceSelector) { s.Namespace = "shop" })), RankKind},
		"cluster-wide, another namespace":                     {web, cpp("p", selector(func(s *policyv1alpha1.ResourceSelector) { s.Namespace = "bank" })), RankNone},
		"a namespaced policy's selector namespace is its own": {web, pp("p", selector(func(s *policyv1alpha1.ResourceSelector) { s.Namespace = "bank" })), RankKind},
		"a cluster-scoped object": {role, cpp("p", selector(func(s *policyv1alpha1.ResourceSelector) {
			s.APIVersion, s.Kind = "rbac.authorization.k8s.io/v1", "ClusterRole"
		})), RankKind},
		"a cluster-scoped object and a namespaced policy": {role, pp("p", selector(func(s *policyv1alpha1.ResourceSelector) {
			s.APIVersion, s.Kind = "rbac.authorization.k8s.io/v1", "ClusterRole"
		})), RankNone},
	} {
		if got := Match(tc.subject, tc.policy); got != tc.want {
			t.Errorf("%s: matched %s, want %s", reason, got, tc.want)
		}
	}
}

func TestPreempt(t *testing.T) {
	named := selecting("web")
	for reason, tc := range map[string]struct {
		holder, other policyv1alpha1.Propagation
		want          bool
	}{
		"a higher priority prevails":                 {pp("a"), pp("b", named, priority(1), preempting), true},
		"an equal priority does not":                 {pp("a", priority(1)), pp("b", named, priority(1), preempting), false},
		"nor a lower one":                            {pp("a", priority(2)), pp("b", named, priority(1), preempting), false},
		"nor one that never preempts":                {pp("a"), pp("b", named, priority(1)), false},
		"nor one without a name in its selector":     {pp("a"), pp("b", priority(1), preempting), false},
		"nor one that names another object":          {pp("a"), pp("b", selecting("other"), priority(1), preempting), false},
		"a namespaced one takes from a cluster-wide": {cpp("a", priority(9)), pp("b", named, preempting), true},
		"a cluster-wide never from a namespaced":     {pp("a"), cpp("b", named, priority(9), preempting), false},
		"cluster-wide ones by priority":              {cpp("a"), cpp("b", named, priority(9), preempting), true},
		"one being deleted does not":                 {pp("a"), pp("b", named, priority(1), preempting, deleting), false},
		"a policy does not preempt itself":           {pp("a", named, preempting), pp("a", named, priority(3), preempting), false},
	} {
		if got := Preempt(web, tc.holder, []policyv1alpha1.Propagation{tc.other}) != nil; got != tc.want {
			t.Errorf("%s: preempts %v, want %v", reason, got, tc.want)
		}
	}
	best := Preempt(web, pp("a"), []policyv1alpha1.Propagation{
		pp("low", named, priority(1), preempting), pp("high", named, priority(2), preempting),
	})
	if best == nil || best.GetName() != "high" {
		t.Errorf("of two that may, %v preempts; want the one of higher priority", best)
	}
}

func TestJudge(t *testing.T) {
	named := selecting("web")
	first := pp("first", priority(3))
	for reason, tc := range map[string]struct {
		holder   policyv1alpha1.Propagation
		policies []policyv1alpha1.Propagation
		winner   string
		dropped  map[string]string
	}{
		"it has no policy": {nil, []policyv1alpha1.Propagation{first, pp("b")}, "first",
			map[string]string{"PropagationPolicy shop/b": "PropagationPolicy shop/first has priority 3, this one 0"}},
		"who came first keeps it": {first, []policyv1alpha1.Propagation{
			first, pp("high", named, priority(9)), pp("low", named, preempting), pp("broad", priority(9), preempting), cpp("wide", named, preempting, priority(9)),
			pp("going", named, priority(9), preempting, deleting), pp("other", selecting("api"))}, "first",
			map[string]string{
				"PropagationPolicy shop/high":   "PropagationPolicy shop/first holds it, and this one has not preemption Always",
				"PropagationPolicy shop/low":    "PropagationPolicy shop/first, which holds it, has priority 3, this one 0",
				"PropagationPolicy shop/broad":  "PropagationPolicy shop/first holds it, and only objects selected by name are preempted",
				"ClusterPropagationPolicy wide": "PropagationPolicy shop/first, which holds it, is of the object's own namespace",
				"PropagationPolicy shop/going":  "is being deleted",
				"PropagationPolicy shop/other":  "selects Deployment by other names",
			}},
		"it is taken": {first, []policyv1alpha1.Propagation{first, pp("urgent", named, priority(9), preempting), pp("hasty", named, priority(8), preempting)}, "urgent",
			map[string]string{
				"PropagationPolicy shop/first": "PropagationPolicy shop/urgent takes the object from it",
				"PropagationPolicy shop/hasty": "PropagationPolicy shop/urgent has priority 9, this one 8",
			}},
		"its labels have moved away": {pp("first", selecting("tier=back")), []policyv1alpha1.Propagation{pp("first", selecting("tier=back")), pp("b")}, "first",
			map[string]string{
				"PropagationPolicy shop/first": "holds the object, though it selects Deployment with labels tier=back",
				"PropagationPolicy shop/b":     "PropagationPolicy shop/first, which holds it, has priority 0, this one 0",
			}},
	} {
		decision := Judge(web, tc.holder, tc.policies)
		if decision.Winner.GetName() != tc.winner || decision.Candidates[0].Policy != KeyOf(decision.Winner) {
			t.Errorf("%s: winner %s, first of %v; want %s", reason, decision.Winner.GetName(), decision.Candidates, tc.winner)
		}
		dropped := map[string]string{}
		for _, c := range decision.Candidates {
			if c.Dropped != "" {
				dropped[c.Policy.String()] = c.Dropped
			}
		}
		if diff := cmp.Diff(tc.dropped, dropped); diff != "" {
			t.Errorf("%s: reasons (-want +got):\n%s", reason, diff)
		}
	}
}

func TestDecisionsExplainThemselves(t *testing.T) {
	policies := []policyv1alpha1.Propagation{pp("named", selecting("other")), pp("labelled", selecting("tier=back"))}
	for i := range 12 {
		policies = append(policies, pp("l"+string(rune('a'+i)), selecting("tier=back")))
	}
	decision := Choose(web, policies)
	text := decision.Explain()
	for _, part := range []string{"No policy match for resource", "PropagationPolicy shop/la selects Deployment with labels tier=back", "and 5 more", "1 select other objects by name"} {
		if !strings.Contains(text, part) {
			t.Errorf("explanation lacks %q:\n%s", part, text)
		}
	}
	if !decision.Near() {
		t.Error("a policy whose labels miss the object is near")
	}
	unserved := Choose(web, []policyv1alpha1.Propagation{pp("old", with(func(spec *policyv1alpha1.PropagationSpec) {
		spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1beta1", Kind: "Deployment"}}
	}))})
	if text := unserved.Explain(); !unserved.Near() || !strings.Contains(text, "selects Deployment of apps/v1beta1, a version that is not served") {
		t.Errorf("a policy for a version that is not served: near %v, %q", unserved.Near(), text)
	}
	if Choose(web, policies[:1]).Near() {
		t.Error("a policy that names another object is not near")
	}
}

func FuzzMatchNeverPanics(f *testing.F) {
	f.Add("apps/v1", "Deployment", "shop", "web", "tier", "In", "front")
	f.Add("", "", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, apiVersion, kind, namespace, name, key, operator, value string) {
		policy := pp("p", with(func(spec *policyv1alpha1.PropagationSpec) {
			spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{
				APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name,
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: []string{value}},
				}},
			}}
		}))
		var rank Rank
		bounded.Run(t, func() { rank = Match(web, policy) })
		if rank == RankName && name != web.Name {
			t.Errorf("selector name %q matched %q", name, web.Name)
		}
		if decision := Choose(web, []policyv1alpha1.Propagation{policy}); (decision.Winner != nil) != (rank != RankNone) {
			t.Errorf("rank %s and winner %v disagree", rank, decision.Winner)
		}
	})
}
