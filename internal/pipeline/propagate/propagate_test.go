package propagate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/policies"
)

func TestATemplateIsClaimedAndBoundInTwoWrites(t *testing.T) {
	h := newHub(t, pp("p", with(func(s *policyv1alpha1.PropagationSpec) {
		s.SchedulerName = "default-scheduler"
		s.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}
		s.ConflictResolution = policyv1alpha1.ConflictOverwrite
		s.PreserveResourcesOnDeletion = ptr.To(true)
		//lint:ignore SA1019 the old field keeps working
		s.Association = true
	})))
	ref := h.deployment("web")

	h.reconcile(ref)
	h.expectWrites("a new template", "patch template web", "create ResourceBinding web-deployment")
	h.reconcile(ref)
	h.expectWrites("nothing new")
	if h.templates.reads > 0 {
		t.Errorf("%d reads of the template; the answer to the claim is enough", h.templates.reads)
	}

	meta, _ := h.templates.Meta(ref)
	if got, want := policy.ClaimOn(meta), (policy.Claim{Policy: policy.Key{Namespace: "shop", Name: "p"}, ID: "p-id"}); got != want {
		t.Errorf("claim on the template is %v, want %v", got, want)
	}
	binding := h.binding(ref).(*workv1alpha2.ResourceBinding)
	if got, want := policy.ClaimOn(binding), (policy.Claim{Policy: policy.Key{Namespace: "shop", Name: "p"}, ID: "p-id"}); got != want {
		t.Errorf("claim on the binding is %v, want %v", got, want)
	}
	if diff := cmp.Diff([]string{workv1alpha2.ResourceBindingFinalizer}, binding.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-of-web", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}
	if diff := cmp.Diff([]metav1.OwnerReference{owner}, binding.OwnerReferences); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
	spec := binding.Spec
	if got := spec.ReplicaRequirements.ResourceRequest.Cpu().String(); got != "100m" {
		t.Errorf("requests %s of cpu, want 100m", got)
	}
	spec.ReplicaRequirements = nil
	want := workv1alpha2.ResourceBindingSpec{
		Resource: workv1alpha2.ObjectReference{
			APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "uid-of-web", ResourceVersion: meta.ResourceVersion,
		},
		Replicas:                    2,
		PropagateDeps:               true,
		SchedulerName:               "default-scheduler",
		Placement:                   &policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}},
		ConflictResolution:          policyv1alpha1.ConflictOverwrite,
		PreserveResourcesOnDeletion: ptr.To(true),
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestClusterScopedTemplates(t *testing.T) {
	propagation := cpp("p", with(func(s *policyv1alpha1.PropagationSpec) {
		s.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "a:reader"}}
	}))
	h := newHub(t, propagation)
	ref := h.object(hubstore.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, Name: "a:reader"}, nil, 0)
	h.reconcile(ref)
	h.expectWrites("a cluster role", "patch template a:reader", "create ClusterResourceBinding a.reader-clusterrole")
	binding := h.binding(ref)
	if diff := cmp.Diff([]string{workv1alpha2.ClusterResourceBindingFinalizer}, binding.GetFinalizers()); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if binding.BindingSpec().ReplicaRequirements != nil || binding.BindingSpec().Replicas != 0 {
		t.Error("a cluster role has replicas")
	}
}

