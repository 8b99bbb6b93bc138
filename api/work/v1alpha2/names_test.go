package v1alpha2_test

import (
	"testing"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func TestBindingName(t *testing.T) {
	cases := map[string]struct{ kind, name, want string }{
		"a workload":          {"Deployment", "nginx", "nginx-deployment"},
		"a name with a colon": {"ClusterRole", "system:Node", "system.node-clusterrole"},
		"a name of two words": {"CustomResourceDefinition", "a.example.com", "a.example.com-customresourcedefinition"},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			if got := workv1alpha2.BindingName(c.kind, c.name); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestDependedByLabel(t *testing.T) {
	got := workv1alpha2.DependedByLabel("default", "nginx-deployment")
	if want := "resourcebinding.karmada.io/depended-by-5bdc5c4dcf"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTwinsShowTheirOwnFields(t *testing.T) {
	for _, binding := range []workv1alpha2.Binding{&workv1alpha2.ResourceBinding{}, &workv1alpha2.ClusterResourceBinding{}} {
		binding.BindingSpec().Replicas = 3
		binding.BindingStatus().SchedulerObservedGeneration = 4
		switch b := binding.(type) {
		case *workv1alpha2.ResourceBinding:
			if b.Spec.Replicas != 3 || b.Status.SchedulerObservedGeneration != 4 {
				t.Errorf("writing through the interface did not change %T", b)
			}
		case *workv1alpha2.ClusterResourceBinding:
			if b.Spec.Replicas != 3 || b.Status.SchedulerObservedGeneration != 4 {
				t.Errorf("writing through the interface did not change %T", b)
			}
		}
	}
}
