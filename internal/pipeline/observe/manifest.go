package observe

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// observed is one object of a Work as it is seen in the member.
type observed struct {
	id       workv1alpha1.ResourceIdentifier
	resource schema.GroupVersionResource // empty while the member does not serve the kind
	object   *unstructured.Unstructured  // nil: does not exist
	extra    bool                        // exists, but is no manifest of the Work any more
	manifest []byte                      // nil for an extra one
}

// ofTemplate returns copies of an object with the generation of the template that its manifest was made from, and with none; nil if it has
// its own. Apply leaves the annotations of a Deployment that another control plane made, where they name a template of that one: their
// generation means nothing here. An object with the record of apply has its own.
func (s observed) ofTemplate(obj *unstructured.Unstructured) (current, unknown *unstructured.Unstructured) {
	annotations := obj.GetAnnotations()
	of := annotations[workv1alpha1.TemplateUIDAnnotation]
	if of == "" || annotations[workv1alpha1.LastAppliedAnnotation] != "" || s.manifest == nil {
		return nil, nil
	}
	var wanted metav1.PartialObjectMetadata
	if json.Unmarshal(s.manifest, &wanted) != nil {
		return nil, nil // apply reports it
	}
	uid := wanted.Annotations[workv1alpha1.TemplateUIDAnnotation]
	if uid == "" || uid == of {
		return nil, nil
	}
	current, unknown = obj.DeepCopy(), obj.DeepCopy()
	delete(annotations, workv1alpha1.TemplateGenerationAnnotation)
	unknown.SetAnnotations(annotations)
	annotations[workv1alpha1.TemplateGenerationAnnotation] = wanted.Annotations[workv1alpha1.TemplateGenerationAnnotation]
	current.SetAnnotations(annotations)
	return current, unknown
}

// name is the object as conditions show it.
func (s observed) name() string { return s.id.Object() }

// identify reads the identity of the object of a manifest, without decoding the rest. It fails for what admission refuses.
func identify(ordinal int, raw []byte) (workv1alpha1.ResourceIdentifier, error) {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return workv1alpha1.ResourceIdentifier{Ordinal: ordinal}, fmt.Errorf("reading manifest %d: %w", ordinal, err)
	}
	kind := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	return workv1alpha1.ResourceIdentifier{
		Ordinal: ordinal, Group: kind.Group, Version: kind.Version, Kind: kind.Kind,
		Namespace: head.Metadata.Namespace, Name: head.Metadata.Name,
	}, nil
}

func kindOf(id workv1alpha1.ResourceIdentifier) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind}
}

// place completes an identifier with how the member serves the kind. A kind that is not served stays without a resource;
// an error means that the member gave no answer.
func place(ctx context.Context, conn *member.Conn, id workv1alpha1.ResourceIdentifier) (observed, error) {
	mapping, err := conn.Mapping(ctx, kindOf(id))
	if meta.IsNoMatchError(err) {
		return observed{id: id}, nil // apply reports that
	}
	if err != nil {
		return observed{}, err
	}
	switch {
	case !mapping.Namespaced:
		id.Namespace = ""
	case id.Namespace == "":
		id.Namespace = metav1.NamespaceDefault
	}
	id.Resource = mapping.Resource.Resource
	return observed{id: id, resource: mapping.Resource}, nil
}