func TestTemplateChanges(t *testing.T) {
	h := newHub(t, pp("p"))
	ref := h.deployment("web")
	h.reconcile(ref)
	h.writes = nil
	version := h.binding(ref).BindingSpec().Resource.ResourceVersion

	h.templates.change(ref, func(obj *unstructured.Unstructured) {
		obj.Object["status"] = map[string]any{"replicas": int64(2)}
	})
	h.reconcile(ref)
	h.expectWrites("a status")
	if h.binding(ref).BindingSpec().Resource.ResourceVersion != version {
		t.Error("a status changed the binding")
	}

	h.templates.change(ref, func(obj *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(obj.Object, int64(7), "spec", "replicas")
	})
	h.reconcile(ref)
	h.expectWrites("another number of replicas", "patch ResourceBinding web-deployment")
	if got := h.binding(ref).BindingSpec(); got.Replicas != 7 || got.Resource.ResourceVersion == version {
		t.Errorf("binding has %d replicas of version %s", got.Replicas, got.Resource.ResourceVersion)
	}

	for reason, edit := range map[string]func(*unstructured.Unstructured){
		"a label": func(obj *unstructured.Unstructured) {
			obj.SetLabels(merged(obj.GetLabels(), map[string]string{"a": "b"}))
		},
		"an annotation": func(obj *unstructured.Unstructured) {
			obj.SetAnnotations(merged(obj.GetAnnotations(), map[string]string{"a": "b"}))
		},
		"a mark of our own": func(obj *unstructured.Unstructured) {
			obj.SetLabels(merged(obj.GetLabels(), map[string]string{policyv1alpha1.RetainReplicasLabel: "true"}))
		},
	} {
		h.templates.change(ref, edit)
		h.reconcile(ref)
		h.expectWrites(reason, "patch ResourceBinding web-deployment")
		h.reconcile(ref)
		h.expectWrites(reason + ", again")
	}
}

// What users say about a kind is part of what a binding is made from, across restarts as well.
func TestAKindThatMeansSomethingElse(t *testing.T) {
	h := newHub(t, pp("p"))
	said := ""
	h.loop.customized = func(kind schema.GroupVersionKind) string {
		if kind.Kind == "Deployment" {
			return said
		}
		return ""
	}
	ref := h.deployment("web")
	h.reconcile(ref)
	h.writes = nil
	replicas := h.binding(ref).BindingSpec().Replicas

	said = "x1"
	h.loop.workload = revised{h.loop.workload}
	h.reconcile(ref)
	h.expectWrites("the kind has replicas of another sort", "patch ResourceBinding web-deployment")
	if got := h.binding(ref).BindingSpec().Replicas; got != replicas+1 {
		t.Errorf("the binding has %d replicas, want %d", got, replicas+1)
	}
	h.reconcile(ref)
	h.expectWrites("again")
	said = ""
	h.reconcile(ref)
	h.expectWrites("no policy suspends it any more", "patch ResourceBinding web-deployment")
}

// revised counts one replica more.
type revised struct{ workloads }

func (r revised) Replicas(ctx context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	result, err := r.workloads.Replicas(ctx, obj)
	result.Replicas++
	return result, err
}

func TestKindsWithoutGeneration(t *testing.T) {
	service := schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	secret := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	all := func(kind string) policyOption {
		return with(func(s *policyv1alpha1.PropagationSpec) {
			s.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: kind}}
		})
	}
	h := newHub(t, pp("services", all("Service")), pp("secrets", all("Secret")))
	svc := h.object(hubstore.Ref{GroupVersionKind: service, Namespace: "shop", Name: "web"}, map[string]any{"type": "LoadBalancer"}, 0)
	h.reconcile(svc)
	h.writes = nil
	h.templates.change(svc, func(obj *unstructured.Unstructured) {
		obj.Object["status"] = map[string]any{"loadBalancer": map[string]any{}}
	})
	h.reconcile(svc)
	h.expectWrites("a status of a kind without generation")
	h.templates.change(svc, func(obj *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(obj.Object, "ClusterIP", "spec", "type")
	})
	h.reconcile(svc)
	h.expectWrites("content of a kind without generation", "patch ResourceBinding web-service")

	key := h.object(hubstore.Ref{GroupVersionKind: secret, Namespace: "shop", Name: "key"}, nil, 0)
	h.reconcile(key)
	h.writes = nil
	if digest := h.binding(key).GetAnnotations()[workv1alpha2.TemplateContentAnnotation]; !strings.HasPrefix(digest, "r") {
		t.Errorf("the annotation of a Secret's content is %q; it must not be hashed", digest)
	}
	h.templates.change(key, func(obj *unstructured.Unstructured) { obj.Object["data"] = map[string]any{"a": "Yg=="} })
	h.reconcile(key)
	h.expectWrites("content of a Secret", "patch ResourceBinding key-secret")
}

