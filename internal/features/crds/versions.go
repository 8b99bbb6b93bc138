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

// ConversionError says that a conversion did not work this time: a webhook did not answer, or not as it should.
type ConversionError struct{ Cause error }

// Error implements error.
func (e *ConversionError) Error() string { return e.Cause.Error() }

// Unwrap gives the cause.
func (e *ConversionError) Unwrap() error { return e.Cause }

// Translate returns what an object of the hub becomes in a cluster that serves its kind in other versions only: the same
// object in the best of them. Where its own version is served, or no version of its kind yet, it stays what it is. An
// error is final until the definition or the cluster changes, except for a *ConversionError. The argument stays as it is.
func (c *Carrier) Translate(ctx context.Context, obj *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster) (*unstructured.Unstructured, error) {
	kind := obj.GroupVersionKind()
	served := versionsIn(cluster, kind.GroupKind())
	if len(served) == 0 || slices.Contains(served, kind.Version) {
		return obj, nil
	}
	c.remember(kind) // before it is read: whatever changes from now on is news
	known, err := c.expressions(ctx, kind)
	if err != nil {
		return nil, &ConversionError{err}
	}
	target := known.bestOf(served)
	if target == "" {
		if !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionCompleteAPIEnablements) {
			return obj, nil // it may serve more than it has said
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

// Restore returns an object of a member in the version that its template has on the hub. One that was not translated is
// returned itself.
func (c *Carrier) Restore(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	source := obj.GetAnnotations()[resourcev1alpha2.TranslatedFromAnnotation]
	if source == "" {
		return obj, nil
	}
	kind := obj.GroupVersionKind()
	from, err := runtimeschema.ParseGroupVersion(source)
	if err != nil || from.Group != kind.Group || from.Version == kind.Version {
		return obj, nil // not of our making
	}
	known, err := c.expressions(ctx, from.WithKind(kind.Kind))
	if err != nil {
		return nil, err
	}
	if !slices.Contains(known.versions, from.Version) {
		return obj, nil // translated by somebody who knows more of it than its versions
	}
	return known.convert(obj, from.Version)
}

// Alternatives lists the further versions in which objects of a kind can be written, the best first: a cluster that serves
// one of them can have them.
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

// Retranslated lists the kinds, as the hub names them, that Translate may answer about in another way after a change of a
// cluster.
func (c *Carrier) Retranslated(before, after *clusterv1alpha1.Cluster) []runtimeschema.GroupVersionKind {
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

// Defines returns the kinds that the definition of a name is of. It answers as long as they are served.
func (c *Carrier) Defines(name string) interpret.Kinds {
	return func(kind runtimeschema.GroupVersionKind) bool {
		resource, _, ok := c.deps.Templates.Mapping(kind)
		return ok && nameOf(resource) == name
	}
}

// Redefined is told that a definition on the hub may have changed. It returns the kinds whose objects may become something
// else in members by that; nil for none.
func (c *Carrier) Redefined(name string) interpret.Kinds {
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
