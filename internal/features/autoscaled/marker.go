package autoscaled

import (
	"context"
	"fmt"
	"sync"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// targetIndex finds HPAs by what they scale.
const targetIndex = "autoscaled.target"

// targetOf returns what an HPA scales; false if its reference cannot be read.
func targetOf(hpa *autoscalingv2.HorizontalPodAutoscaler) (hubstore.Ref, bool) {
	gv, err := schema.ParseGroupVersion(hpa.Spec.ScaleTargetRef.APIVersion)
	return hubstore.Ref{
		GroupVersionKind: gv.WithKind(hpa.Spec.ScaleTargetRef.Kind), Namespace: hpa.Namespace, Name: hpa.Spec.ScaleTargetRef.Name,
	}, err == nil
}

// indexKey is the same for all versions of a kind.
func indexKey(ref hubstore.Ref) string {
	return ref.GroupVersionKind.GroupKind().String() + " " + ref.Name
}

func indexTarget(obj client.Object) []string {
	if hpa, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler); ok {
		if ref, ok := targetOf(hpa); ok {
			return []string{indexKey(ref)}
		}
	}
	return nil
}

// Marked is the templates that a marker labels.
type Marked interface {
	Canonical(schema.GroupVersionKind) (schema.GroupVersionKind, bool)
	Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool)
	PatchMetadata(context.Context, hubstore.Ref, []byte) (*unstructured.Unstructured, error)
}

// marker labels the targets of HPAs. It reconciles one target at a time.
type marker struct {
	templates Marked
	// hpas lists the HPAs that scale a template.
	hpas func(context.Context, hubstore.Ref) ([]autoscalingv2.HorizontalPodAutoscaler, error)
	// kinds are those of targets, so that events of other templates cost nothing.
	kinds sync.Map // schema.GroupKind
}

// onHPA enqueues what an HPA scales, and what it scaled before.
func (m *marker) onHPA() handler.TypedEventHandler[*autoscalingv2.HorizontalPodAutoscaler, hubstore.Ref] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler) []hubstore.Ref {
		ref, ok := targetOf(hpa)
		if !ok {
			return nil
		}
		m.kinds.Store(ref.GroupVersionKind.GroupKind(), true)
		return []hubstore.Ref{ref.Canonical(m.templates)}
	})
}

// concerns returns whether a template may be a target, or was one.
func (m *marker) concerns(ref hubstore.Ref) bool {
	if _, known := m.kinds.Load(ref.GroupVersionKind.GroupKind()); known {
		return true
	}
	meta, ok := m.templates.Meta(ref)
	return ok && meta.Annotations[policyv1alpha1.AutoscaledAnnotation] != ""
}

// Reconcile implements reconcile.TypedReconciler.
func (m *marker) Reconcile(ctx context.Context, ref hubstore.Ref) (reconcile.Result, error) {
	meta, ok := m.templates.Meta(ref)
	if !ok || meta.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	scaled, err := m.scaled(ctx, ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	patch := hubstore.MetadataPatch{UID: meta.UID}
	value, labelled := meta.Labels[policyv1alpha1.RetainReplicasLabel]
	_, ours := meta.Annotations[policyv1alpha1.AutoscaledAnnotation]
	switch {
	case scaled && !labelled:
		patch.Labels = map[string]*string{policyv1alpha1.RetainReplicasLabel: new("true")}
		patch.Annotations = map[string]*string{policyv1alpha1.AutoscaledAnnotation: new("true")}
	case !scaled && ours:
		patch.Annotations = map[string]*string{policyv1alpha1.AutoscaledAnnotation: nil}
		if value == "true" {
			patch.Labels = map[string]*string{policyv1alpha1.RetainReplicasLabel: nil}
		}
	default:
		return reconcile.Result{}, nil
	}
	raw, err := patch.Bytes()
	if err != nil {
		return reconcile.Result{}, err
	}
	_, err = m.templates.PatchMetadata(ctx, ref, raw)
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// scaled returns whether an HPA that is propagated scales a template.
func (m *marker) scaled(ctx context.Context, ref hubstore.Ref) (bool, error) {
	list, err := m.hpas(ctx, ref)
	if err != nil {
		return false, fmt.Errorf("listing the autoscalers of %s: %w", ref, err)
	}
	for i := range list {
		if list[i].DeletionTimestamp == nil && policy.IsClaimed(&list[i]) {
			return true, nil
		}
	}
	return false, nil
}

// indexedHPAs lists the HPAs that scale a template, by the index of a client.
func indexedHPAs(reader client.Reader) func(context.Context, hubstore.Ref) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	return func(ctx context.Context, ref hubstore.Ref) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
		var list autoscalingv2.HorizontalPodAutoscalerList
		err := reader.List(ctx, &list, client.InNamespace(ref.Namespace), client.MatchingFields{targetIndex: indexKey(ref)}, client.UnsafeDisableDeepCopy)
		return list.Items, err
	}
}