func TestOthersFieldsOfABindingStay(t *testing.T) {
	propagation := pp("p", with(func(s *policyv1alpha1.PropagationSpec) {
		s.Suspension = &policyv1alpha1.Suspension{Dispatching: ptr.To(true)}
	}))
	h := newHub(t, propagation)
	ref := h.deployment("web")
	h.reconcile(ref)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment"}}
	h.update(binding, func() {
		binding.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member1", Replicas: 2}}
		binding.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: "member2", Reason: "x", Producer: "y"}}
		binding.Spec.Suspension.Scheduling = ptr.To(true)
		binding.Labels["other"] = "label"
	})
	h.update(propagation, func() {
		propagation.Spec.Suspension = nil
		propagation.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member3"}}
	})
	h.policyChanged(policy.KeyOf(propagation))
	h.expectWrites("a changed policy", "patch ResourceBinding web-deployment")
	got := h.binding(ref)
	if spec := got.BindingSpec(); len(spec.Clusters) != 1 || len(spec.GracefulEvictionTasks) != 1 || got.GetLabels()["other"] != "label" {
		t.Errorf("fields of others are gone: %+v", spec)
	}
	want := &workv1alpha2.Suspension{Scheduling: ptr.To(true)}
	if diff := cmp.Diff(want, got.BindingSpec().Suspension); diff != "" {
		t.Errorf("suspension (-want +got):\n%s", diff)
	}
	if got.BindingSpec().Placement.ClusterAffinity.ClusterNames[0] != "member3" {
		t.Error("the placement is not the policy's")
	}
}

func TestADeletedTemplateTakesItsBindingAlong(t *testing.T) {
	h := newHub(t, pp("p"))
	ref := h.deployment("web")
	h.reconcile(ref)
	h.writes = nil
	delete(h.templates.objects, ref)
	h.reconcile(ref)
	h.expectWrites("a deleted template", "delete ResourceBinding web-deployment")
	h.reconcile(ref)
	h.expectWrites("while the binding's finalizer runs")
}

func TestABindingStays(t *testing.T) {
	for reason, change := range map[string]func(*fakeHub, hubstore.Ref){
		"when its owner was orphaned on purpose": func(h *fakeHub, ref hubstore.Ref) {
			b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment"}}
			h.update(b, func() { b.OwnerReferences = nil })
			delete(h.templates.objects, ref)
		},
		"while the template waits for a finalizer": func(h *fakeHub, ref hubstore.Ref) {
			h.templates.change(ref, func(obj *unstructured.Unstructured) { obj.SetDeletionTimestamp(ptr.To(metav1.NewTime(start))) })
		},
		"when another controller took the template": func(h *fakeHub, ref hubstore.Ref) {
			h.templates.change(ref, func(obj *unstructured.Unstructured) {
				obj.SetLabels(map[string]string{policyv1alpha1.ResourceTemplateClaimedByLabel: "MultiClusterService"})
			})
		},
		"when the template's labels move away from the policy": func(h *fakeHub, ref hubstore.Ref) {
			h.templates.change(ref, func(obj *unstructured.Unstructured) {
				obj.SetLabels(merged(obj.GetLabels(), map[string]string{"tier": "back"}))
			})
		},
	} {
		t.Run(reason, func(t *testing.T) {
			h := newHub(t, pp("p", selecting("tier=front")))
			ref := h.deployment("web")
			h.reconcile(ref)
			h.writes = nil
			change(h, ref)
			h.reconcile(ref)
			h.expectWrites(reason)
			h.binding(ref)
		})
	}
}

func TestASuccessorOfTheSameName(t *testing.T) {
	h := newHub(t, pp("p"))
	ref := h.deployment("web")
	h.reconcile(ref)
	h.writes = nil
	obj := h.templates.objects[ref].DeepCopy()
	obj.SetUID("second")
	obj.SetLabels(nil)
	h.templates.put(ref, obj)
	h.reconcile(ref)
	h.expectWrites("a successor keeps the binding, and so the copies", "patch template web", "patch ResourceBinding web-deployment")
	b := h.binding(ref)
	if b.BindingSpec().Resource.UID != "second" {
		t.Error("the binding is of the old template")
	}
	if owners := b.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "second" {
		t.Errorf("owners are %v, want the successor alone: the garbage collector would delete the binding", owners)
	}
	h.writes = nil
	h.reconcile(ref)
	h.expectWrites("nothing is left to do")
}

