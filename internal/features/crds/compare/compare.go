package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Class is what a change of a definition may do to objects and clients that exist.
type Class int

const (
	// Safe changes harm no object and no client.
	Safe Class = iota
	// Risky changes tighten validation: objects that are valid today may not be tomorrow.
	Risky
	// Breaking changes lose data or fail clients: a field or version is gone, a type is another one.
	Breaking
	// Impossible changes are always refused by the member.
	Impossible
)

// String returns the class for messages.
func (c Class) String() string {
	return [...]string{"safe", "risky", "breaking", "impossible"}[c]
}

// Change is one difference between two definitions that matters.
type Change struct {
	Class Class
	// Version is the version it is about; empty for the definition as a whole.
	Version string
	// Field is the path of a field of instances, as ".spec.size", or of the definition, as "spec.scope".
	Field string
	// What happened to it.
	What string
}

// String returns the change for conditions.
func (c Change) String() string {
	where := strings.TrimSpace(c.Version + " " + c.Field)
	return strings.TrimSpace(where + " " + c.What)
}

// Worst returns the highest class among changes; Safe if there are none.
func Worst(changes []Change) Class {
	worst := Safe
	for _, c := range changes {
		worst = max(worst, c.Class)
	}
	return worst
}

// Compare lists the changes from one definition to another that are not safe, the worst first. Stored are the versions in
// which the cluster that has the first may keep objects. Both have to have defaults filled in.
func Compare(from, to *apiextensionsv1.CustomResourceDefinitionSpec, stored []string) []Change {
	c := &comparison{}
	c.names(from, to)
	c.versions(from, to, stored)
	slices.SortStableFunc(c.changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Class, a.Class), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Field, b.Field))
	})
	return c.changes
}

// comparison collects changes; version is the one that is compared.
type comparison struct {
	version string
	changes []Change
}

func (c *comparison) add(class Class, field, format string, args ...any) {
	c.changes = append(c.changes, Change{class, c.version, field, fmt.Sprintf(format, args...)})
}

// moved notes that one of the definition's own fields has another value.
func (c *comparison) moved(field, from, to string) {
	if from != to {
		c.add(Impossible, field, "changes from %q to %q, which takes another definition", from, to)
	}
}

func (c *comparison) names(from, to *apiextensionsv1.CustomResourceDefinitionSpec) {
	c.moved("spec.group", from.Group, to.Group)
	c.moved("spec.scope", string(from.Scope), string(to.Scope))
	c.moved("spec.names.kind", from.Names.Kind, to.Names.Kind)
	c.moved("spec.names.plural", from.Names.Plural, to.Names.Plural)
	for _, short := range from.Names.ShortNames {
		if !slices.Contains(to.Names.ShortNames, short) {
			c.add(Risky, "spec.names.shortNames", "loses %q", short)
		}
	}
	if a, b := conversionOf(from), conversionOf(to); a != b && len(to.Versions) > 1 {
		c.add(Risky, "spec.conversion.strategy", "changes from %s to %s", a, b)
	}
}

func conversionOf(spec *apiextensionsv1.CustomResourceDefinitionSpec) apiextensionsv1.ConversionStrategyType {
	if spec.Conversion == nil || spec.Conversion.Strategy == "" {
		return apiextensionsv1.NoneConverter
	}
	return spec.Conversion.Strategy
}

func (c *comparison) versions(from, to *apiextensionsv1.CustomResourceDefinitionSpec, stored []string) {
	next := map[string]*apiextensionsv1.CustomResourceDefinitionVersion{}
	for i := range to.Versions {
		next[to.Versions[i].Name] = &to.Versions[i]
	}
	for _, version := range stored {
		if next[version] == nil {
			c.version = version
			c.add(Impossible, "", "is dropped, but objects may be stored in it (status.storedVersions)")
		}
	}
	for i := range from.Versions {
		before := &from.Versions[i]
		after := next[before.Name]
		c.version = before.Name
		switch {
		case after == nil && before.Served && !slices.Contains(stored, before.Name):
			c.add(Breaking, "", "is dropped while it is served")
		case after == nil:
		case before.Served && !after.Served:
			c.add(Breaking, "", "is not served any more")
		default:
			c.oneVersion(before, after)
		}
	}
	c.version = ""
}

