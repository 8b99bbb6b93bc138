package works

import (
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	"github.com/google/go-cmp/cmp"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func bindingStrategy(t *testing.T) specStrategy {
	t.Helper()
	return strategyOf(t, workv1alpha2.KindResourceBinding)
}

func strategyOf(t testing.TB, name string) specStrategy {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := loadKinds()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		if kind.names.Kind == name {
			strategy, err := newStrategy(scheme, kind)
			if err != nil {
				t.Fatal(err)
			}
			return strategy
		}
	}
	t.Fatalf("%s is not served", name)
	return specStrategy{}
}

func TestOnlyWhatChangesIsChecked(t *testing.T) {
	strategy := bindingStrategy(t)
	impossible := &policyv1alpha1.Placement{SpreadConstraints: []policyv1alpha1.SpreadConstraint{{SpreadByField: "cluster", MinGroups: -1}}}
	targets := []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 2}}
	tests := map[string]struct {
		reason string
		before *policyv1alpha1.Placement
		edit   func(*workv1alpha2.ResourceBindingSpec)
		want   string
	}{
		"A result": {"a placement that was stored before a rule existed does not keep the scheduler from writing", impossible,
			func(s *workv1alpha2.ResourceBindingSpec) { s.Clusters = targets }, ""},
		"A placement": {"rules hold for what is new", nil,
			func(s *workv1alpha2.ResourceBindingSpec) { s.Placement = impossible }, "spec.placement.spreadConstraints[0]"},
		"A placement and a result": {"one is no cover for the other", nil,
			func(s *workv1alpha2.ResourceBindingSpec) { s.Placement, s.Clusters = impossible, targets }, "spec.placement.spreadConstraints[0]"},
		"A target without a name": {"a result is checked too", nil,
			func(s *workv1alpha2.ResourceBindingSpec) { s.Clusters = []workv1alpha2.TargetCluster{{Replicas: 2}} }, "spec.clusters[0].name"},
		"No name of the template": {"what is required stays", nil,
			func(s *workv1alpha2.ResourceBindingSpec) { s.Resource.Name, s.Clusters = "", targets }, "spec.resource.name"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := &workv1alpha2.ResourceBinding{}
			before.Namespace, before.Name, before.ResourceVersion, before.Generation = "shop", "web-deployment", "7", 1
			before.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
			before.Spec.Placement, before.Spec.Suspension = test.before, &workv1alpha2.Suspension{Scheduling: ptr.To(false)}
			after := before.DeepCopy()
			test.edit(&after.Spec)
			strategy.PrepareForUpdate(t.Context(), after, before)
			sent := after.DeepCopy()
			errs := strategy.ValidateUpdate(t.Context(), after, before)
			if got := errs.ToAggregate(); test.want == "" && got != nil || test.want != "" && (got == nil || !strings.Contains(got.Error(), test.want)) {
				t.Errorf("%s: got %v, want an error about %q", test.reason, got, test.want)
			}
			if !strategy.same.DeepEqual(runtime.Object(sent), runtime.Object(after)) {
				t.Errorf("checking changed the object to %+v", after.Spec)
			}
			own := request.WithUser(t.Context(), &user.DefaultInfo{Name: user.APIServerUser})
			if got := strategy.ValidateUpdate(own, after, before); len(got) != len(errs) {
				t.Errorf("the control plane's own write has the errors %v, that of others %v", got, errs)
			}
		})
	}
}

// TestOnlyTheSubresourceWritesResultAndStatusInOne: an update of the main resource changes no status, whoever makes it.
func TestOnlyTheSubresourceWritesResultAndStatusInOne(t *testing.T) {
	strategy := bindingStrategy(t)
	before := &workv1alpha2.ResourceBinding{}
	before.Namespace, before.Name, before.ResourceVersion, before.Generation = "shop", "web-deployment", "7", 1
	before.Annotations, before.Finalizers = map[string]string{"a": "b", workv1alpha2.AwaitsClaimsAnnotation: "true"}, []string{"f"}
	before.Spec.Replicas, before.Spec.Placement, before.Spec.ConflictResolution = 2, &policyv1alpha1.Placement{}, policyv1alpha1.ConflictAbort
	before.Status.SchedulerObservedGeneration = 1
	decided := before.DeepCopy()
	decided.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 2}}
	decided.Spec.Replicas, decided.Spec.Placement, decided.Labels, decided.Finalizers = 3, nil, map[string]string{"a": "b"}, nil
	decided.Annotations = map[string]string{workv1alpha2.AppliedPlacementAnnotation: "{}", "c": "d"}
	decided.Status.SchedulerObservedGeneration = 2
	for _, caller := range []string{user.APIServerUser, "jane"} {
		ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: caller})
		after := decided.DeepCopy()
		strategy.PrepareForUpdate(ctx, after, before)
		if got := after.Status.SchedulerObservedGeneration; got != 1 || after.Generation != 2 {
			t.Errorf("%s writes that generation %d of %d was observed, want 1 of 2", caller, got, after.Generation)
		}
		after = decided.DeepCopy()
		scheduleStrategy{strategy}.PrepareForUpdate(ctx, after, before)
		want := before.DeepCopy()
		want.Generation, want.Spec.Clusters, want.Status = 2, decided.Spec.Clusters, decided.Status
		want.Annotations = map[string]string{"a": "b", workv1alpha2.AppliedPlacementAnnotation: "{}"}
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("%s writes through the subresource (-want +got):\n%s", caller, diff)
		}
		after.Status.AggregatedStatus, after.Spec.Clusters = []workv1alpha2.AggregatedStatusItem{{Health: "Fine"}}, []workv1alpha2.TargetCluster{{}}
		if errs := (scheduleStrategy{strategy}).ValidateUpdate(ctx, after, before); len(errs) != 3 {
			t.Errorf("%s is answered %v, want a cluster, a name and a health refused", caller, errs)
		}
	}
}