func TestPolicyDeletionReleases(t *testing.T) {
	for reason, finalizer := range map[string]bool{"with finalizer": true, "without": false} {
		t.Run(reason, func(t *testing.T) {
			propagation := pp("p", func(meta *metav1.ObjectMeta, _ *policyv1alpha1.PropagationSpec) {
				if finalizer {
					meta.Finalizers = []string{policyv1alpha1.PropagationPolicyFinalizer}
				}
			})
			h := newHub(t, propagation)
			web, api := h.deployment("web"), h.deployment("api")
			h.reconcile(web)
			h.reconcile(api)
			if err := h.client.Delete(t.Context(), propagation); err != nil {
				t.Fatal(err)
			}
			h.policyChanged(policy.KeyOf(propagation))
			for _, ref := range []hubstore.Ref{web, api} {
				meta, _ := h.templates.Meta(ref)
				binding := h.binding(ref)
				if policy.IsClaimed(meta) || policy.IsClaimed(binding) {
					t.Errorf("%s is still claimed", ref)
				}
				if binding.GetDeletionTimestamp() != nil || binding.BindingSpec().Placement == nil {
					t.Errorf("the binding of %s did not stay as it was", ref)
				}
			}
			if p, err := h.loop.policies.Get(t.Context(), policy.KeyOf(propagation)); err != nil || p != nil {
				t.Errorf("the policy is still there: %v, %v", p, err)
			}

			h.create(cpp("next"))
			h.policyChanged(policy.Key{Name: "next"})
			if got := policy.ClaimOn(h.binding(web)).Policy; got != (policy.Key{Name: "next"}) {
				t.Errorf("a released template went to %s, want the next policy", got)
			}
		})
	}
}

// TestAPolicyDoesNotWaitForBindingsThatGo: what these wait for is a member, which may be away for long.
func TestAPolicyDoesNotWaitForBindingsThatGo(t *testing.T) {
	propagation := pp("p", func(meta *metav1.ObjectMeta, _ *policyv1alpha1.PropagationSpec) {
		meta.Finalizers = []string{policyv1alpha1.PropagationPolicyFinalizer}
	})
	h := newHub(t, propagation)
	web := h.deployment("web")
	h.reconcile(web)
	delete(h.templates.objects, web)
	h.reconcile(web)
	if h.binding(web).GetDeletionTimestamp() == nil {
		t.Fatal("the binding does not go with its template")
	}
	if err := h.client.Delete(t.Context(), propagation); err != nil {
		t.Fatal(err)
	}
	h.policyChanged(policy.KeyOf(propagation))
	if p, err := h.loop.policies.Get(t.Context(), policy.KeyOf(propagation)); err != nil || p != nil {
		t.Errorf("the policy is still there: %v, %v", p, err)
	}
}

func TestPolicyChangesReleaseAndClaim(t *testing.T) {
	propagation := pp("p", selecting("web"))
	h := newHub(t, propagation, pp("rest", selecting("tier=front"), priority(-1)))
	web, api := h.deployment("web"), h.deployment("api")
	h.reconcile(web)
	h.reconcile(api)
	h.clock.Step(2 * time.Minute)
	h.update(propagation, func() { propagation.Spec.ResourceSelectors[0].Name = "api" })
	h.policyChanged(policy.KeyOf(propagation))
	if got := policy.ClaimOn(h.binding(web)).Policy.Name; got != "rest" {
		t.Errorf("what the policy no longer selects belongs to %q, want the other policy", got)
	}
	if got := policy.ClaimOn(h.binding(api)).Policy.Name; got != "rest" {
		t.Errorf("what another policy holds went to %q without preemption", got)
	}
	h.expectEvent("1 of 1 selected objects belong to others, which this policy may not preempt: PropagationPolicy shop/rest (1)")
}

