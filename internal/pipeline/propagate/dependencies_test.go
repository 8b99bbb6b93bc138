package propagate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/dependencies"
)

func withDeps(_ *metav1.ObjectMeta, spec *policyv1alpha1.PropagationSpec) { spec.PropagateDeps = true }

func configMap(name string) hubstore.Ref {
	return hubstore.Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "shop", Name: name}
}

// uses makes a Deployment mount a ConfigMap.
func (h *fakeHub) uses(ref hubstore.Ref, name string) {
	h.templates.change(ref, func(obj *unstructured.Unstructured) {
		volume := []any{map[string]any{"name": "v", "configMap": map[string]any{"name": name}}}
		_ = unstructured.SetNestedSlice(obj.Object, volume, "spec", "template", "spec", "volumes")
	})
}

// scheduled gives the binding of ref its clusters, and an id as admission would.
func (h *fakeHub) scheduled(ref hubstore.Ref, clusters ...string) {
	h.t.Helper()
	binding := h.binding(ref).(*workv1alpha2.ResourceBinding)
	h.update(binding, func() {
		binding.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] = "id-of-" + ref.Name
		binding.Spec.Clusters = nil
		for _, name := range clusters {
			binding.Spec.Clusters = append(binding.Spec.Clusters, workv1alpha2.TargetCluster{Name: name})
		}
	})
}

// requiredBy shows who needs a template, and where.
func (h *fakeHub) requiredBy(ref hubstore.Ref) []string {
	h.t.Helper()
	var lines []string
	for _, snapshot := range h.binding(ref).BindingSpec().RequiredBy {
		line := snapshot.Name
		for _, cluster := range snapshot.Clusters {
			line += " " + cluster.Name
		}
		lines = append(lines, line)
	}
	return lines
}

func (h *fakeHub) expectRequired(reason string, ref hubstore.Ref, want ...string) {
	h.t.Helper()
	if got := h.requiredBy(ref); !slices.Equal(got, want) {
		h.t.Errorf("%s: required by %q, want %q", reason, got, want)
	}
}

// moody is a Shape that sometimes fails, as when a webhook is down.
type moody struct {
	interpret.Shape
	fails error
}

func (m *moody) Dependencies(ctx context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
	if m.fails != nil {
		return nil, m.fails
	}
	return m.Shape.Dependencies(ctx, obj)
}

func TestUnknownDependenciesAreInterpretedAgain(t *testing.T) {
	propagation := pp("p")
	h := newHub(t, propagation)
	web := h.deployment("web")
	mood := &moody{Shape: h.loop.shape}
	h.loop.shape = mood
	list := func() string { return h.binding(web).GetAnnotations()[workv1alpha2.DependenciesAnnotation] }
	refersTo := func(name string) string {
		return fmt.Sprintf(`[{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":%q}]`, name)
	}
	fails := func(reason, want string) {
		t.Helper()
		mood.fails = errors.New("the webhook is down")
		for range 2 {
			if _, err := h.loop.Reconcile(t.Context(), web); !errors.Is(err, mood.fails) {
				t.Errorf("%s: got %v; it would not be retried", reason, err)
			}
		}
		if got := list(); got != want {
			t.Errorf("%s: meanwhile they are %s, want %s", reason, got, want)
		}
		h.writes = nil
		_, _ = h.loop.Reconcile(t.Context(), web)
		h.expectWrites(reason + ", reconciled once more")
		mood.fails = nil
	}
	succeeds := func(reason, want string) {
		t.Helper()
		h.reconcile(web)
		h.expectWrites(reason, "patch ResourceBinding web-deployment")
		h.reconcile(web)
		h.expectWrites(reason + ", once more")
		if got := list(); got != want {
			t.Errorf("%s: they are %s, want %s", reason, got, want)
		}
	}
	h.uses(web, "settings")
	h.update(propagation, func() { propagation.Spec.PropagateDeps = true })
	fails("a new binding", "[]")
	succeeds("a new binding", refersTo("settings"))
	h.uses(web, "others")
	fails("another content", refersTo("settings"))
	if got, want := h.binding(web).BindingSpec().Resource.ResourceVersion, h.templates.objects[web].GetResourceVersion(); got != want {
		t.Errorf("the new content waits for it: version %s, want %s", got, want)
	}
	succeeds("another content", refersTo("others"))
}

