package resourceclaims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// requestName is the name of the one request of a translated claim.
const requestName = "claim"

// lastApplied holds a whole object of the other version; "kubectl apply" writes it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// To implements conversion.Adviser: an object becomes another one if it is of v1alpha2 and the cluster serves only a later model, or if it
// has pods that claim something and the cluster serves only v1alpha2. The error names what has no counterpart there.
func (Adviser) To(_ context.Context, obj *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster) (*unstructured.Unstructured, error) {
	kind := obj.GroupVersionKind()
	if kind.GroupVersion() != resourcev1alpha2.GroupVersion {
		return withSource(obj, cluster), nil
	}
	target, sure := targetKind(kind, cluster)
	switch {
	case target == kind:
		return obj, nil
	case !target.Empty():
		return translated(obj, target)
	case !sure:
		return nil, fmt.Errorf("it has not said yet which versions of %s it serves", resourcev1alpha2.GroupName)
	case counterparts()[kind.Kind] == "":
		return nil, fmt.Errorf("it does not serve %s, and a %s has no counterpart in later versions", kind.GroupVersion(), kind.Kind)
	}
	return nil, fmt.Errorf("it serves no version of %s that a %s can be carried to (v1alpha2, v1, v1beta2 or v1beta1)",
		resourcev1alpha2.GroupName, kind.Kind)
}

func translated(obj *unstructured.Unstructured, target schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	var spec, notes map[string]any
	var err error
	switch obj.GetKind() {
	case resourcev1alpha2.KindResourceClass:
		spec, notes, err = translateClass(obj)
	case resourcev1alpha2.KindResourceClaim:
		spec, notes, err = translateClaim(obj, target.Version)
	default:
		spec, notes, err = translateTemplate(obj, target.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s cannot become a %s of %s: %w", obj.GetKind(), obj.GetName(), target.Kind, target.Version, err)
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	if metadata, ok := obj.Object["metadata"].(map[string]any); ok {
		out.Object["metadata"] = runtime.DeepCopyJSON(metadata)
	}
	unstructured.RemoveNestedField(out.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", lastApplied)
	out.SetGroupVersionKind(target)
	annotate(out.Object, notes)
	return out, nil
}

// annotate adds annotations to an object or to the metadata of what a template makes.
func annotate(object map[string]any, notes map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	maps.Copy(annotations, notes)
	annotations[resourcev1alpha2.TranslatedFromAnnotation] = resourcev1alpha2.GroupVersion.String()
	metadata["annotations"] = annotations
	object["metadata"] = metadata
}

// translateClass: the driver becomes a selector of its devices. Where suitable nodes are would be lost, and pods would
// be placed where the class forbids it.
func translateClass(obj *unstructured.Unstructured) (spec, notes map[string]any, err error) {
	var class resourcev1alpha2.ResourceClass
	if err := decode(obj, &class); err != nil {
		return nil, nil, err
	}
	if class.SuitableNodes != nil {
		return nil, nil, errors.New("suitableNodes has no counterpart: remove it, and have the driver publish its devices on those nodes only")
	}
	notes = map[string]any{}
	if class.ParametersRef != nil {
		if err := note(notes, resourcev1alpha2.ParametersRefAnnotation, class.ParametersRef); err != nil {
			return nil, nil, err
		}
	}
	if class.StructuredParameters != nil && *class.StructuredParameters {
		notes[resourcev1alpha2.StructuredParametersAnnotation] = "true"
	}
	return map[string]any{"selectors": []any{map[string]any{
		"cel": map[string]any{"expression": "device.driver == " + strconv.Quote(class.DriverName)},
	}}}, notes, nil
}

func translateClaim(obj *unstructured.Unstructured, version string) (spec, notes map[string]any, err error) {
	var claim resourcev1alpha2.ResourceClaim
	if err := decode(obj, &claim); err != nil {
		return nil, nil, err
	}
	notes, err = claimNotes(&claim.Spec)
	return claimSpec(&claim.Spec, version), notes, err
}

func translateTemplate(obj *unstructured.Unstructured, version string) (spec, notes map[string]any, err error) {
	var template resourcev1alpha2.ResourceClaimTemplate
	if err := decode(obj, &template); err != nil {
		return nil, nil, err
	}
	if notes, err = claimNotes(&template.Spec.Spec); err != nil {
		return nil, nil, err
	}
	made, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&metav1.ObjectMeta{
		Labels: template.Spec.Labels, Annotations: template.Spec.Annotations,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the metadata of its claims: %w", err)
	}
	delete(made, "creationTimestamp")
	spec = map[string]any{"spec": claimSpec(&template.Spec.Spec, version), "metadata": made}
	annotate(spec, notes)
	return spec, notes, nil
}

// claimSpec requests one device of the class, which is all that v1alpha2 can express.
func claimSpec(spec *resourcev1alpha2.ResourceClaimSpec, version string) map[string]any {
	exactly := map[string]any{"deviceClassName": spec.ResourceClassName, "allocationMode": "ExactCount", "count": int64(1)}
	request := map[string]any{"name": requestName}
	if version == "v1beta1" { // a request there has no alternatives, and so no level for them
		maps.Copy(request, exactly)
	} else {
		request["exactly"] = exactly
	}
	return map[string]any{"devices": map[string]any{"requests": []any{request}}}
}

// claimNotes are the annotations for what a claim has beyond its class.
func claimNotes(spec *resourcev1alpha2.ResourceClaimSpec) (map[string]any, error) {
	notes := map[string]any{}
	if spec.AllocationMode == resourcev1alpha2.AllocationModeImmediate {
		notes[resourcev1alpha2.AllocationModeAnnotation] = string(spec.AllocationMode)
	}
	if spec.ParametersRef == nil {
		return notes, nil
	}
	return notes, note(notes, resourcev1alpha2.ParametersRefAnnotation, spec.ParametersRef)
}

func note(notes map[string]any, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding the annotation %s: %w", key, err)
	}
	notes[key] = string(text)
	return nil
}

func decode(obj *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	return nil
}
