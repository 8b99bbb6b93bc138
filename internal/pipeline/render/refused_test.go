package render

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/triggers"
)

func TestATemplateThatIsTooLargeHasOneEvent(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	large := parse(t, nginx)
	large.SetAnnotations(map[string]string{"text": strings.Repeat("\x01", workv1alpha1.MaxManifestBytes/6)}) // six bytes each
	s.put(large)
	writes, result, err := s.reconcile(binding)
	if !errors.Is(err, reconcile.TerminalError(nil)) || result.RequeueAfter != 0 {
		t.Errorf("got %v, %v, want an end", result, err)
	}
	wantWrites(t, "only the condition is written", writes, "patch status default/nginx-deployment")
	condition := renderedCondition(t, s, binding)
	if condition == nil || condition.Reason != workv1alpha2.ManifestTooLargeReason || !strings.Contains(condition.Message, "1400000") {
		t.Errorf("condition is %+v, want the size and the limit", condition)
	}
	if len(s.events) != 1 || s.events[0].Reason != events.SyncWorkFailed || s.events[0].Object.Name != "nginx" {
		t.Errorf("events are %v, want one about the template", s.events)
	}
	s.put(parse(t, nginx))
	wantWrites(t, "it is smaller now", s.mustReconcile(binding), "create "+workM1, "patch status default/nginx-deployment")
}

func TestWorksOfTwoObjectsWithOneName(t *testing.T) {
	named := func(object string) (*workv1alpha2.ClusterResourceBinding, *unstructured.Unstructured) {
		role := parse(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: \""+object+"\", uid: role-uid}")
		binding := &workv1alpha2.ClusterResourceBinding{}
		binding.Name, binding.UID = "of-"+strings.ToLower(strings.ReplaceAll(object, ":", "")), "uid"
		binding.Labels = map[string]string{workv1alpha2.ClusterResourceBindingPermanentIDLabel: "id-of-" + binding.Name}
		binding.Spec.Resource = workv1alpha2.ObjectReference{
			APIVersion: role.GetAPIVersion(), Kind: role.GetKind(), Name: object, UID: "role-uid"}
		binding.Spec.Clusters = targets("m1")
		return binding, role
	}
	first, firstRole := named("a:b")
	second, secondRole := named("a.b")
	s := newStage(t, first, second, cluster("m1", nil))
	s.reconciler.namespaced = false
	for _, role := range []*unstructured.Unstructured{firstRole, secondRole} {
		s.templates[hubstore.RefOf(role)] = role
	}
	plain := "karmada-es-m1/" + workv1alpha1.WorkName("ClusterRole", "", "a:b")
	other := "karmada-es-m1/" + workv1alpha1.AlternativeWorkName(secondRole.GroupVersionKind().GroupKind(), "", "a.b")
	wantWrites(t, "the first has the usual name", s.mustReconcile(first), "create "+plain)
	wantWrites(t, "the second another", s.mustReconcile(second), "create "+other)
	wantWrites(t, "it is found again", s.mustReconcile(second))
	work := &workv1alpha1.Work{}
	work.Namespace, work.Name, _ = strings.Cut(plain, "/")
	s.letGo(work)
	if err := s.client.Delete(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	wantWrites(t, "it keeps its name when the other is free", s.mustReconcile(second))
}

func TestANamespaceAtItsLimitWaits(t *testing.T) {
	binding := nginxBinding("m1", "m2")
	s := newStage(t, threeClusters(binding)...)
	full := true
	s.reconciler.deps.MayStore = func(namespace string, before, _ *workv1alpha1.Work) error {
		if full && namespace == "default" && before == nil {
			return errors.New("namespace default is at its limit")
		}
		return nil
	}
	writes, result, err := s.reconcile(binding)
	if !errors.Is(err, reconcile.TerminalError(nil)) || result.RequeueAfter != 0 {
		t.Errorf("got %v, %v, want no retry", result, err)
	}
	wantWrites(t, "only the condition is written", writes, "patch status default/nginx-deployment")
	condition := renderedCondition(t, s, binding)
	if condition == nil || condition.Reason != workv1alpha2.NamespaceLimitReason || condition.Message != "namespace default is at its limit" {
		t.Errorf("condition is %+v, want the reason once for both clusters", condition)
	}
	if len(s.events) != 1 || s.events[0].Reason != events.SyncWorkFailed || s.events[0].Object.Name != "nginx" {
		t.Errorf("events are %v, want one about the template", s.events)
	}

	woken := map[string]bool{}
	var wake func(string) bool
	triggers := &triggers.Triggers{Reader: s.client, Namespaced: true}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	if err := triggers.Space(func(w func(string) bool) { wake = w }).Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"other", "default"} {
		woken[namespace] = wake(namespace)
	}
	if woken["default"] || woken["other"] || queue.Len() != 1 {
		t.Errorf("%d bindings are rendered again, want the one that waits, and no more to come: %v", queue.Len(), woken)
	}
	full = false
	if writes := s.mustReconcile(binding); len(writes) != 3 {
		t.Errorf("with space: %v, want two Works and the condition", writes)
	}
	if condition := renderedCondition(t, s, binding); condition != nil {
		t.Errorf("the condition is still there: %+v", condition)
	}
}

func TestForeignTemplatesAreNotRendered(t *testing.T) {
	for name, change := range map[string]func(*workv1alpha2.ResourceBinding){
		"OtherNamespace": func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.Namespace = "other" },
		"ControlPlane": func(b *workv1alpha2.ResourceBinding) {
			b.Namespace = "karmada-cluster"
			b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "karmada-cluster", Name: "m1"}
		},
		"ClusterScoped": func(b *workv1alpha2.ResourceBinding) { b.Namespace, b.Spec.Resource.Namespace = "shop", "shop" },
	} {
		t.Run(name, func(t *testing.T) {
			binding := nginxBinding("m1")
			change(binding)
			s := newStage(t, threeClusters(binding)...)
			s.templates[hubstore.TemplateOf(&binding.Spec)] = parse(t, nginx) // a store ignores the namespace where the kind has none
			writes, _, err := s.reconcile(binding)
			if !compose.IsForbidden(err) {
				t.Errorf("got %v, want a refusal", err)
			}
			wantWrites(t, "only the condition is written", writes, "patch status "+client.ObjectKeyFromObject(binding).String())
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
				t.Fatal(err)
			}
			c := meta.FindStatusCondition(binding.Status.Conditions, workv1alpha2.Rendered)
			if c == nil || c.Reason != workv1alpha2.ForbiddenReason {
				t.Errorf("the condition is %v, want one with reason %s", c, workv1alpha2.ForbiddenReason)
			}
		})
	}
}
