package works

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/api/crds"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// kind is one kind of the group: its Go type, and its definition.
type kind struct {
	goType

	gv         schema.GroupVersion
	names      apiextensionsv1.CustomResourceDefinitionNames
	namespaced bool
	columns    []apiextensionsv1.CustomResourceColumnDefinition
	schema     *apiextensions.JSONSchemaProps
	structural *structuralschema.Structural
	// former is the same kind in an earlier version, which is not stored; nil for none. Of it only the types and the schema are used.
	former *kind
}

// goType is how a Go type is taken apart. spec and status return pointers into the object.
type goType struct {
	object, list func() runtime.Object
	spec, status func(runtime.Object) any
	conditions   func(runtime.Object) []metav1.Condition
}

// goTypes are the types by the names of their kinds.
func goTypes() map[string]goType {
	return map[string]goType{
		workv1alpha1.KindWork: {
			object:     func() runtime.Object { return &workv1alpha1.Work{} },
			list:       func() runtime.Object { return &workv1alpha1.WorkList{} },
			spec:       func(o runtime.Object) any { return &o.(*workv1alpha1.Work).Spec },
			status:     func(o runtime.Object) any { return &o.(*workv1alpha1.Work).Status },
			conditions: func(o runtime.Object) []metav1.Condition { return o.(*workv1alpha1.Work).Status.Conditions },
		},
		workv1alpha2.KindResourceBinding: binding(
			func() runtime.Object { return &workv1alpha2.ResourceBinding{} },
			func() runtime.Object { return &workv1alpha2.ResourceBindingList{} }),
		workv1alpha2.KindClusterResourceBinding: binding(
			func() runtime.Object { return &workv1alpha2.ClusterResourceBinding{} },
			func() runtime.Object { return &workv1alpha2.ClusterResourceBindingList{} }),
	}
}

func binding(object, list func() runtime.Object) goType {
	return goType{
		object: object, list: list,
		spec:       func(o runtime.Object) any { return o.(workv1alpha2.Binding).BindingSpec() },
		status:     func(o runtime.Object) any { return o.(workv1alpha2.Binding).BindingStatus() },
		conditions: func(o runtime.Object) []metav1.Condition { return o.(workv1alpha2.Binding).BindingStatus().Conditions },
	}
}

// loadKinds joins the types of the group and their definitions.
func loadKinds() ([]kind, error) {
	definitions, err := crds.All()
	if err != nil {
		return nil, err
	}
	types, former := goTypes(), formerTypes()
	var kinds []kind
	for _, definition := range definitions {
		if definition.Spec.Group != Group {
			continue
		}
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
		var stored, earlier *kind
		for _, version := range definition.Spec.Versions {
			of := former
			if version.Storage {
				of = types
			}
			known, ok := of[definition.Spec.Names.Kind]
			if !ok {
				return nil, fmt.Errorf("%s has no Go type for %s", definition.Name, version.Name)
			}
			loaded, err := loadKind(definition, version, known)
			if err != nil {
				return nil, fmt.Errorf("reading the schema of %s: %w", definition.Name, err)
			}
			if version.Storage {
				stored = loaded
			} else {
				earlier = loaded
			}
		}
		if stored == nil {
			return nil, fmt.Errorf("%s has no version that is stored", definition.Name)
		}
		stored.former = earlier
		kinds = append(kinds, *stored)
	}
	if len(kinds) != len(types) {
		return nil, fmt.Errorf("%d of %d kinds of %s have a definition", len(kinds), len(types), Group)
	}
	return kinds, nil
}

// loadKind joins the type of one version and its definition.
func loadKind(definition *apiextensionsv1.CustomResourceDefinition, version apiextensionsv1.CustomResourceDefinitionVersion, known goType) (*kind, error) {
	loaded := &kind{
		goType: known, gv: schema.GroupVersion{Group: Group, Version: version.Name}, names: definition.Spec.Names,
		namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped, columns: version.AdditionalPrinterColumns,
		schema: &apiextensions.JSONSchemaProps{},
	}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, loaded.schema, nil)
	if err != nil {
		return nil, err
	}
	loaded.structural, err = structuralschema.NewStructural(loaded.schema)
	return loaded, err
}

func (k kind) kind() schema.GroupVersionKind { return k.gv.WithKind(k.names.Kind) }

func (k kind) resource() schema.GroupResource {
	return k.gv.WithResource(k.names.Plural).GroupResource()
}