func TestReleasedWithoutSuccessor(t *testing.T) {
	propagation := pp("p", selecting("tier=front"))
	h := newHub(t, propagation)
	ref := h.deployment("web")
	h.reconcile(ref)
	h.update(propagation, func() { propagation.Spec.ResourceSelectors[0].LabelSelector.MatchLabels["tier"] = "back" })
	h.policyChanged(policy.KeyOf(propagation))
	h.expectWrites("a policy that moved on", "patch template web", "patch ResourceBinding web-deployment")
	h.expectEvent("No policy match for resource; PropagationPolicy shop/p selects Deployment with labels tier=back")
}

// A policy may be reconciled before the templates are listed, as after a start; it is not reconciled again.
func TestAPolicyThatChangedBeforeTheStartReleasesItsTemplates(t *testing.T) {
	propagation := pp("p", selecting("tier=front"))
	h := newHub(t, propagation)
	ref := h.deployment("web")
	h.reconcile(ref)
	h.update(propagation, func() { propagation.Spec.ResourceSelectors[0].LabelSelector.MatchLabels["tier"] = "back" })
	h.templates.listed, h.templates.objects = h.templates.objects, nil
	h.policyChanged(policy.KeyOf(propagation))
	h.expectWrites("a policy that moved on", "patch template web", "patch ResourceBinding web-deployment")
}

func TestPreemptionTakesATemplateOver(t *testing.T) {
	holder := pp("holder", priority(5))
	h := newHub(t, holder, pp("preemptor", selecting("web"), priority(3), preempting))
	ref := h.deployment("web")
	h.reconcile(ref)
	if got := policy.ClaimOn(h.binding(ref)).Policy.Name; got != "holder" {
		t.Fatalf("%q won, want the higher priority", got)
	}
	h.update(holder, func() { holder.Spec.Priority = ptr.To(int32(1)) })
	h.policyChanged(policy.KeyOf(holder))
	if got := policy.ClaimOn(h.binding(ref)).Policy.Name; got != "preemptor" {
		t.Errorf("after the holder's priority was lowered it belongs to %q, want the preempting policy", got)
	}
	h.expectEvent("PreemptPolicySucceed Deployment/web: PropagationPolicy shop/preemptor (priority 3) takes the object from PropagationPolicy shop/holder (priority 1)")
	meta, _ := h.templates.Meta(ref)
	if _, both := meta.Labels[policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel]; both {
		t.Error("two claims at once")
	}
}

func TestANamespacedPreemptorReplacesAClusterWideClaim(t *testing.T) {
	h := newHub(t, cpp("wide", priority(9)))
	ref := h.deployment("web")
	h.reconcile(ref)
	preemptor := pp("preemptor", selecting("web"), preempting)
	h.create(preemptor)
	h.policyChanged(policy.KeyOf(preemptor))
	meta, _ := h.templates.Meta(ref)
	for what, obj := range map[string]metav1.Object{"template": meta, "binding": h.binding(ref)} {
		if got, want := policy.ClaimOn(obj), (policy.Claim{Policy: policy.KeyOf(preemptor), ID: "preemptor-id"}); got != want {
			t.Errorf("claim on the %s is %v, want %v", what, got, want)
		}
		if obj.GetLabels()[policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel] != "" ||
			obj.GetAnnotations()[policyv1alpha1.ClusterPropagationPolicyNameAnnotation] != "" {
			t.Errorf("keys of the old claim are left on the %s", what)
		}
	}
}