func TestValidPartsAreNotValidatedAgain(t *testing.T) {
	strategy := bindingStrategy(t)
	placed := func(least int) *workv1alpha2.ResourceBinding {
		b := &workv1alpha2.ResourceBinding{}
		b.Namespace, b.Name = "shop", "web-deployment"
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
		b.Spec.Placement = &policyv1alpha1.Placement{SpreadConstraints: []policyv1alpha1.SpreadConstraint{{SpreadByField: "cluster", MinGroups: least}}}
		return b
	}
	for i, least := range []int{1, -1, 1, -1, 2} {
		b := placed(least)
		strategy.PrepareForCreate(t.Context(), b)
		sent := b.DeepCopy()
		if refused := len(strategy.Validate(t.Context(), b)) > 0; refused != (least < 0) {
			t.Errorf("%d: at least %d groups: refused is %t", i, least, refused)
		}
		if !strategy.same.DeepEqual(runtime.Object(sent), runtime.Object(b)) {
			t.Errorf("%d: checking changed the object to %+v", i, b.Spec)
		}
	}
	nameless := placed(1)
	nameless.Spec.Resource.Name = ""
	if len(strategy.Validate(t.Context(), nameless)) == 0 {
		t.Error("what is required is not missed beside a placement that is known")
	}
	if n := strategy.valid.Len(); n != 3 {
		t.Errorf("%d parts are cached, want two placements and the default of conflictResolution", n)
	}
}

// BenchmarkSchedule is what checking a scheduler's result costs.
func BenchmarkSchedule(b *testing.B) {
	strategy := scheduleStrategy{strategyOf(b, workv1alpha2.KindResourceBinding)}
	before := &workv1alpha2.ResourceBinding{}
	before.Namespace, before.Name, before.ResourceVersion, before.Generation = "shop", "web-deployment", "7", 1
	before.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	before.Spec.ConflictResolution, before.Spec.Placement = policyv1alpha1.ConflictAbort, &policyv1alpha1.Placement{
		ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m1", "m2", "m3"}},
	}
	decided := before.DeepCopy()
	decided.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 2}, {Name: "m2", Replicas: 2}, {Name: "m3", Replicas: 2}}
	for b.Loop() {
		after := decided.DeepCopy()
		strategy.PrepareForUpdate(b.Context(), after, before)
		if errs := strategy.ValidateUpdate(b.Context(), after, before); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

// BenchmarkUpdate is what an update of a binding costs with each kind of change.
func BenchmarkUpdate(b *testing.B) {
	strategy := strategyOf(b, workv1alpha2.KindResourceBinding)
	before := &workv1alpha2.ResourceBinding{}
	before.Namespace, before.Name, before.ResourceVersion, before.Generation = "shop", "web-deployment", "7", 1
	before.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	before.Spec.ConflictResolution = policyv1alpha1.ConflictAbort
	clusters := []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 2}, {Name: "m2", Replicas: 2}, {Name: "m3", Replicas: 2}}
	for name, edit := range map[string]func(spec *workv1alpha2.ResourceBindingSpec, i int){
		"Clusters": func(spec *workv1alpha2.ResourceBindingSpec, i int) {
			spec.Clusters = append([]workv1alpha2.TargetCluster{{Name: "m0", Replicas: int32(i + 1)}}, clusters[1:]...)
		},
		"Replicas": func(spec *workv1alpha2.ResourceBindingSpec, i int) { spec.Replicas = int32(i + 1) },
		"Resource": func(spec *workv1alpha2.ResourceBindingSpec, i int) { spec.Resource.ResourceVersion = strconv.Itoa(i) },
		"RequiredBy": func(spec *workv1alpha2.ResourceBindingSpec, i int) {
			spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Namespace: "shop", Name: "app-" + strconv.Itoa(i), Clusters: clusters}}
		},
		"Placement": func(spec *workv1alpha2.ResourceBindingSpec, _ int) {
			spec.Placement = &policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"m1", "m2", "m3"}}}
		},
	} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				after := before.DeepCopy()
				edit(&after.Spec, i)
				strategy.PrepareForUpdate(b.Context(), after, before)
				if errs := strategy.ValidateUpdate(b.Context(), after, before); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}
