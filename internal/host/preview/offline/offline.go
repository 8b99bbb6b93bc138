package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/api/crds"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	flagshipadmission "github.com/flagship-k8s/flagship/internal/host/admission"
	"github.com/flagship-k8s/flagship/internal/host/interpreter"
	"github.com/flagship-k8s/flagship/internal/host/preview"
	"github.com/flagship-k8s/flagship/internal/host/preview/fields"
	"github.com/flagship-k8s/flagship/internal/host/preview/unfollowed"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
)

var clusterKind = schema.GroupKind{Group: clusterv1alpha1.GroupName, Kind: clusterv1alpha1.KindCluster}

var definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// clusterScoped are the kinds of Kubernetes without a namespace that are propagated.
var clusterScoped = []string{
	"Namespace", "Node", "PersistentVolume", "ClusterRole", "ClusterRoleBinding", "StorageClass", "PriorityClass", "IngressClass", "RuntimeClass",
	"CSIDriver", "CSINode", "VolumeAttachment", "VolumeAttributesClass", "CustomResourceDefinition", "MutatingWebhookConfiguration",
	"ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "FlowSchema", "PriorityLevelConfiguration",
	"DeviceClass", "ResourceSlice", "ClusterTrustBundle",
}

// Control is a control plane that exists only as a list of objects. It is the Admission of a preview without a control plane: it
// completes and checks objects of our kinds as the control plane does, and takes all others as they are.
type Control struct {
	*preview.Run
	*Kinds
	plugin *flagshipadmission.Plugin
}

// Kinds is what is known about kinds without a control plane. It takes a while to read, and is for many previews.
type Kinds struct {
	interpreter *interpret.Chained
	// scripts has no customizations: each control plane has its own.
	scripts *declarative.Store
	schemas map[schema.GroupKind]*ourSchema
}

// ReadKinds reads the definitions and the rules that are built in.
func ReadKinds(clk clock.PassiveClock) (*Kinds, error) {
	scripts := declarative.New()
	interpreting, err := interpreter.New(clk, scripts)
	if err != nil {
		return nil, err
	}
	k := &Kinds{interpreter: interpreting, scripts: scripts, schemas: map[schema.GroupKind]*ourSchema{}}
	return k, k.readSchemas()
}

// ourSchema is what a definition of ours has of a kind.
type ourSchema struct {
	namespaced bool
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
}

// New returns a control plane with objects, on which the loops have done what there was to do.
// Of the config only Clock, NewID and Salt are read.
func New(ctx context.Context, kinds *Kinds, objects []*unstructured.Unstructured, config preview.Config) (*Control, error) {
	run, err := preview.New(ctx, preview.Config{
		Interpreter: kinds.interpreter, Customized: interpret.Chain(kinds.scripts), Scripts: kinds.scripts, Versions: OneVersion{},
		Clock: config.Clock, NewID: config.NewID, Salt: config.Salt,
	})
	if err != nil {
		return nil, err
	}
	o := &Control{Run: run, Kinds: kinds, plugin: flagshipadmission.New(flagshipadmission.Config{
		// Whether the control plane runs with that flag is not in an export.
		AllowNoExecuteTaintPolicy: true,
		NewID:                     run.NewID, Never: func(kind schema.GroupVersionKind, namespace, name string) bool {
			return hubstore.Excluded(hubstore.Ref{GroupVersionKind: kind, Namespace: namespace, Name: name})
		},
	})}
	for _, obj := range objects {
		if err := o.load(ctx, obj); err != nil {
			return nil, fmt.Errorf("%s: %w", preview.Named(preview.Identity(obj)), err)
		}
	}
	if err := o.Settle(ctx); err != nil {
		return nil, err
	}
	o.Mark()
	return o, nil
}

