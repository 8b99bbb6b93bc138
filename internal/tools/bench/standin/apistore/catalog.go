package apistore

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtin is what a kube-apiserver of Kubernetes 1.37 answers to aggregated discovery.
//
//go:embed discovery.json
var builtin []byte

// Served is one resource that a stand-in serves.
type Served struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	custom     bool // of a definition, so without a schema
}

func (s Served) gvk() schema.GroupVersionKind { return s.GroupVersion().WithKind(s.Kind) }

// Catalog is what a stand-in serves: its resources, and the documents that describe them. It does not change.
type Catalog struct {
	ETag      string
	Resources map[schema.GroupVersionResource]Served
	// Core is the document of the group without a name, Groups that of all others, Schemas the index of schemas.
	Core, Groups, Schemas []byte
}

// catalogs has one catalog for each set of definitions, which all members with these definitions share.
type catalogs struct {
	base []apidiscoveryv2.APIGroupDiscovery

	mu    sync.Mutex
	known map[string]*Catalog
}

func newCatalogs() (*catalogs, error) {
	var document struct {
		Groups []apidiscoveryv2.APIGroupDiscovery `json:"groups"`
	}
	if err := json.Unmarshal(builtin, &document); err != nil {
		return nil, fmt.Errorf("reading the built-in resources: %w", err)
	}
	return &catalogs{base: document.Groups, known: map[string]*Catalog{}}, nil
}

// of returns the catalog with definitions, which are sorted by name.
func (c *catalogs) of(definitions []*unstructured.Unstructured) (*Catalog, error) {
	var custom []apidiscoveryv2.APIGroupDiscovery
	for _, definition := range definitions {
		custom = addDefinition(custom, definition)
	}
	key, err := json.Marshal(custom)
	if err != nil {
		return nil, fmt.Errorf("encoding definitions: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.known[string(key)]; ok {
		return found, nil
	}
	made, err := newCatalog(slices.Concat(c.base, custom), len(c.base), key)
	if err != nil {
		return nil, err
	}
	c.known[string(key)] = made
	return made, nil
}

func newCatalog(groups []apidiscoveryv2.APIGroupDiscovery, builtins int, key []byte) (*Catalog, error) {
	hash := fnv.New64a()
	hash.Write(key) // never fails, by the contract of hash.Hash
	c := &Catalog{ETag: strconv.Quote(strconv.FormatUint(hash.Sum64(), 16)), Resources: map[schema.GroupVersionResource]Served{}}
	schemas := map[string]map[string]string{}
	for i, group := range groups {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			path := "apis/" + gv.String()
			if gv.Group == "" {
				path = "api/" + gv.Version
			}
			schemas[path] = map[string]string{"serverRelativeURL": "/openapi/v3/" + path + "?hash=" + strings.Trim(c.ETag, `"`)}
			for _, r := range version.Resources {
				gvr := gv.WithResource(r.Resource)
				c.Resources[gvr] = Served{gvr, r.ResponseKind.Kind, r.Scope == apidiscoveryv2.ScopeNamespace, i >= builtins || gv.Group == definitions.Group}
			}
		}
	}
	var err error
	encode := func(v any) []byte {
		raw, failure := json.Marshal(v)
		if err == nil {
			err = failure
		}
		return raw
	}
	list := func(groups []apidiscoveryv2.APIGroupDiscovery) []byte {
		return encode(apidiscoveryv2.APIGroupDiscoveryList{
			TypeMeta: metav1.TypeMeta{APIVersion: apidiscoveryv2.SchemeGroupVersion.String(), Kind: "APIGroupDiscoveryList"}, Items: groups,
		})
	}
	c.Core, c.Groups, c.Schemas = list(groups[:1]), list(groups[1:]), encode(map[string]any{"paths": schemas})
	return c, err
}

// Namespaces is the resource of namespaces.
var Namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func scopeOf(scope string) apidiscoveryv2.ResourceScope {
	if scope == "Namespaced" {
		return apidiscoveryv2.ScopeNamespace
	}
	return apidiscoveryv2.ScopeCluster
}

// addDefinition adds what a CustomResourceDefinition defines.
func addDefinition(groups []apidiscoveryv2.APIGroupDiscovery, definition *unstructured.Unstructured) []apidiscoveryv2.APIGroupDiscovery {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(definition.Object, append([]string{"spec"}, fields...)...)
		return value
	}
	group := text("group")
	i := slices.IndexFunc(groups, func(g apidiscoveryv2.APIGroupDiscovery) bool { return g.Name == group })
	if i < 0 {
		i, groups = len(groups), append(groups, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: group}})
	}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if serving, _ := version["served"].(bool); !ok || !serving {
			continue
		}
		name, _ := version["name"].(string)
		resource := apidiscoveryv2.APIResourceDiscovery{
			Resource: text("names", "plural"), SingularResource: text("names", "singular"), Scope: scopeOf(text("scope")),
			ResponseKind: &metav1.GroupVersionKind{Group: group, Version: name, Kind: text("names", "kind")},
			Verbs:        []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		}
		j := slices.IndexFunc(groups[i].Versions, func(v apidiscoveryv2.APIVersionDiscovery) bool { return v.Version == name })
		if j < 0 {
			j = len(groups[i].Versions)
			groups[i].Versions = append(groups[i].Versions, apidiscoveryv2.APIVersionDiscovery{Version: name, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent})
		}
		groups[i].Versions[j].Resources = append(groups[i].Versions[j].Resources, resource)
	}
	return groups
}
