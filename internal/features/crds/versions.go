package crds

import (
	"context"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// lastApplied holds a whole object in the hub's version; "kubectl apply" writes it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Converter writes objects in other versions of their kinds, as the hub's API server would.
type Converter interface {
	// BuiltInVersions lists the versions in which a built-in kind can be written, the best first; none for other kinds.
	BuiltInVersions(runtimeschema.GroupKind) []string
	// ConvertBuiltIn writes an object of a built-in kind in another version, and leaves the argument as it is.
	ConvertBuiltIn(obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error)
	// ConvertCustom writes a custom resource in another version of its definition, and leaves the argument as it is. It may
	// call a webhook.
	ConvertCustom(definition *apiextensionsv1.CustomResourceDefinition, obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error)
}

// To implements conversion.Adviser: in a cluster that serves the kind of an object in other versions only, it becomes the same object in
// the best of them. Where its own version is served, or no version of its kind yet, it stays what it is.
func (c *Carrier) To(ctx context.Context, obj *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster) (*unstructured.Unstructured, error) {
	kind := obj.GroupVersionKind()
	served := versionsIn(cluster, kind.GroupKind())
	if len(served) == 0 || slices.Contains(served, kind.Version) {
		return obj, nil
	}
	c.addTranslated(kind) // before it is read, so that every change after it is handled
	known, err := c.expressions(ctx, kind)
	if err != nil {
		return nil, conversion.Transient(err)
	}
	target := known.bestOf(served)
	if target == "" {
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionCompleteAPIEnablements) {
			return obj, nil // it may serve more than its status lists
		}
		return nil, known.inexpressible(kind, served)
	}
	converted, err := known.convert(obj, target)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(converted.Object, "metadata", "annotations", lastApplied)
	annotations := converted.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[resourcev1alpha2.TranslatedFromAnnotation] = kind.GroupVersion().String()
	converted.SetAnnotations(annotations)
	return converted, nil
}

// From implements conversion.Adviser: an object that was converted for its member is in the version of its template again.
func (c *Carrier) From(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	source := obj.GetAnnotations()[resourcev1alpha2.TranslatedFromAnnotation]
	if source == "" {
		return obj, nil
	}
	kind := obj.GroupVersionKind()
	from, err := runtimeschema.ParseGroupVersion(source)
	if err != nil || from.Group != kind.Group || from.Version == kind.Version {
		return obj, nil // not written by To
	}
	known, err := c.expressions(ctx, from.WithKind(kind.Kind))
	if err != nil {
		return nil, err
	}
	if !slices.Contains(known.versions, from.Version) {
		return obj, nil // converted by another Adviser
	}
	return known.convert(obj, from.Version)
}

// Alternatives implements conversion.Adviser: the other versions of a kind.
func (c *Carrier) Alternatives(ctx context.Context, kind runtimeschema.GroupVersionKind) []runtimeschema.GroupVersionKind {
	known, err := c.expressions(ctx, kind)
	if err != nil {
		return nil
	}
	var kinds []runtimeschema.GroupVersionKind
	for _, name := range known.versions {
		if name != kind.Version {
			kinds = append(kinds, kind.GroupKind().WithVersion(name))
		}
	}
	return kinds
}

// Affected implements conversion.Adviser.
func (c *Carrier) Affected(before, after *clusterv1alpha1.Cluster) []runtimeschema.GroupVersionKind {
	sameAPIs := slices.EqualFunc(before.Status.APIEnablements, after.Status.APIEnablements, func(a, b clusterv1alpha1.APIEnablement) bool {
		return a.GroupVersion == b.GroupVersion && slices.Equal(a.Resources, b.Resources)
	})
	if sameAPIs {
		return nil
	}
	was, is := allVersions(before), allVersions(after)
	changed := map[runtimeschema.GroupVersionKind]bool{}
	for _, list := range []map[runtimeschema.GroupKind][]string{was, is} {
		for kind, versions := range list {
			canonical, ok := c.deps.Templates.Canonical(kind.WithVersion(versions[0]))
			stays := goesAsItIs(canonical, was[kind]) && goesAsItIs(canonical, is[kind])
			if ok && !stays && !slices.Equal(was[kind], is[kind]) {
				changed[canonical] = true
			}
		}
	}
	return slices.Collect(maps.Keys(changed))
}

// LosesStatus implements conversion.Adviser: conditions about members are removed from a definition that goes to none.
func (c *Carrier) LosesStatus(kind runtimeschema.GroupVersionKind) bool {
	return isDefinitionKind(kind)
}

// Subscribe implements conversion.Adviser.
func (c *Carrier) Subscribe(notify func(conversion.Change)) {
	c.deps.Templates.Subscribe(func(ref hubstore.Ref) {
		if isDefinitionKind(ref.GroupVersionKind) {
			notify(conversion.Change{Kinds: c.defines(ref.Name)})
		}
	})
}

// defines returns the kinds of a definition, as long as they are served.
func (c *Carrier) defines(name string) interpret.Kinds {
	return func(kind runtimeschema.GroupVersionKind) bool {
		resource, _, ok := c.deps.Templates.Mapping(kind)
		return ok && nameOf(resource) == name
	}
}

// redefined is called after a change of a definition. It returns the kinds whose objects may become something else in members by
// that; nil for none.
func (c *Carrier) redefined(name string) interpret.Kinds {
	_, exists := c.deps.Templates.Meta(hubstore.Ref{GroupVersionKind: definitionKind, Name: name})
	c.mu.Lock()
	defer c.mu.Unlock()
	kind, translated := c.translated[name]
	if !exists {
		delete(c.known, name)
		delete(c.translated, name)
	}
	if !translated {
		return nil
	}
	return func(other runtimeschema.GroupVersionKind) bool { return other.GroupKind() == kind }
}

func goesAsItIs(kind runtimeschema.GroupVersionKind, served []string) bool {
	return len(served) == 0 || slices.Contains(served, kind.Version)
}

// versionsIn lists the versions of a kind that a cluster serves.
func versionsIn(cluster *clusterv1alpha1.Cluster, kind runtimeschema.GroupKind) []string {
	var versions []string
	for i := range cluster.Status.APIEnablements {
		enabled := &cluster.Status.APIEnablements[i]
		group, name := splitVersion(enabled.GroupVersion)
		if group == kind.Group && slices.ContainsFunc(enabled.Resources, func(r clusterv1alpha1.APIResource) bool { return r.Kind == kind.Kind }) {
			versions = append(versions, name)
		}
	}
	return versions
}

// allVersions is versionsIn for every kind.
func allVersions(cluster *clusterv1alpha1.Cluster) map[runtimeschema.GroupKind][]string {
	versions := map[runtimeschema.GroupKind][]string{}
	for i := range cluster.Status.APIEnablements {
		enabled := &cluster.Status.APIEnablements[i]
		group, name := splitVersion(enabled.GroupVersion)
		for _, r := range enabled.Resources {
			kind := runtimeschema.GroupKind{Group: group, Kind: r.Kind}
			if !slices.Contains(versions[kind], name) {
				versions[kind] = append(versions[kind], name)
			}
		}
	}
	return versions
}

func splitVersion(groupVersion string) (group, name string) {
	group, name, grouped := strings.Cut(groupVersion, "/")
	if !grouped {
		return "", groupVersion
	}
	return group, name
}