func TestDependenciesFollow(t *testing.T) {
	h := newHub(t, pp("p", withDeps))
	web, settings := h.deployment("web"), h.object(configMap("settings"), nil, 0)
	h.uses(web, "settings")
	h.reconcile(web)
	h.expectWrites("the dependant", "patch template web", "create ResourceBinding web-deployment")
	want := `[{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"settings"}]`
	if diff := cmp.Diff(want, h.binding(web).GetAnnotations()[workv1alpha2.DependenciesAnnotation]); diff != "" {
		t.Errorf("dependencies (-want +got):\n%s", diff)
	}
	h.reconcile(settings)
	h.expectWrites("before the dependant is scheduled")

	h.scheduled(web, "member1", "member2")
	h.reconcile(settings)
	h.expectWrites("once it is", "create ResourceBinding settings-configmap")
	h.reconcile(settings)
	h.expectWrites("nothing new")
	h.expectRequired("attached", settings, "web-deployment member1 member2")
	attached := h.binding(settings)
	if attached.BindingSpec().Placement != nil || policy.IsClaimed(attached) {
		t.Error("the attached binding has the fields of a policy")
	}
	if got := attached.GetLabels()[workv1alpha2.DependedByLabel("shop", "web-deployment")]; got != "id-of-web" {
		t.Errorf("depended-by label is %q", got)
	}

	h.scheduled(web, "member2")
	h.reconcile(settings)
	h.expectRequired("moved", settings, "web-deployment member2")

	h.writes = nil
	h.templates.change(settings, func(obj *unstructured.Unstructured) { obj.Object["data"] = map[string]any{"a": "b"} })
	h.reconcile(settings)
	h.expectWrites("changed content", "patch ResourceBinding settings-configmap")

	h.uses(web, "other")
	h.reconcile(web)
	h.writes = nil
	h.reconcile(settings)
	h.expectWrites("no longer referred to", "delete ResourceBinding settings-configmap")
}

func TestSeveralDependants(t *testing.T) {
	h := newHub(t,
		pp("a", selecting("a"), withDeps),
		pp("b", selecting("b"), withDeps, with(func(s *policyv1alpha1.PropagationSpec) {
			s.ConflictResolution = policyv1alpha1.ConflictOverwrite
			s.PreserveResourcesOnDeletion = ptr.To(true)
		})))
	settings := h.object(configMap("settings"), nil, 0)
	for _, name := range []string{"a", "b"} {
		ref := h.deployment(name)
		h.uses(ref, "settings")
		h.reconcile(ref)
		h.scheduled(ref, "member-"+name)
		h.reconcile(settings)
	}
	h.expectRequired("two dependants", settings, "a-deployment member-a", "b-deployment member-b")
	spec := h.binding(settings).BindingSpec()
	if spec.ConflictResolution != policyv1alpha1.ConflictOverwrite || !ptr.Deref(spec.PreserveResourcesOnDeletion, false) {
		t.Errorf("the stricter wish did not prevail: %s %v", spec.ConflictResolution, spec.PreserveResourcesOnDeletion)
	}
	const conflict = ": Dependency policy conflict detected: ConflictResolution conflicted (Overwrite vs Abort); PreserveResourcesOnDeletion conflicted (true vs false)."
	h.expectEvent("Warning DependencyPolicyConflict ConfigMap/settings" + conflict)
	h.expectEvent("Warning DependencyPolicyConflict ResourceBinding/settings-configmap" + conflict)

	a := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a-deployment"}}
	h.update(a, func() { a.Finalizers = nil })
	if err := h.client.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	h.reconcile(settings)
	h.expectRequired("one is gone", settings, "b-deployment member-b")
	if _, left := h.binding(settings).GetLabels()[workv1alpha2.DependedByLabel("shop", "a-deployment")]; left {
		t.Error("its label is left")
	}
}