func TestLazyPolicies(t *testing.T) {
	placed := func(name string) policyOption {
		return with(func(s *policyv1alpha1.PropagationSpec) {
			s.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: []string{name}}
		})
	}
	created := func(at time.Time) policyOption {
		return func(meta *metav1.ObjectMeta, _ *policyv1alpha1.PropagationSpec) {
			meta.CreationTimestamp = metav1.NewTime(at)
		}
	}
	targets := func(h *fakeHub, ref hubstore.Ref) string {
		return h.binding(ref).BindingSpec().Placement.ClusterAffinity.ClusterNames[0]
	}
	edit := func(obj *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(obj.Object, int64(9), "spec", "replicas")
	}

	t.Run("an edit waits for the template to change", func(t *testing.T) {
		propagation := pp("p", lazy, placed("member1"), created(start.Add(-2*time.Hour)))
		h := newHub(t, propagation)
		ref := h.deployment("web")
		h.reconcile(ref)
		h.update(propagation, func() { propagation.Spec.Placement.ClusterAffinity.ClusterNames = []string{"member2"} })
		h.policyChanged(policy.KeyOf(propagation))
		if got := targets(h, ref); got != "member1" {
			t.Errorf("the edit took effect at once: %s", got)
		}
		h.templates.change(ref, func(obj *unstructured.Unstructured) {
			obj.SetAnnotations(merged(obj.GetAnnotations(), map[string]string{"some.karmada.io/key": "x"}))
		})
		h.reconcile(ref)
		if got := targets(h, ref); got != "member1" {
			t.Errorf("a mark of our own counts as a change: %s", got)
		}
		h.templates.change(ref, edit)
		h.reconcile(ref)
		if got := targets(h, ref); got != "member2" {
			t.Errorf("after the template changed: %s, want member2", got)
		}
	})

	prefers := func(h *fakeHub, propagation *policyv1alpha1.PropagationPolicy, preference policyv1alpha1.ActivationPreference, cluster string) {
		h.update(propagation, func() {
			propagation.Spec.ActivationPreference = preference
			propagation.Spec.Placement.ClusterAffinity.ClusterNames = []string{cluster}
		})
		h.policyChanged(policy.KeyOf(propagation))
	}
	report := func(h *fakeHub, ref hubstore.Ref) { // a status is a new resource version
		h.templates.change(ref, func(obj *unstructured.Unstructured) { obj.Object["status"] = map[string]any{"replicas": int64(2)} })
	}

	t.Run("a policy that turns lazy moves nothing", func(t *testing.T) {
		propagation, other := pp("p", placed("member1"), created(start.Add(-2*time.Hour))), pp("q", lazy, placed("member3"), created(start.Add(-2*time.Hour)))
		h := newHub(t, propagation)
		ref := h.deployment("web")
		h.reconcile(ref)
		report(h, ref)
		prefers(h, propagation, policyv1alpha1.LazyActivation, "member2")
		if got := targets(h, ref); got != "member1" {
			t.Errorf("the edit took effect at once: %s", got)
		}
		h.writes = nil
		h.reconcile(ref)
		h.expectWrites("again")
		other.Spec.Priority, other.Spec.Preemption = ptr.To[int32](9), policyv1alpha1.PreemptAlways
		other.Spec.ResourceSelectors[0].Name = "web"
		h.create(other)
		h.reconcile(ref) // the claim is a new generation of a Deployment
		h.reconcile(ref)
		if got := targets(h, ref); got != "member1" {
			t.Errorf("another lazy policy takes effect at once: %s", got)
		}
		h.templates.change(ref, edit)
		h.reconcile(ref)
		if got := targets(h, ref); got != "member3" {
			t.Errorf("after the template changed: %s, want member3", got)
		}
	})

	t.Run("a policy that is lazy no more does what it says, and counts nothing as a change of the template", func(t *testing.T) {
		propagation := pp("p", lazy, placed("member1"), created(start.Add(-2*time.Hour)))
		h := newHub(t, propagation)
		ref := h.deployment("web")
		h.reconcile(ref)
		report(h, ref)
		before := h.binding(ref).BindingSpec().DeepCopy()
		prefers(h, propagation, "", "member1")
		if diff := cmp.Diff(before, h.binding(ref).BindingSpec()); diff != "" {
			t.Errorf("the spec of the binding changed (-before +after):\n%s", diff)
		}
		h.writes = nil
		h.reconcile(ref)
		h.expectWrites("again")
		prefers(h, propagation, "", "member2")
		if got := targets(h, ref); got != "member2" {
			t.Errorf("an edit waits: %s", got)
		}
	})

	t.Run("a policy that comes later waits too", func(t *testing.T) {
		h := newHub(t, pp("p", lazy, placed("member1"), created(start)))
		ref := h.deployment("web")
		h.reconcile(ref)
		h.expectWrites("a lazy policy", "patch template web")
		h.reconcile(ref)
		h.expectWrites("again")
		h.templates.change(ref, edit)
		h.reconcile(ref)
		h.expectWrites("a change of the template", "create ResourceBinding web-deployment")
	})
}

