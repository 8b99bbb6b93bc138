package v1alpha1_test

import (
	"testing"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func TestWorkName(t *testing.T) {
	cases := map[string]struct{ kind, namespace, name, want string }{
		"a workload":                {"Deployment", "default", "nginx", "nginx-687f7fb96f"},
		"a name with a dash":        {"Deployment", "default", "nginx-karmada", "nginx-karmada-58d747f6b7"},
		"a namespace":               {"Namespace", "", "predict", "predict-5c885f7948"},
		"a namespace with a dash":   {"Namespace", "", "cert-manager", "cert-manager-674b866f4c"},
		"a cluster-scoped object":   {"ClusterRole", "", "karmada-impersonator", "karmada-impersonator-7cbb6bd5c9"},
		"the same name, other kind": {"ClusterRoleBinding", "", "karmada-impersonator", "karmada-impersonator-84f8c8f8c6"},
		"the hash may be short":     {"Service", "default", "nginx", "nginx-64b7849b5"},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			if got := workv1alpha1.WorkName(c.kind, c.namespace, c.name); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestWorkNameIsLegal(t *testing.T) {
	// RBAC names may hold colons and capitals, names of Works may not.
	upper := workv1alpha1.WorkName("ClusterRole", "", "System:Node")
	if lower := workv1alpha1.WorkName("ClusterRole", "", "system.node"); upper != lower {
		t.Errorf("got %s and %s, want one name", upper, lower)
	}
}

func TestExecutionNamespace(t *testing.T) {
	if got, want := workv1alpha1.ExecutionNamespace("member1"), "karmada-es-member1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	cases := map[string]struct {
		namespace, cluster string
		ok                 bool
	}{
		"the namespace of a cluster":   {"karmada-es-member1", "member1", true},
		"a cluster with a dashed name": {"karmada-es-a-b", "a-b", true},
		"another namespace":            {"default", "default", false},
		"the bare prefix":              {"karmada-es-", "", false},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(c.namespace)
			if ok != c.ok || ok && cluster != c.cluster {
				t.Errorf("got %q, %v, want %q, %v", cluster, ok, c.cluster, c.ok)
			}
		})
	}
}
