package compare

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// limits notes every keyword that allows less than it did.
func (c *comparison) limits(path string, a, b *apiextensionsv1.JSONSchemaProps) {
	field := orRoot(path)
	lowered(c, field, "maxLength", a.MaxLength, b.MaxLength)
	lowered(c, field, "maxItems", a.MaxItems, b.MaxItems)
	lowered(c, field, "maxProperties", a.MaxProperties, b.MaxProperties)
	lowered(c, field, "maximum", a.Maximum, b.Maximum)
	raised(c, field, "minLength", a.MinLength, b.MinLength)
	raised(c, field, "minItems", a.MinItems, b.MinItems)
	raised(c, field, "minProperties", a.MinProperties, b.MinProperties)
	raised(c, field, "minimum", a.Minimum, b.Minimum)
	replaced(c, field, "pattern", a.Pattern, b.Pattern)
	replaced(c, field, "format", a.Format, b.Format)
	if b.MultipleOf != nil && !reflect.DeepEqual(a.MultipleOf, b.MultipleOf) {
		c.add(Risky, field, "has another multipleOf")
	}
	if b.ExclusiveMaximum && !a.ExclusiveMaximum || b.ExclusiveMinimum && !a.ExclusiveMinimum || b.UniqueItems && !a.UniqueItems {
		c.add(Risky, field, "excludes values it allowed")
	}
	if a.Nullable && !b.Nullable {
		c.add(Risky, field, "may not be null any more")
	}
	if b.XEmbeddedResource && !a.XEmbeddedResource {
		c.add(Risky, field, "has to be a Kubernetes object")
	}
	c.lists(field, a, b)
	c.choices(field, a, b)
	c.required(path, a, b)
}

func lowered[N int64 | float64](c *comparison, field, keyword string, a, b *N) {
	if b != nil && (a == nil || *b < *a) {
		c.add(Risky, field, "has a lower %s: %v", keyword, *b)
	}
}

func raised[N int64 | float64](c *comparison, field, keyword string, a, b *N) {
	if b != nil && (a == nil || *b > *a) {
		c.add(Risky, field, "has a higher %s: %v", keyword, *b)
	}
}

func replaced(c *comparison, field, keyword, a, b string) {
	if b != "" && a != b {
		c.add(Risky, field, "has another %s: %s", keyword, b)
	}
}

// lists compares what makes items of a list distinct.
func (c *comparison) lists(field string, a, b *apiextensionsv1.JSONSchemaProps) {
	was, is := listOf(a), listOf(b)
	if is != "atomic" && (was != is || !slices.Equal(a.XListMapKeys, b.XListMapKeys)) && b.Type == "array" {
		c.add(Risky, field, "is a list of another type: %s", is)
	}
}

func listOf(s *apiextensionsv1.JSONSchemaProps) string {
	if s.XListType == nil {
		return "atomic"
	}
	return *s.XListType
}

// choices notes values of an enumeration that are gone.
func (c *comparison) choices(field string, a, b *apiextensionsv1.JSONSchemaProps) {
	if len(b.Enum) == 0 {
		return
	}
	if len(a.Enum) == 0 {
		c.add(Risky, field, "allows only some values")
		return
	}
	for _, value := range a.Enum {
		same := func(other apiextensionsv1.JSON) bool { return string(other.Raw) == string(value.Raw) }
		if !slices.ContainsFunc(b.Enum, same) {
			c.add(Risky, field, "does not allow %s any more", value.Raw)
		}
	}
}

// required notes fields that have to be there now. One with a default always is.
func (c *comparison) required(path string, a, b *apiextensionsv1.JSONSchemaProps) {
	for _, name := range b.Required {
		before, after := a.Properties[name], b.Properties[name]
		if after.Default == nil && (!slices.Contains(a.Required, name) || before.Default != nil) {
			c.add(Risky, path+"."+name, "is required")
		}
	}
}

// rules compares what expressions and combinations of schemas demand.
func (c *comparison) rules(path string, a, b *apiextensionsv1.JSONSchemaProps) {
	field := orRoot(path)
	for _, rule := range b.XValidations {
		same := func(other apiextensionsv1.ValidationRule) bool { return other.Rule == rule.Rule }
		if !slices.ContainsFunc(a.XValidations, same) {
			c.add(Risky, field, "has a new rule: %s", rule.Rule)
		}
	}
	for _, combination := range []struct {
		keyword string
		a, b    []apiextensionsv1.JSONSchemaProps
	}{{"allOf", a.AllOf, b.AllOf}, {"anyOf", a.AnyOf, b.AnyOf}, {"oneOf", a.OneOf, b.OneOf}} {
		if len(combination.b) > 0 && !reflect.DeepEqual(combination.a, combination.b) {
			c.add(Risky, field, "has another %s", combination.keyword)
		}
	}
	if b.Not != nil && !reflect.DeepEqual(a.Not, b.Not) {
		c.add(Risky, field, "has another not")
	}
}

// Differences lists the paths at which two definitions differ, however little it matters; none if they are the same.
// Both have to have defaults filled in.
func Differences(a, b *apiextensionsv1.CustomResourceDefinitionSpec) []string {
	var found []string
	differ(&found, "spec", tree(a), tree(b))
	return found
}

func tree(spec *apiextensionsv1.CustomResourceDefinitionSpec) any {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil // cannot happen: it was read from JSON
	}
	var parsed any
	if json.Unmarshal(raw, &parsed) != nil {
		return nil
	}
	return parsed
}

// maxDifferences bounds how many paths a message names.
const maxDifferences = 8

func differ(found *[]string, path string, a, b any) {
	if len(*found) >= maxDifferences || reflect.DeepEqual(a, b) {
		return
	}
	left, leftIsMap := a.(map[string]any)
	right, rightIsMap := b.(map[string]any)
	if leftIsMap && rightIsMap {
		for _, key := range keysOf(left, right) {
			differ(found, path+"."+key, left[key], right[key])
		}
		return
	}
	one, oneIsList := named(a)
	other, otherIsList := named(b)
	if oneIsList && otherIsList {
		known := len(*found)
		for _, key := range keysOf(one, other) {
			differ(found, path+"["+key+"]", one[key], other[key])
		}
		if len(*found) == known {
			*found = append(*found, path) // in another order
		}
		return
	}
	*found = append(*found, path)
}

// named is a list of things with a name, by it.
func named(value any) (map[string]any, bool) {
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}
	byName := map[string]any{}
	for _, item := range list {
		fields, _ := item.(map[string]any)
		name, _ := fields["name"].(string)
		if name == "" || byName[name] != nil {
			return nil, false
		}
		byName[name] = item
	}
	return byName, true
}

func keysOf(a, b map[string]any) []string {
	keys := make([]string, 0, len(a)+len(b))
	for key := range a {
		keys = append(keys, key)
	}
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, cmp.Compare)
	return keys
}