func (c *comparison) oneVersion(before, after *apiextensionsv1.CustomResourceDefinitionVersion) {
	if had, has := subresourcesOf(before), subresourcesOf(after); had != has {
		c.subresources(had, has)
	}
	for _, f := range before.SelectableFields {
		if !slices.Contains(after.SelectableFields, f) {
			c.add(Risky, f.JSONPath, "cannot be selected by any more")
		}
	}
	if before.Schema != nil && after.Schema != nil {
		c.schema("", before.Schema.OpenAPIV3Schema, after.Schema.OpenAPIV3Schema)
	}
}

type subresources struct{ status, scale bool }

func subresourcesOf(v *apiextensionsv1.CustomResourceDefinitionVersion) subresources {
	if v.Subresources == nil {
		return subresources{}
	}
	return subresources{status: v.Subresources.Status != nil, scale: v.Subresources.Scale != nil}
}

func (c *comparison) subresources(had, has subresources) {
	switch {
	case had.status && !has.status:
		c.add(Breaking, "subresources.status", "is removed")
	case !had.status && has.status:
		c.add(Risky, "subresources.status", "is added: writes of whole objects do not reach the status any more")
	}
	if had.scale && !has.scale {
		c.add(Breaking, "subresources.scale", "is removed")
	}
}

// schema compares what a field may be. Path is empty for the object itself.
func (c *comparison) schema(path string, a, b *apiextensionsv1.JSONSchemaProps) {
	if a == nil || b == nil {
		return
	}
	if narrower(a, b) {
		c.add(Breaking, orRoot(path), "changes its type from %s to %s", typeOf(a), typeOf(b))
		return
	}
	c.limits(path, a, b)
	c.rules(path, a, b)
	if isTrue(a.XPreserveUnknownFields) && !isTrue(b.XPreserveUnknownFields) {
		c.add(Breaking, orRoot(path), "does not keep unknown fields any more")
	}
	c.properties(path, a, b)
	c.contents(path, a, b)
}

func orRoot(path string) string { return cmp.Or(path, ".") }

// narrower returns whether values of the old type may not be of the new one.
func narrower(a, b *apiextensionsv1.JSONSchemaProps) bool {
	if b.XIntOrString {
		return !a.XIntOrString && a.Type != "integer" && a.Type != "string"
	}
	return typeOf(a) != typeOf(b) && b.Type != "" && (a.Type != "integer" || b.Type != "number")
}

func typeOf(s *apiextensionsv1.JSONSchemaProps) string {
	if s.XIntOrString {
		return "integer or string"
	}
	return cmp.Or(s.Type, "anything")
}

func (c *comparison) properties(path string, a, b *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(a.Properties)) {
		before := a.Properties[name]
		after, kept := b.Properties[name]
		switch {
		case kept:
			c.schema(path+"."+name, &before, &after)
		case isTrue(b.XPreserveUnknownFields) || b.AdditionalProperties != nil:
			// It is kept, as one of the fields without a schema.
		default:
			c.add(Breaking, path+"."+name, "is removed")
		}
	}
	if a.AdditionalProperties == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(b.Properties)) {
		if after := b.Properties[name]; a.AdditionalProperties.Schema != nil {
			c.schema(path+"."+name, a.AdditionalProperties.Schema, &after)
		}
	}
}

// contents compares what is in a list or a map.
func (c *comparison) contents(path string, a, b *apiextensionsv1.JSONSchemaProps) {
	switch {
	case a.Items != nil && b.Items != nil:
		c.schema(path+"[]", a.Items.Schema, b.Items.Schema)
	case a.Items == nil && b.Items != nil:
		c.add(Risky, orRoot(path), "has to have items of one kind")
	}
	before, after := a.AdditionalProperties, b.AdditionalProperties
	switch {
	case before != nil && after == nil && !isTrue(b.XPreserveUnknownFields):
		c.add(Breaking, orRoot(path), "is no map of any keys any more")
	case before != nil && after != nil && after.Schema != nil && before.Schema == nil:
		c.add(Risky, orRoot(path), "has to have values of one kind")
	case before != nil && after != nil:
		c.schema(path+"{}", before.Schema, after.Schema)
	}
}

func isTrue(b *bool) bool { return b != nil && *b }
