package autoscaling

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/autoscaled"
	"github.com/flagship-k8s/flagship/internal/host/preview/loops"
	"github.com/flagship-k8s/flagship/internal/host/preview/overlay"
)

var autoscalerKind = schema.GroupVersionKind{Group: autoscalingv2.GroupName, Version: "v2", Kind: "HorizontalPodAutoscaler"}

// View is the HorizontalPodAutoscalers of a view.
type View struct {
	templates *overlay.Templates
	targets   *loops.Queue[hubstore.Ref]
	// known are those of a namespace, until one of them changes: each target would read all of them again.
	known map[string][]autoscalingv2.HorizontalPodAutoscaler
}

// New returns those among templates. What they scale is added to targets.
func New(templates *overlay.Templates, targets *loops.Queue[hubstore.Ref]) *View {
	return &View{templates, targets, map[string][]autoscalingv2.HorizontalPodAutoscaler{}}
}

// Changed adds what a template scales or scaled, or the template.
func (a *View) Changed(ref hubstore.Ref) {
	if ref.GroupVersionKind.GroupKind() != autoscalerKind.GroupKind() {
		if len(a.templates.List(autoscalerKind, ref.Namespace, labels.Everything())) > 0 || a.known[ref.Namespace] != nil {
			a.targets.Add(ref)
		}
		return
	}
	delete(a.known, ref.Namespace)
	before, now := a.templates.Written(ref)
	for _, obj := range []*unstructured.Unstructured{before, now} {
		if obj == nil {
			continue
		}
		if hpa, err := autoscalerOf(obj); err == nil {
			if target, ok := autoscaled.Target(hpa); ok {
				a.targets.Add(target.Canonical(a.templates))
			}
		}
	}
}

// In lists those of a namespace.
func (a *View) In(ctx context.Context, namespace string) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	if found, ok := a.known[namespace]; ok {
		return found, nil
	}
	found := []autoscalingv2.HorizontalPodAutoscaler{}
	for _, m := range a.templates.List(autoscalerKind, namespace, labels.Everything()) {
		obj, err := a.templates.Get(ctx, hubstore.Ref{GroupVersionKind: autoscalerKind, Namespace: namespace, Name: m.Name})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		hpa, err := autoscalerOf(obj)
		if err != nil {
			return nil, err
		}
		found = append(found, *hpa)
	}
	a.known[namespace] = found
	return found, nil
}

// autoscalerOf reads an autoscaler of any version: what is read of it is the same in all.
func autoscalerOf(obj *unstructured.Unstructured) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	part := map[string]any{"metadata": obj.Object["metadata"]}
	if target, found, err := unstructured.NestedFieldNoCopy(obj.Object, "spec", "scaleTargetRef"); found && err == nil {
		part["spec"] = map[string]any{"scaleTargetRef": target}
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, hpa); err != nil {
		return nil, fmt.Errorf("reading HorizontalPodAutoscaler %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	return hpa, nil
}