// TestWhatADeletedBindingNeedsStaysUntilItIsCreatedAgain: a binding that is deleted is created again; what its template needs
// does not leave the clusters meanwhile. Works of it show that it was not deleted for good.
func TestWhatADeletedBindingNeedsStaysUntilItIsCreatedAgain(t *testing.T) {
	h := newHub(t, pp("p", withDeps))
	h.object(hubstore.NamespaceRef("shop"), nil, 1)
	web, conf := h.deployment("web"), configMap("conf")
	h.object(conf, nil, 1)
	h.uses(web, "conf")
	h.reconcile(web)
	h.scheduled(web, "m1", "m2")
	h.reconcile(conf)
	h.expectRequired("at first", conf, "web-deployment m1 m2")
	hasWorks := true
	h.loop.hasWorks = func(_ context.Context, binding client.ObjectKey) (bool, error) {
		return hasWorks && binding.Name == "web-deployment", nil
	}
	labels := maps.Clone(h.binding(conf).GetLabels())

	dependant := h.binding(web).(*workv1alpha2.ResourceBinding)
	if err := h.client.Delete(t.Context(), dependant); err != nil { // its finalizer holds it
		t.Fatal(err)
	}
	h.writes = nil
	if again := h.reconcile(conf); again != backoff.NotYet {
		t.Errorf("the dependant is being deleted: reconciled again after %s, want %s", again, backoff.NotYet)
	}
	h.expectRequired("the dependant is being deleted", conf, "web-deployment m1 m2")
	dependant = h.binding(web).(*workv1alpha2.ResourceBinding)
	h.update(dependant, func() { dependant.Finalizers = nil })
	h.writes = nil
	h.reconcile(conf)
	h.expectRequired("the dependant is gone, its Works are not", conf, "web-deployment m1 m2")
	h.expectWrites("the dependant is gone, its Works are not")
	if diff := cmp.Diff(labels, h.binding(conf).GetLabels()); diff != "" {
		t.Errorf("labels (-before +after):\n%s", diff)
	}
	hasWorks, h.writes = false, nil
	h.reconcile(conf)
	h.expectWrites("the Works are gone, too", "delete ResourceBinding conf-configmap")
}

func TestADependencyWithAPolicyOfItsOwn(t *testing.T) {
	own := pp("own", with(func(s *policyv1alpha1.PropagationSpec) {
		s.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
		s.ConflictResolution = policyv1alpha1.ConflictOverwrite
	}))
	h := newHub(t, pp("p", selecting("web"), withDeps), own)
	web, settings := h.deployment("web"), h.object(configMap("settings"), nil, 0)
	h.uses(web, "settings")
	h.reconcile(web)
	h.scheduled(web, "member1")
	h.reconcile(settings)
	h.expectRequired("bound and attached in one", settings, "web-deployment member1")
	binding := h.binding(settings)
	if binding.BindingSpec().Placement == nil || policy.ClaimOn(binding).Policy.Name != "own" || binding.BindingSpec().ConflictResolution != policyv1alpha1.ConflictOverwrite {
		t.Errorf("its own policy does not hold: %+v", binding.BindingSpec())
	}
	h.writes = nil
	delete(h.templates.objects, web)
	h.reconcile(web)
	h.writes = nil
	h.reconcile(settings)
	h.expectWrites("the dependant is going", "patch ResourceBinding settings-configmap")
	h.expectRequired("the dependant is going", settings)
	if h.bindingGone(settings) {
		t.Error("its own binding went too")
	}
}

func TestSwitchingPropagateDeps(t *testing.T) {
	propagation := pp("p", selecting("web"))
	h := newHub(t, propagation)
	web, settings := h.deployment("web"), h.object(configMap("settings"), nil, 0)
	h.uses(web, "settings")
	h.reconcile(web)
	h.scheduled(web, "member1")
	h.update(propagation, func() { propagation.Spec.PropagateDeps = true })
	h.policyChanged(policy.KeyOf(propagation))
	h.reconcile(settings)
	h.expectRequired("switched on", settings, "web-deployment member1")
	h.update(propagation, func() { propagation.Spec.PropagateDeps = false })
	h.policyChanged(policy.KeyOf(propagation))
	h.writes = nil
	h.reconcile(settings)
	h.expectWrites("switched off", "delete ResourceBinding settings-configmap")
}