func (k *Kinds) readSchemas() error {
	definitions, err := crds.All()
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			if !version.Storage || version.Schema == nil {
				continue
			}
			internal := &apiextensions.CustomResourceValidation{}
			if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, internal, nil); err != nil {
				return fmt.Errorf("reading the schema of %s: %w", definition.Name, err)
			}
			structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
			if err != nil {
				return fmt.Errorf("reading the schema of %s: %w", definition.Name, err)
			}
			validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
			if err != nil {
				return fmt.Errorf("reading the schema of %s: %w", definition.Name, err)
			}
			k.schemas[schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}] = &ourSchema{
				namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped, structural: structural, validator: validator,
			}
		}
	}
	return nil
}

// load adds an object as it was exported, or as a user wrote it.
func (o *Control) load(ctx context.Context, obj *unstructured.Unstructured) error {
	obj = obj.DeepCopy()
	kind := obj.GroupVersionKind()
	if obj.GetNamespace() == "" && o.Namespaced(kind) {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	var typed client.Object
	switch kind.GroupKind() {
	case schema.GroupKind{Group: workv1alpha1.GroupName, Kind: workv1alpha1.KindWork}:
		return nil // they are made of the others
	case schema.GroupKind{Group: workv1alpha2.GroupName, Kind: workv1alpha2.KindResourceBinding}:
		typed = &workv1alpha2.ResourceBinding{}
	case schema.GroupKind{Group: workv1alpha2.GroupName, Kind: workv1alpha2.KindClusterResourceBinding}:
		typed = &workv1alpha2.ClusterResourceBinding{}
	case schema.GroupKind{Group: fleetv1alpha1.GroupName, Kind: fleetv1alpha1.KindClusterCapacity}:
		typed = &fleetv1alpha1.ClusterCapacity{}
	default:
		complete, err := o.complete(ctx, nil, obj)
		if err != nil {
			return err
		}
		if complete.GroupVersionKind().GroupKind() == definitionKind {
			o.Define(complete)
		}
		if err := o.Set(ctx, complete); err != nil && !errors.Is(err, unfollowed.Err) {
			return err
		}
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, typed); err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	return o.Hub.Set(ctx, typed)
}

// Namespaced implements Admission.
func (o *Control) Namespaced(kind schema.GroupVersionKind) bool {
	if s := o.schemas[kind.GroupKind()]; s != nil {
		return s.namespaced
	}
	if _, namespaced, ok := o.Templates.Mapping(kind); ok {
		return namespaced
	}
	return kind.GroupKind() != clusterKind && !slices.Contains(clusterScoped, kind.Kind)
}

// complete makes of an object what the control plane would store: with identity, defaults and ids.
func (o *Control) complete(ctx context.Context, before, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	obj = obj.DeepCopy()
	kind := obj.GroupVersionKind()
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(o.NewID()))
	}
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		obj.SetCreationTimestamp(metav1.NewTime(o.Now()).Rfc3339Copy())
	}
	obj.SetGeneration(max(obj.GetGeneration(), 1))
	if err := o.checkSchema(obj); err != nil {
		return nil, err
	}
	if preview.Ours(kind.GroupKind()) != nil {
		var old client.Object
		if before != nil {
			old = before
		}
		if err := stamp(before, obj, o.Now()); err != nil {
			return nil, err
		}
		// What was exported has an id; only the control plane brings one along.
		name := ""
		if before == nil {
			name = "system:apiserver"
		}
		return obj, preview.Admitted(ctx, o.plugin, kind, obj, old, name)
	}
	if _, ok := o.Templates.Canonical(kind); !ok && !hubstore.Excluded(hubstore.Ref{GroupVersionKind: kind}) {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		o.Templates.AddKind(hubstore.Kind{GroupVersionKind: kind, Resource: resource, Namespaced: o.Namespaced(kind)})
	}
	return obj, nil
}

