package crds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
)

// expressions are the ways in which objects of a kind can be written.
type expressions struct {
	converter Converter
	// definition is that of the kind, without schemas; nil for a built-in kind.
	definition *apiextensionsv1.CustomResourceDefinition
	// versions are sorted, the best first.
	versions []string
}

// knownDefinition is a definition of the hub as it was at a generation.
type knownDefinition struct {
	uid        types.UID
	generation int64
	expressions
}

// expressions finds the ways to write objects of a kind of the hub.
func (c *Carrier) expressions(ctx context.Context, kind runtimeschema.GroupVersionKind) (expressions, error) {
	name := c.Definition(kind)
	if name == "" {
		return expressions{converter: c.deps.Versions, versions: c.deps.Versions.BuiltInVersions(kind.GroupKind())}, nil
	}
	ref := hubstore.Ref{GroupVersionKind: definitionKind, Name: name}
	latest, ok := c.deps.Templates.Meta(ref)
	c.mu.Lock()
	known := c.known[name]
	c.mu.Unlock()
	if ok && known.uid == latest.UID && known.generation == latest.Generation {
		return known.expressions, nil
	}
	obj, err := c.deps.Templates.Get(ctx, ref)
	if err != nil {
		return expressions{}, fmt.Errorf("reading definition %s: %w", name, err)
	}
	definition, err := read(obj)
	if err != nil {
		return expressions{}, err
	}
	known = knownDefinition{definition.UID, definition.Generation, expressions{c.deps.Versions, lean(definition), versionsOf(definition)}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[name] = known
	return known.expressions, nil
}

// lean leaves of a definition what converting its objects needs.
func lean(definition *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	kept := &apiextensionsv1.CustomResourceDefinition{Spec: definition.Spec}
	kept.Name = definition.Name
	kept.Spec.Versions = slices.Clone(definition.Spec.Versions)
	for i := range kept.Spec.Versions {
		kept.Spec.Versions[i].Schema, kept.Spec.Versions[i].AdditionalPrinterColumns = nil, nil
	}
	return kept
}

// versionsOf lists the versions of a definition as discovery orders them.
func versionsOf(definition *apiextensionsv1.CustomResourceDefinition) []string {
	versions := make([]string, 0, len(definition.Spec.Versions))
	for i := range definition.Spec.Versions {
		versions = append(versions, definition.Spec.Versions[i].Name)
	}
	slices.SortFunc(versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return versions
}

// bestOf is the best version that is served, too; empty if there is none.
func (e expressions) bestOf(served []string) string {
	i := slices.IndexFunc(e.versions, func(name string) bool { return slices.Contains(served, name) })
	if i < 0 {
		return ""
	}
	return e.versions[i]
}

// convert writes an object in a version.
func (e expressions) convert(obj *unstructured.Unstructured, to string) (*unstructured.Unstructured, error) {
	if e.definition == nil {
		return e.converter.ConvertBuiltIn(obj, to)
	}
	converted, err := e.converter.ConvertCustom(e.definition, obj, to)
	if err != nil {
		return nil, conversion.Transient(fmt.Errorf("definition %s: %w", e.definition.Name, err))
	}
	return converted, nil
}

// inexpressible returns why objects of a kind cannot be had where only some versions are served.
func (e expressions) inexpressible(kind runtimeschema.GroupVersionKind, served []string) error {
	where := "this control plane cannot write it as that"
	if e.definition != nil {
		where = fmt.Sprintf("definition %s here has only %s", e.definition.Name, strings.Join(e.versions, ", "))
	}
	return fmt.Errorf("it serves %s of group %q as %s only, and %s", kind.Kind, kind.Group, strings.Join(served, ", "), where)
}

// addTranslated records that objects of a kind do not go everywhere as they are. A built-in kind does not change.
func (c *Carrier) addTranslated(kind runtimeschema.GroupVersionKind) {
	name := c.Definition(kind)
	if name == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.translated[name] = kind.GroupKind()
}
