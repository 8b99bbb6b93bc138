package admission_test

import (
	"cmp"
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/flagship-k8s/flagship/internal/host/admission"
)

// writers: jane updates Deployments and the ConfigMap named hers in the namespace shop, and everything of the group gears.io; root updates
// everything in shop; carla may write ClusterPropagationPolicies. Asked counts the questions.
func writers(asked *int) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		*asked++
		allowed := false
		switch shop := a.GetNamespace() == "shop" && a.GetVerb() == "update"; a.GetUser().GetName() {
		case "jane":
			allowed = shop && (a.GetAPIGroup() == "apps" && a.GetResource() == "deployments" ||
				a.GetAPIGroup() == "" && a.GetResource() == "configmaps" && a.GetName() == "hers" || a.GetAPIGroup() == "gears.io")
		case "root":
			allowed = shop
		case "carla":
			allowed = a.GetVerb() == "create" && a.GetNamespace() == "" && a.GetAPIGroup() == "policy.karmada.io" && a.GetResource() == "clusterpropagationpolicies"
		}
		if allowed {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}

func newReach(t *testing.T, asked *int) *admission.Reach {
	t.Helper()
	core, apps := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{core, apps, rbac})
	for _, kind := range []string{"ConfigMap", "Secret", "ResourceQuota", "LimitRange"} {
		mapper.Add(core.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(core.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(apps.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(rbac.WithKind("RoleBinding"), meta.RESTScopeNamespace)
	plugin := admission.NewReach()
	plugin.SetRESTMapper(mapper)
	plugin.SetUnconditionalAuthorizer(writers(asked))
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	return plugin
}

// reaching is a policy of the namespace shop with selectors, each "apiVersion kind", and a name or =labels after that.
func reaching(kind string, selectors ...string) *unstructured.Unstructured {
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": map[string]any{"namespace": "shop", "name": "p"},
	}}
	var list []any
	for _, text := range selectors {
		words := strings.Fields(text)
		selector := map[string]any{"apiVersion": words[0], "kind": words[1], "namespace": "shop"}
		switch {
		case len(words) == 3 && strings.HasPrefix(words[2], "="):
			selector["labelSelector"] = map[string]any{"matchLabels": map[string]any{"app": words[2][1:]}}
		case len(words) == 3:
			selector["name"] = words[2]
		}
		list = append(list, selector)
	}
	spec := map[string]any{}
	if list != nil {
		spec["resourceSelectors"] = list
	}
	policy.Object["spec"] = spec
	return policy
}

func annotated(policy *unstructured.Unstructured, key, value string) *unstructured.Unstructured {
	policy.SetAnnotations(map[string]string{key: value})
	return policy
}

// policyWrite is the write of a policy: its deletion without a new one, its creation without an old one.
func policyWrite(who string, now, old *unstructured.Unstructured) kadmission.Attributes {
	operation, of := kadmission.Update, now
	var object, before runtime.Object
	if now != nil {
		object = now
	}
	if old != nil {
		before = old
	}
	switch {
	case now == nil:
		operation, of = kadmission.Delete, old
	case old == nil:
		operation = kadmission.Create
	}
	return kadmission.NewAttributesRecord(object, before, of.GroupVersionKind(), "shop", "p", schema.GroupVersionResource{}, "", operation, nil, false, &user.DefaultInfo{Name: who})
}

func TestPoliciesReachWhatTheirAuthorsMayUpdate(t *testing.T) {
	const rules, placed, quota = "OverridePolicy", "PropagationPolicy", "v1 ResourceQuota bound"
	for name, test := range map[string]struct {
		who      string // jane if empty
		now, old *unstructured.Unstructured
		refused  string // what the refusal says, empty if the write is allowed
	}{
		"Own":                {now: reaching(placed, "apps/v1 Deployment")},
		"OwnByLabel":         {now: reaching(placed, "apps/v1 Deployment =web")},
		"OwnByName":          {now: reaching(rules, "v1 ConfigMap hers")},
		"OtherVersion":       {now: reaching(placed, "apps/v1beta1 Deployment")},
		"NothingOfTheKind":   {now: reaching(placed, "v1 Namespace shop")},
		"Quota":              {now: reaching(rules, "apps/v1 Deployment", quota), refused: `spec.resourceSelectors[1]: user "jane" may not update resourcequotas "bound" in namespace "shop", which this OverridePolicy selects`},
		"QuotaToElsewhere":   {now: reaching(placed, quota), refused: `resourcequotas "bound"`},
		"Limits":             {now: reaching(rules, "v1 LimitRange"), refused: `may not update limitranges in namespace "shop"`},
		"LimitsByLabel":      {now: reaching(rules, "v1 LimitRange =x"), refused: `may not update limitranges in`},
		"RoleBinding":        {now: reaching(placed, "rbac.authorization.k8s.io/v1 RoleBinding team"), refused: `rolebindings.rbac.authorization.k8s.io "team"`},
		"OtherName":          {now: reaching(rules, "v1 ConfigMap theirs"), refused: `configmaps "theirs"`},
		"OneNameIsNotTheAll": {now: reaching(rules, "v1 ConfigMap"), refused: "may not update configmaps in"},
		"UnservedVersion":    {now: reaching(rules, "v9 ResourceQuota bound"), refused: "resourcequotas"},
		"EverythingOfATenant": {now: reaching(rules), refused: `spec.resourceSelectors: user "jane" may not update all objects of namespace "shop", ` +
			`which an OverridePolicy without selectors selects`},
		"EverythingOfWhoMayAll": {who: "root", now: reaching(rules)},
		"QuotaOfWhoMayAll":      {who: "root", now: reaching(placed, quota)},
		"UnknownKind":           {now: reaching(placed, "wheels.io/v1 Wheel"), refused: `all resources of the group "wheels.io" in namespace "shop" (the kind Wheel is not served`},
		"UnknownOfOwnGroup":     {now: reaching(placed, "gears.io/v1 Gear")},
		"UnknownOfWhoMayAll":    {who: "root", now: reaching(placed, "wheels.io/v1 Wheel")},
		"ControlPlane":          {who: user.APIServerUser, now: reaching(placed, quota)},
		"OperatorOfTheTwin":     {who: "carla", now: reaching(placed, quota)},
		"OtherTwin":             {who: "carla", now: reaching(rules, quota), refused: "resourcequotas"},
		"Unchanged":             {now: annotated(reaching(placed, quota), "note", "a"), old: reaching(placed, quota)},
		"OptionChanged":         {now: annotated(reaching(placed, quota), "flagship.io/purge-mode", "Directly"), old: reaching(placed, quota), refused: "resourcequotas"},
		"SelectorRemoved":       {now: reaching(placed, "apps/v1 Deployment"), old: reaching(placed, "apps/v1 Deployment", quota), refused: "which this PropagationPolicy selects now"},
		"SelectorAdded":         {now: reaching(placed, "apps/v1 Deployment", quota), old: reaching(placed, "apps/v1 Deployment"), refused: "resourcequotas"},
		"UnknownRemoved":        {now: reaching(placed, "apps/v1 Deployment"), old: reaching(placed, "apps/v1 Deployment", "wheels.io/v1 Wheel")},
		"OwnDeleted":            {old: reaching(placed, "apps/v1 Deployment")},
		"UnknownDeleted":        {old: reaching(placed, "wheels.io/v1 Wheel")},
		"QuotaDeleted":          {old: reaching(placed, quota), refused: "which this PropagationPolicy selects now"},
		"EverythingDeleted":     {old: reaching(rules), refused: "without selectors selects now"},
		"Wide":                  {now: reaching("ClusterPropagationPolicy", quota)},
		"OtherKind":             {now: reaching("FederatedResourceQuota", quota)},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			err := newReach(t, &asked).Validate(t.Context(), policyWrite(cmp.Or(test.who, "jane"), test.now, test.old), nil)
			switch {
			case test.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.refused)):
				t.Errorf("got %v, want a refusal that says %q", err, test.refused)
			}
		})
	}
}

// TestReachReviewsAKindOnce: many selectors of a kind cost one review, and what is not checked none.
func TestReachReviewsAKindOnce(t *testing.T) {
	asked := 0
	plugin := newReach(t, &asked)
	write := func(now, old *unstructured.Unstructured) {
		t.Helper()
		if err := plugin.Validate(t.Context(), policyWrite("jane", now, old), nil); err != nil {
			t.Error(err)
		}
	}
	many := reaching("PropagationPolicy", "apps/v1 Deployment a", "apps/v1 Deployment b", "apps/v1 Deployment c", "apps/v1 Deployment =d")
	if write(many, nil); asked != 1 {
		t.Errorf("four selectors of one kind: %d reviews, want 1", asked)
	}
	if write(many, many.DeepCopy()); asked != 1 {
		t.Errorf("an update that changes nothing: %d more reviews", asked-1)
	}
}