// stamp sets the times from which tolerations of the taints of a Cluster count.
func stamp(before, obj *unstructured.Unstructured, now time.Time) error {
	if obj.GroupVersionKind().GroupKind() != clusterKind {
		return nil
	}
	var old, cluster clusterv1alpha1.Cluster
	if before != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(before.Object, &old); err != nil {
			return fmt.Errorf("reading Cluster %s: %w", before.GetName(), err)
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &cluster); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("Cluster %s cannot be read: %v", obj.GetName(), err))
	}
	if len(cluster.Spec.Taints) == 0 {
		return nil
	}
	clusterv1alpha1.StampTaints(cluster.Spec.Taints, old.Spec.Taints, metav1.NewTime(now).Rfc3339Copy())
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&cluster)
	if err != nil {
		return fmt.Errorf("writing Cluster %s: %w", obj.GetName(), err)
	}
	spec, _, err := unstructured.NestedMap(content, "spec")
	if err == nil {
		err = unstructured.SetNestedField(obj.Object, spec["taints"], "spec", "taints")
	}
	if err != nil {
		return fmt.Errorf("writing the taints of Cluster %s: %w", obj.GetName(), err)
	}
	return nil
}

// checkSchema completes an object of ours with the defaults of its definition, and checks it against that.
func (o *Control) checkSchema(obj *unstructured.Unstructured) error {
	s := o.schemas[obj.GroupVersionKind().GroupKind()]
	if s == nil {
		return nil
	}
	defaulting.Default(obj.Object, s.structural)
	if errs := validation.ValidateCustomResource(field.NewPath(""), obj.Object, s.validator); len(errs) > 0 {
		return apierrors.NewInvalid(obj.GroupVersionKind().GroupKind(), obj.GetName(), errs)
	}
	return nil
}

// present returns an object as it is; nil if there is none.
func (o *Control) present(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if typed := preview.Ours(kind.GroupKind()); typed != nil {
		if err := o.Hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, typed); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
		}
		obj := &unstructured.Unstructured{Object: content}
		obj.SetGroupVersionKind(kind)
		return obj, nil
	}
	obj, err := o.Templates.Get(ctx, hubstore.Ref{GroupVersionKind: kind, Namespace: namespace, Name: name})
	return obj, client.IgnoreNotFound(err)
}

// Apply implements Admission.
func (o *Control) Apply(ctx context.Context, manifest *unstructured.Unstructured) (before, after *unstructured.Unstructured, err error) {
	before, err = o.present(ctx, manifest.GroupVersionKind(), manifest.GetNamespace(), manifest.GetName())
	if err != nil {
		return nil, nil, err
	}
	if before == nil {
		after, err = o.complete(ctx, nil, manifest)
		return nil, after, err
	}
	patch, kind, err := fields.ThreeWay(before, manifest)
	if err != nil {
		return nil, nil, err
	}
	document, err := json.Marshal(before.Object)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the object: %w", err)
	}
	if kind == types.StrategicMergePatchType {
		typed, unknown := scheme.Scheme.New(manifest.GroupVersionKind())
		if unknown != nil {
			return nil, nil, fmt.Errorf("patching %s: %w", manifest.GetName(), unknown)
		}
		document, err = strategicpatch.StrategicMergePatch(document, patch, typed)
	} else {
		document, err = jsonpatch.MergePatch(document, patch)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("patching %s: %w", manifest.GetName(), err)
	}
	after = &unstructured.Unstructured{}
	if err := after.UnmarshalJSON(document); err != nil {
		return nil, nil, fmt.Errorf("decoding %s: %w", manifest.GetName(), err)
	}
	after, err = o.complete(ctx, before, after)
	return before, after, err
}

// Delete implements Admission.
func (o *Control) Delete(ctx context.Context, id fleetv1alpha1.ObjectIdentity) (*unstructured.Unstructured, error) {
	kind := schema.FromAPIVersionAndKind(id.APIVersion, id.Kind)
	before, err := o.present(ctx, kind, id.Namespace, id.Name)
	if err == nil && before == nil {
		err = apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, id.Name)
	}
	return before, err
}
