package autoscaled

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flagship-k8s/flagship/api"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

var web = hubstore.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Namespace: "shop", Name: "web"}

// oneTemplate is a store with one Deployment.
type oneTemplate struct {
	meta    metav1.PartialObjectMetadata
	patches []string
	scaled  []int32
}

func (o *oneTemplate) Subscribe(func(hubstore.Ref)) {}

func (o *oneTemplate) Canonical(gvk schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	return gvk, true
}

func (o *oneTemplate) Meta(ref hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	return &o.meta, ref == web
}

func (o *oneTemplate) PatchMetadata(_ context.Context, ref hubstore.Ref, patch []byte) (*unstructured.Unstructured, error) {
	if ref != web {
		return nil, errors.New("another template is patched")
	}
	o.patches = append(o.patches, string(patch))
	return &unstructured.Unstructured{}, nil
}

func (o *oneTemplate) Scale(_ context.Context, _ hubstore.Ref, _ *metav1.PartialObjectMetadata, replicas int32) error {
	o.scaled = append(o.scaled, replicas)
	return nil
}

func clientWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(autoscalingv2.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&autoscalingv2.HorizontalPodAutoscaler{}, targetIndex, indexTarget).Build()
}

func TestMarker(t *testing.T) {
	hpa := func(apiVersion, kind, name string, claimed bool) *autoscalingv2.HorizontalPodAutoscaler {
		h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hpa"}}
		h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}
		if claimed {
			h.Labels = map[string]string{policyv1alpha1.PropagationPolicyPermanentIDLabel: "p"}
		}
		return h
	}
	ours := map[string]string{policyv1alpha1.AutoscaledAnnotation: "true"}
	label := func(value string) map[string]string {
		return map[string]string{policyv1alpha1.RetainReplicasLabel: value}
	}
	const (
		set    = `{"metadata":{"labels":{"resourcetemplate.karmada.io/retain-replicas":"true"},"annotations":{"flagship.io/autoscaled":"true"}}}`
		remove = `{"metadata":{"labels":{"resourcetemplate.karmada.io/retain-replicas":null},"annotations":{"flagship.io/autoscaled":null}}}`
	)
	elsewhere := hpa("apps/v1", "Deployment", "web", true)
	elsewhere.Namespace = "other"
	for name, tc := range map[string]struct {
		hpa                 *autoscalingv2.HorizontalPodAutoscaler
		labels, annotations map[string]string
		want                string
	}{
		"its autoscaler is propagated":     {hpa("apps/v1", "Deployment", "web", true), nil, nil, set},
		"by another version":               {hpa("apps/v1beta1", "Deployment", "web", true), nil, nil, set},
		"already marked":                   {hpa("apps/v1", "Deployment", "web", true), label("true"), ours, ""},
		"its autoscaler is not propagated": {hpa("apps/v1", "Deployment", "web", false), nil, nil, ""},
		"that was propagated":              {hpa("apps/v1", "Deployment", "web", false), label("true"), ours, remove},
		"points elsewhere now":             {hpa("apps/v1", "Deployment", "api", true), label("true"), ours, remove},
		"another kind":                     {hpa("apps/v1", "StatefulSet", "web", true), nil, nil, ""},
		"another namespace":                {elsewhere, nil, nil, ""},
		"a user marked it":                 {hpa("apps/v1", "Deployment", "api", true), label("true"), nil, ""},
		"a user does not want it":          {hpa("apps/v1", "Deployment", "web", true), label("false"), nil, ""},
		"a user changed the mark": {hpa("apps/v1", "Deployment", "api", true), label("false"), ours,
			`{"metadata":{"annotations":{"flagship.io/autoscaled":null}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			templates := &oneTemplate{meta: metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}}}
			m := &marker{hpas: indexedHPAs(clientWith(t, tc.hpa)), templates: templates}
			if _, err := m.Reconcile(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(templates.patches); got != "["+tc.want+"]" {
				t.Errorf("patches are %s, want %s", got, tc.want)
			}
		})
	}
}

func TestSyncer(t *testing.T) {
	type status = map[string]any
	settled := func(replicas int) status {
		return status{"replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas, "observedGeneration": 4, "generation": 4, "resourceTemplateGeneration": 2}
	}
	with := func(s status, key string, value int) status {
		s[key] = value
		return s
	}
	for name, tc := range map[string]struct {
		m1, m2 status
		edit   func(*workv1alpha2.ResourceBinding, *oneTemplate)
		// bound is maxReplicas of an autoscaler that is propagated, with minReplicas 2; 0 for none.
		bound   int32
		want    []int32
		refused bool
	}{
		"a billion, without an autoscaler":   {m1: settled(1_500_000_000), m2: settled(2), refused: true},
		"a billion, with one":                {m1: settled(1_500_000_000), m2: settled(2), bound: 5, want: []int32{7}},
		"as many as no template may have":    {m1: settled(1_500_000_000), m2: settled(1_500_000_000), bound: 2_000_000_000, refused: true},
		"fewer than an autoscaler chooses":   {m1: settled(1), m2: settled(5), bound: 9, want: []int32{7}},
		"less than nothing":                  {m1: settled(-7), m2: settled(2)},
		"more than 32 bits":                  {m1: settled(1 << 40), m2: settled(2)},
		"a sum of more than 32 bits in one":  {m1: with(settled(-2), "availableReplicas", 1<<31-1), m2: settled(2)},
		"a generation that is not there yet": {m1: with(settled(7), "resourceTemplateGeneration", 1<<60), m2: settled(2), bound: 9, want: []int32{9}},
		"an autoscaler scaled one":           {m1: settled(7), m2: settled(2), want: []int32{9}},
		"and nothing is available yet":       {m1: with(with(settled(7), "availableReplicas", 0), "unavailableReplicas", 7), m2: settled(2), want: []int32{9}},
		"all as it was":                      {m1: settled(2), m2: settled(2)},
		"not scaled to the end":              {m1: with(settled(7), "unavailableReplicas", 3), m2: settled(2)},
		"rolling out":                        {m1: with(settled(7), "updatedReplicas", 3), m2: settled(2)},
		"no copy has any yet":                {m1: with(settled(0), "observedGeneration", 4), m2: settled(2)},
		"not observed by its controller":     {m1: with(settled(7), "observedGeneration", 3), m2: settled(2)},
		"of an older template":               {m1: with(settled(7), "resourceTemplateGeneration", 1), m2: settled(2)},
		"one has not reported":               {m1: settled(7)},
		"the scheduler has not followed":     {m1: settled(7), m2: settled(2), edit: func(b *workv1alpha2.ResourceBinding, _ *oneTemplate) { b.Generation++ }},
		"the division is not complete":       {m1: settled(7), m2: settled(2), edit: func(b *workv1alpha2.ResourceBinding, _ *oneTemplate) { b.Spec.Replicas++ }},
		"a copy is not applied":              {m1: settled(7), m2: settled(2), edit: func(b *workv1alpha2.ResourceBinding, _ *oneTemplate) { b.Status.AggregatedStatus[0].Applied = false }},
		"it moves": {m1: settled(7), m2: settled(2), edit: func(b *workv1alpha2.ResourceBinding, _ *oneTemplate) {
			b.Spec.GracefulEvictionTasks = make([]workv1alpha2.GracefulEvictionTask, 1)
		}},
		"it is not marked":              {m1: settled(7), m2: settled(2), edit: func(_ *workv1alpha2.ResourceBinding, o *oneTemplate) { o.meta.Labels = nil }},
		"it is another one of the name": {m1: settled(7), m2: settled(2), edit: func(_ *workv1alpha2.ResourceBinding, o *oneTemplate) { o.meta.UID = "v" }},
		"it is not divided":             {m1: settled(7), m2: settled(2), edit: func(b *workv1alpha2.ResourceBinding, _ *oneTemplate) { b.Spec.Placement.ReplicaScheduling = nil }},
		"what is left of others is there": {m1: settled(7), m2: settled(2), want: []int32{9}, edit: func(b *workv1alpha2.ResourceBinding, _ *oneTemplate) {
			b.Status.AggregatedStatus = append(b.Status.AggregatedStatus, workv1alpha2.AggregatedStatusItem{ClusterName: "m3"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			templates := &oneTemplate{meta: metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				UID: "u", Generation: 2, Labels: map[string]string{policyv1alpha1.RetainReplicasLabel: "true"},
			}}}
			b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment", Generation: 5}}
			b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u"}
			b.Spec.Replicas = 4
			b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 2}, {Name: "m2", Replicas: 2}}
			b.Spec.Placement = &policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided}}
			b.Status.SchedulerObservedGeneration = 5
			for name, s := range map[string]status{"m1": tc.m1, "m2": tc.m2} {
				raw, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				item := workv1alpha2.AggregatedStatusItem{ClusterName: name, Applied: true}
				if s != nil {
					item.Status = &runtime.RawExtension{Raw: raw}
				}
				b.Status.AggregatedStatus = append(b.Status.AggregatedStatus, item)
			}
			if tc.edit != nil {
				tc.edit(b, templates)
			}
			hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "hpa", Labels: map[string]string{policyv1alpha1.PropagationPolicyPermanentIDLabel: "p"},
			}}
			if tc.bound > 0 {
				hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
				hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = new(int32(2)), tc.bound
			}
			var published []events.Event
			reader := clientWith(t, b, hpa)
			s := &syncer{client: reader, templates: templates, hpas: indexedHPAs(reader), events: events.RecorderFunc(func(e events.Event) { published = append(published, e) })}
			if _, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web-deployment"}}); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(templates.scaled) != fmt.Sprint(tc.want) {
				t.Errorf("scaled to %v, want %v", templates.scaled, tc.want)
			}
			if (len(published) > 0) != tc.refused {
				t.Errorf("events are %v, refused should be %t", published, tc.refused)
			}
		})
	}
}