func TestDependentOverridesAreWaitedFor(t *testing.T) {
	h := newHub(t, pp("p", with(func(s *policyv1alpha1.PropagationSpec) { s.DependentOverrides = []string{"first"} })))
	ref := h.deployment("web")
	h.reconcile(ref)
	h.expectWrites("a policy whose override is missing")
	h.expectEvent(`waits for override policy "first"`)
	override := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "first"}}
	h.create(override)
	keys, err := policies.DependingOnOverride(t.Context(), h.client, policy.KeyOf(override))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]policy.Key{{Namespace: "shop", Name: "p"}}, keys); diff != "" {
		t.Errorf("policies waiting for the override (-want +got):\n%s", diff)
	}
	h.queue.refs = nil
	if _, err := h.policies.Reconcile(t.Context(), policies.Request{Key: policy.KeyOf(override), Override: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]hubstore.Ref{ref}, h.queue.refs); diff != "" {
		t.Errorf("templates that the override policy concerns (-want +got):\n%s", diff)
	}
	h.policyChanged(keys[0])
	h.expectWrites("once it is there", "patch template web", "create ResourceBinding web-deployment")
}

func TestBindingsTakeOverOptIns(t *testing.T) {
	propagation := pp("p")
	propagation.Annotations = map[string]string{policyv1alpha1.PartialPlacementAnnotation: "true", "note": "stays here"}
	h := newHub(t, propagation)
	ref := h.deployment("web")
	h.reconcile(ref)
	annotations := h.binding(ref).GetAnnotations()
	if annotations[policyv1alpha1.PartialPlacementAnnotation] != "true" || annotations["note"] != "" {
		t.Errorf("annotations of the binding: %v, want those of the policy that ask for something, and no others", annotations)
	}
}

func TestSchedulePriorityIsLookedUp(t *testing.T) {
	h := newHub(t, pp("p", with(func(s *policyv1alpha1.PropagationSpec) {
		s.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassSource: policyv1alpha1.KubePriorityClass, PriorityClassName: "high"}
	})))
	ref := h.deployment("web")
	if _, err := h.loop.Reconcile(t.Context(), ref); err == nil {
		t.Error("a missing priority class is no error")
	}
	h.expectEvent(`names priority class "high"`)
	class := hubstore.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}, Name: "high"}
	obj := &unstructured.Unstructured{Object: map[string]any{"value": int64(1000)}}
	h.templates.put(class, obj)
	h.reconcile(ref)
	if got := h.binding(ref).BindingSpec().SchedulePriority; got == nil || got.Priority != 1000 {
		t.Errorf("priority %v, want 1000", got)
	}
}

func TestAPolicyThatNamesAnotherObjectPublishesNoEvent(t *testing.T) {
	h := newHub(t, pp("p", selecting("other")))
	ref := h.deployment("web")
	h.clock.Step(2 * time.Minute)
	h.reconcile(ref)
	if len(h.events) > 0 {
		t.Errorf("a policy that names another object made events: %q", h.events)
	}
}