func TestDrainingClustersKeepDependencies(t *testing.T) {
	binding := &workv1alpha2.ResourceBinding{}
	binding.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "a"}}
	binding.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{
		{FromCluster: "a", PurgeMode: policyv1alpha1.PurgeModeGracefully},
		{FromCluster: "b", PurgeMode: policyv1alpha1.PurgeModeGracefully},
		{FromCluster: "c", PurgeMode: policyv1alpha1.PurgeModeDirectly},
	}
	want := []workv1alpha2.TargetCluster{{Name: "a"}, {Name: "b"}}
	if diff := cmp.Diff(want, dependencies.Clusters(binding)); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
}

func TestReferencesStayInTheirNamespace(t *testing.T) {
	h := newHub(t)
	web := hubstore.Ref{GroupVersionKind: deploymentKind, Namespace: "shop", Name: "web"}
	const definitions = "apiextensions.k8s.io/v1"
	role := hubstore.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, Name: "r"}
	for reason, tc := range map[string]struct {
		from hubstore.Ref
		dep  interpret.Dependency
		want string // namespace, "-" if dropped
	}{
		"its own by default":             {web, interpret.Dependency{APIVersion: "v1", Kind: "Secret", Name: "s"}, "shop"},
		"its own":                        {web, interpret.Dependency{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "s"}, "shop"},
		"another's is none":              {web, interpret.Dependency{APIVersion: "v1", Kind: "Secret", Namespace: "bank", Name: "s"}, "-"},
		"cluster-scoped":                 {web, interpret.Dependency{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Namespace: "shop", Name: "r"}, "-"},
		"a definition":                   {web, interpret.Dependency{APIVersion: definitions, Kind: "CustomResourceDefinition", Name: "gears.example.io"}, ""},
		"of a cluster-scoped object":     {role, interpret.Dependency{APIVersion: "v1", Kind: "Secret", Namespace: "bank", Name: "s"}, "-"},
		"its definition":                 {role, interpret.Dependency{APIVersion: definitions, Kind: "CustomResourceDefinition", Name: "gears.example.io"}, ""},
		"of one that does not say which": {role, interpret.Dependency{APIVersion: "v1", Kind: "Secret", Name: "s"}, "-"},
	} {
		got, ok := h.loop.resolve(tc.from, tc.dep)
		namespace := got.Namespace
		if !ok {
			namespace = "-"
		}
		if namespace != tc.want {
			t.Errorf("%s: namespace %q, want %q", reason, namespace, tc.want)
		}
	}
}

func TestAListOfAnotherNamespaceCountsForNothing(t *testing.T) {
	binding := &workv1alpha2.ResourceBinding{}
	binding.Namespace = "shop"
	binding.Annotations = map[string]string{workv1alpha2.DependenciesAnnotation: `[
		{"apiVersion":"v1","kind":"Secret","namespace":"bank","name":"s"}, {"apiVersion":"v1","kind":"Namespace","name":"bank"},
		{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","name":"gears.example.io"}]`}
	binding.Spec.PropagateDeps = true
	want := []string{dependencies.IndexValue(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, "", "gears.example.io")}
	if diff := cmp.Diff(want, dependencies.IndexValues(binding)); diff != "" {
		t.Errorf("index (-want +got):\n%s", diff)
	}
}

func TestDefinitionsAreNotTakenOverForTheirObjects(t *testing.T) {
	dependant := &workv1alpha2.ResourceBinding{}
	dependant.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
	for kind, want := range map[string]policyv1alpha1.ConflictResolution{
		"CustomResourceDefinition": policyv1alpha1.ConflictAbort, "APIService": policyv1alpha1.ConflictOverwrite,
	} {
		var spec workv1alpha2.ResourceBindingSpec
		spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apiextensions.k8s.io/v1", Kind: kind, Name: "gears.example.io"}
		dependencies.FillStrictest(&spec, []workv1alpha2.Binding{dependant})
		if spec.ConflictResolution != want {
			t.Errorf("%s: conflictResolution is %q, want %q", kind, spec.ConflictResolution, want)
		}
	}
}

