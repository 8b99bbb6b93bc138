package crds

import (
	"context"
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
)

// Scale is the layer of an interpreter for kinds whose definition has the subresource scale: it says where their replicas are.
type Scale struct {
	carrier  *Carrier
	hasScale func(runtimeschema.GroupVersionKind) bool
	ops      *interpret.Operations
}

var _ interpret.Layer = (*Scale)(nil)

// Scale returns the layer. HasScale is that of the store of templates, which has the subresources of kinds without a request.
func (c *Carrier) Scale(hasScale func(runtimeschema.GroupVersionKind) bool) *Scale {
	s := &Scale{carrier: c, hasScale: hasScale}
	s.ops = &interpret.Operations{Replicas: s.replicas, Revise: s.revise}
	return s
}

// Lookup implements [interpret.Layer].
func (s *Scale) Lookup(kind runtimeschema.GroupVersionKind) *interpret.Operations {
	if strings.Contains(kind.Group, ".") && s.hasScale(kind) && s.carrier.Definition(kind) != "" {
		return s.ops
	}
	return nil
}

// path is where the replicas of a kind are; nil if its definition does not say it.
func (s *Scale) path(ctx context.Context, kind runtimeschema.GroupVersionKind) ([]string, error) {
	known, err := s.carrier.expressions(ctx, kind)
	if err != nil || known.definition == nil {
		return nil, err
	}
	for i := range known.definition.Spec.Versions {
		version := &known.definition.Spec.Versions[i]
		if version.Name == kind.Version && version.Subresources != nil && version.Subresources.Scale != nil {
			// The API server takes only dots and names, below .spec.
			return strings.Split(strings.TrimPrefix(version.Subresources.Scale.SpecReplicasPath, "."), "."), nil
		}
	}
	return nil, nil
}

// replicas is one where the field is missing, as for a Deployment: no autoscaler takes it for none. What a replica needs is in
// spec.template, where the kinds that run pods have it; of others nothing is known.
func (s *Scale) replicas(ctx context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	path, err := s.path(ctx, obj.GroupVersionKind())
	if err != nil || path == nil {
		return interpret.ReplicaResult{}, err
	}
	replicas, found, err := unstructured.NestedInt64(obj.Object, path...)
	if err != nil || replicas < 0 || replicas > math.MaxInt32 {
		return interpret.ReplicaResult{}, fmt.Errorf("%s is no number of replicas", strings.Join(path, "."))
	}
	if !found {
		replicas = 1
	}
	result := interpret.ReplicaResult{Known: true, Replicas: int32(replicas)}
	var spec corev1.PodSpec
	if template, has, _ := unstructured.NestedMap(obj.Object, "spec", "template", "spec"); has && runtime.DefaultUnstructuredConverter.FromUnstructured(template, &spec) == nil {
		result.Requirements = builtin.Requirements(&spec)
	}
	return result, nil
}

func (s *Scale) revise(ctx context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	path, err := s.path(ctx, obj.GroupVersionKind())
	if err != nil || path == nil {
		return obj, err
	}
	revised := obj.DeepCopy()
	if err := unstructured.SetNestedField(revised.Object, int64(replicas), path...); err != nil {
		return nil, fmt.Errorf("setting %s: %w", strings.Join(path, "."), err)
	}
	return revised, nil
}