func TestAnEventReportsWhyNoPolicyMatches(t *testing.T) {
	h := newHub(t, pp("p", selecting("tier=back")))
	ref := h.deployment("web")
	h.reconcile(ref)
	if len(h.events) > 0 {
		t.Errorf("a restart is news: %q", h.events)
	}
	h.templates.objects[ref].SetCreationTimestamp(metav1.NewTime(start.Add(time.Second)))
	h.clock.Step(2 * time.Second)
	again := h.reconcile(ref)
	if len(h.events) > 0 || again != 4*time.Second {
		t.Errorf("published at once, or reconciled again after %s: %q", again, h.events)
	}
	h.clock.Step(again)
	h.reconcile(ref)
	h.expectEvent("Warning ApplyPolicyFailed Deployment/web: No policy match for resource; PropagationPolicy shop/p selects Deployment with labels tier=back")
	h.expectWrites("an unmatched template")
}

// A workload without a policy runs nowhere, and its author may not know. Thousands of other objects are not meant to be propagated.
func TestAnEventReportsThatNoPolicySelectsAWorkload(t *testing.T) {
	const missing = "Warning ApplyPolicyFailed Deployment/web: No policy match for resource: it is in no member until"
	created := metav1.NewTime(start.Add(time.Second))
	h := newHub(t)
	web := h.deployment("web")
	owned, settings := h.deployment("owned"), h.object(configMap("settings"), nil, 0)
	for _, ref := range []hubstore.Ref{web, owned, settings} {
		h.templates.objects[ref].SetCreationTimestamp(created)
	}
	h.templates.objects[owned].SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "App", Name: "a", UID: "a"}})
	h.clock.Step(2 * time.Second)
	again := h.reconcile(web)
	if len(h.events) > 0 || again == 0 {
		t.Errorf("published at once: %q", h.events)
	}
	h.clock.Step(again)
	for _, ref := range []hubstore.Ref{web, owned, settings} {
		h.reconcile(ref)
	}
	if len(h.events) != 1 || !strings.HasPrefix(h.events[0], missing) {
		t.Errorf("events %q, want one for the workload", h.events)
	}
	h.events = nil
	h.clock.Step(2 * time.Minute)
	h.reconcile(web)
	if len(h.events) > 0 {
		t.Errorf("later changes of the template publish it again: %q", h.events)
	}
	for i := range 100 {
		ref := h.deployment(fmt.Sprint("many-", i))
		h.templates.objects[ref].SetCreationTimestamp(metav1.NewTime(h.clock.Now().Add(-10 * time.Second)))
		h.reconcile(ref)
	}
	if len(h.events) != 20 {
		t.Errorf("a hundred at once make %d events", len(h.events))
	}
	h.expectWrites("templates without a policy")
}

func TestAnEventReportsWhichPolicyWonAndWhy(t *testing.T) {
	h := newHub(t, pp("broad"), pp("exact", selecting("web")))
	ref := h.deployment("web")
	h.reconcile(ref)
	h.expectEvent("ApplyPolicySucceed Deployment/web: PropagationPolicy shop/exact applies; PropagationPolicy shop/broad: PropagationPolicy shop/exact selects the object by name, this one by kind")
	h.events = nil
	h.reconcile(ref)
	if len(h.events) > 0 {
		t.Errorf("published again: %q", h.events)
	}
}

func TestAPolicyWithoutIDIsTriedAgain(t *testing.T) {
	propagation := pp("p")
	propagation.Labels = nil
	h := newHub(t, propagation)
	if _, err := h.loop.Reconcile(t.Context(), h.deployment("web")); err == nil {
		t.Error("a policy without permanent id was applied")
	}
	h.expectWrites("a policy without permanent id")
}

func TestAVoidClaimIsReplaced(t *testing.T) {
	h := newHub(t, pp("p"))
	ref := h.deployment("web")
	h.templates.change(ref, func(obj *unstructured.Unstructured) {
		obj.SetLabels(map[string]string{policyv1alpha1.PropagationPolicyPermanentIDLabel: "an-older-one"})
		obj.SetAnnotations(map[string]string{
			policyv1alpha1.PropagationPolicyNamespaceAnnotation: "shop", policyv1alpha1.PropagationPolicyNameAnnotation: "p",
		})
	})
	h.reconcile(ref)
	meta, _ := h.templates.Meta(ref)
	if got := policy.ClaimOn(meta).ID; got != "p-id" {
		t.Errorf("claim has id %q, want that of the policy as it is", got)
	}
}
