package agents

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
)

// TestAgentsInAClusterHaveNoFurtherRights: with bounded rights, an agent reads and replaces its own credential and no other Secret, and
// grants itself nothing. Its container has no privileges.
func TestAgentsInAClusterHaveNoFurtherRights(t *testing.T) {
	rights := memberaccount.Rights{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"*"}}}
	m := manifest{cluster: "far", image: "i", replicas: 2, controlPlane: "id", account: memberaccount.ControllerOf("far").With(rights)}
	check := func(rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			writes := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb != "get" && verb != "list" && verb != "watch" && verb != "delete" })
			switch resources := strings.Join(rule.Resources, " "); {
			case resources == "secrets" && !slices.Equal(rule.ResourceNames, []string{"flagship-agent-far"}) && !slices.Equal(rule.ResourceNames, []string{"karmada-far"}),
				strings.Contains(resources, "role") && writes, slices.Contains(rule.Resources, "*"):
				t.Errorf("it has %v", rule)
			}
		}
	}
	kinds := 0
	for _, object := range m.objects() {
		kinds++
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			check(o.Rules)
		case *rbacv1.Role:
			check(o.Rules)
		case *appsv1.Deployment:
			pod := o.Spec.Template.Spec
			container := pod.Containers[0].SecurityContext
			if !*pod.SecurityContext.RunAsNonRoot || *container.AllowPrivilegeEscalation || !*container.ReadOnlyRootFilesystem || container.Capabilities.Drop[0] != "ALL" || *o.Spec.Replicas != 2 {
				t.Errorf("the Deployment is %+v", o.Spec)
			}
		}
	}
	if text, err := m.yaml(); err != nil || strings.Count(string(text), "\n---\n")+1 != kinds {
		t.Errorf("%d objects are printed as\n%s%v", kinds, text, err)
	}
}

// TestTheChartHasTheSameRights: the chart of an agent with bounded rights gives it what the manifest does. The rules are compared as text, since
// Helm is not linked here: those of each role are lines in braces.
func TestTheChartHasTheSameRights(t *testing.T) {
	chart, err := os.ReadFile("../../../../charts/flagship/templates/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("{{ $role | quote }}", "karmada-controller-manager:karmada-far", "{{ $account }}", "karmada-far", "{{ $name }}", "flagship-agent-far").Replace(string(chart))
	var rendered []rbacv1.PolicyRule
	for _, line := range regexp.MustCompile(`(?m)^- \{.*verbs: .*\}$`).FindAllString(text, -1) {
		var rules []rbacv1.PolicyRule
		if err := yaml.UnmarshalStrict([]byte(line), &rules); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		rendered = append(rendered, rules...)
	}
	m := manifest{cluster: "far", account: memberaccount.ControllerOf("far").With(memberaccount.Rights{})}
	want := memberaccount.Rights{}
	for _, object := range m.objects() {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			want = append(want, append(o.Rules, memberaccount.AllRights()...)...)
		case *rbacv1.Role:
			want = append(want, o.Rules...)
		}
	}
	if !reflect.DeepEqual(rendered, []rbacv1.PolicyRule(want)) {
		t.Errorf("the chart has %v\nwant %v", rendered, want)
	}
}
