package answers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/answers"
	"github.com/flagship-k8s/flagship/internal/host/interpreter"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
)

// hub is a cache: it returns what it has, and lists of policies and Clusters without an index, since all policies are for one kind.
type hub struct {
	client.Client
	objects  map[string]client.Object
	clusters []clusterv1alpha1.Cluster
	policies []policyv1alpha1.PropagationPolicy
	rules    []policyv1alpha1.OverridePolicy
}

func keyOf(obj client.Object, key client.ObjectKey) string { return fmt.Sprintf("%T %s", obj, key) }

func (h *hub) add(obj client.Object) { h.objects[keyOf(obj, client.ObjectKeyFromObject(obj))] = obj }

func (h *hub) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, ok := h.objects[keyOf(into, key)]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	switch into := into.(type) {
	case *workv1alpha2.ResourceBinding:
		found.(*workv1alpha2.ResourceBinding).DeepCopyInto(into)
	case *workv1alpha1.Work:
		*into = *found.(*workv1alpha1.Work)
	case *clusterv1alpha1.Cluster:
		*into = *found.(*clusterv1alpha1.Cluster)
	}
	return nil
}

func (h *hub) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *clusterv1alpha1.ClusterList:
		list.Items = h.clusters
	case *policyv1alpha1.PropagationPolicyList:
		list.Items = h.policies
	case *policyv1alpha1.OverridePolicyList:
		list.Items = h.rules
	}
	return nil
}

// store has one kind and answers for any name.
type store struct{ kind hubstore.Kind }

func (s store) Kinds() []hubstore.Kind                       { return []hubstore.Kind{s.kind} }
func (store) OtherVersions(schema.GroupVersionKind) []string { return nil }
func (store) Stays(hubstore.Ref, metav1.Object) string       { return "" }

func (store) HasStatus(schema.GroupVersionKind) bool { return true }
func (store) Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	return nil, false
}
func (store) List(schema.GroupVersionKind, string, labels.Selector) []*metav1.PartialObjectMetadata {
	return nil
}

func (s store) Get(_ context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1000), "template": map[string]any{
		"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "nginx:1"}}},
	}}}}
	obj.SetGroupVersionKind(s.kind.GroupVersionKind)
	obj.SetNamespace(ref.Namespace)
	obj.SetName(ref.Name)
	return obj, nil
}

// fill makes 100 clusters, of which a third is tainted, 50 policies, 10 overrides, and 10,000 bindings with Works for the last.
func (h *hub) fill() {
	for i := range 100 {
		c := clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%03d", i), Labels: map[string]string{"tier": fmt.Sprint(i % 3)}}}
		if i%3 == 0 {
			c.Spec.Taints = []corev1.Taint{{Key: "env", Value: "test", Effect: corev1.TaintEffectNoSchedule}}
		}
		c.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionCompleteAPIEnablements, Status: metav1.ConditionTrue}, clusterv1alpha1.Ready()}
		c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Kind: "Deployment"}}}}
		c.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(int64(i%7), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("1100"),
		}}
		h.clusters = append(h.clusters, c)
		h.add(&c)
	}
	placement := &policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
		WeightPreference: &policyv1alpha1.ClusterPreferences{DynamicWeight: policyv1alpha1.DynamicWeightByAvailableReplicas},
	}}
	selector := policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: "Deployment"}
	for i := range 50 {
		p := policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("p%02d", i)}}
		p.Spec.ResourceSelectors, p.Spec.Placement = []policyv1alpha1.ResourceSelector{selector}, *placement
		h.policies = append(h.policies, p)
	}
	for i := range 10 {
		o := policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("o%02d", i)}}
		o.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
			{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{o.Name: "x"}},
		}}}}
		h.rules = append(h.rules, o)
	}
	for i := range 10_000 {
		name := fmt.Sprintf("web-%05d", i)
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: workv1alpha2.BindingName("Deployment", name)}}
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name}
		b.Spec.Placement, b.Spec.Replicas = placement, 1000
		b.Spec.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
		for c := range 50 {
			b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: fmt.Sprintf("m%03d", c), Replicas: 20})
		}
		h.add(b)
	}
}

// BenchmarkExplain measures one answer about a workload in 50 of 100 clusters, with 10,000 bindings.
func BenchmarkExplain(b *testing.B) {
	cache := &hub{objects: map[string]client.Object{}}
	cache.fill()
	chain, err := interpreter.New(clock.RealClock{})
	if err != nil {
		b.Fatal(err)
	}
	elected := make(chan struct{})
	close(elected)
	answerer := answers.Answerer{
		Reader: cache, Elected: elected, Scheduler: schedule.New(schedule.Deps{Client: cache, Clock: clock.RealClock{}}),
		Composer: compose.Composer{Interpreter: chain, Conversion: conversion.OrUnchanged(nil)},
		Templates: store{hubstore.Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Resource:         schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespaced: true,
		}},
	}
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		spec := fleetv1alpha1.ExplanationSpec{Kind: "Deployment", Namespace: "shop", Name: fmt.Sprintf("web-%05d", len(took)%10_000)}
		status, err := answerer.Explain(b.Context(), spec, &user.DefaultInfo{}, func(explain.Right) bool { return true })
		if err != nil || len(status.Steps) < 150 {
			b.Fatalf("%d steps, error %v", len(status.Steps), err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}