func TestAnAttachedBindingHasTheRulesOfThePolicies(t *testing.T) {
	with := func(resolution policyv1alpha1.ConflictResolution, preserve *bool) workv1alpha2.Binding {
		binding := &workv1alpha2.ResourceBinding{}
		binding.Spec.ConflictResolution, binding.Spec.PreserveResourcesOnDeletion = resolution, preserve
		return binding
	}
	const overwrite, abort = policyv1alpha1.ConflictOverwrite, policyv1alpha1.ConflictAbort
	for reason, tc := range map[string]struct {
		dependants []workv1alpha2.Binding
		resolution policyv1alpha1.ConflictResolution
		preserve   *bool
		conflicts  int
	}{
		"an explicit false":                 {[]workv1alpha2.Binding{with(overwrite, ptr.To(false))}, overwrite, ptr.To(false), 0},
		"nothing said":                      {[]workv1alpha2.Binding{with("", nil)}, abort, nil, 0},
		"nothing said is as the default":    {[]workv1alpha2.Binding{with("", nil), with(abort, ptr.To(false))}, abort, ptr.To(false), 0},
		"true prevails, wherever it stands": {[]workv1alpha2.Binding{with(abort, ptr.To(true)), with(abort, ptr.To(false)), with(abort, nil)}, abort, ptr.To(true), 1},
		"both conflict":                     {[]workv1alpha2.Binding{with(abort, ptr.To(false)), with(overwrite, ptr.To(true))}, overwrite, ptr.To(true), 2},
	} {
		spec := workv1alpha2.ResourceBindingSpec{ConflictResolution: overwrite, PreserveResourcesOnDeletion: ptr.To(true)}
		conflicts := dependencies.FillStrictest(&spec, tc.dependants)
		if spec.ConflictResolution != tc.resolution || !ptr.Equal(spec.PreserveResourcesOnDeletion, tc.preserve) || len(conflicts) != tc.conflicts {
			t.Errorf("%s: got %s, %v, conflicts %q", reason, spec.ConflictResolution, spec.PreserveResourcesOnDeletion, conflicts)
		}
	}
}

func TestReferencesByLabels(t *testing.T) {
	binding := &workv1alpha2.ResourceBinding{}
	binding.Namespace = "shop"
	binding.Annotations = map[string]string{workv1alpha2.DependenciesAnnotation: `[{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","labelSelector":{"matchLabels":{"app":"web"}}}]`}
	binding.Spec.PropagateDeps = true
	if diff := cmp.Diff([]string{"ConfigMap|shop|"}, dependencies.IndexValues(binding)); diff != "" {
		t.Errorf("index (-want +got):\n%s", diff)
	}
	for reason, tc := range map[string]struct {
		labels map[string]string
		want   bool
	}{"selected": {map[string]string{"app": "web"}, true}, "not selected": {map[string]string{"app": "api"}, false}} {
		if got := dependencies.RefersTo(binding, policy.Subject{GroupVersionKind: configMap("x").GroupVersionKind, Namespace: "shop", Name: "x", Labels: tc.labels}); got != tc.want {
			t.Errorf("%s: %v", reason, got)
		}
	}
	h := newHub(t)
	h.object(configMap("x"), nil, 0)
	h.templates.change(configMap("x"), func(obj *unstructured.Unstructured) { obj.SetLabels(map[string]string{"app": "web"}) })
	if diff := cmp.Diff([]hubstore.Ref{configMap("x")}, neededBy(h.templates, binding)); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
}

func TestDependedByPrefix(t *testing.T) {
	if dependencies.DependedByPrefix != "resourcebinding.karmada.io/depended-by-" || !strings.HasPrefix(workv1alpha2.DependedByLabel("default", "nginx-deployment"), dependencies.DependedByPrefix) {
		t.Errorf("prefix is %q", dependencies.DependedByPrefix)
	}
}
