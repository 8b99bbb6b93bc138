package dependencies

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// Index finds bindings by what their templates refer to.
const Index = "propagate.depends"

// DependedByPrefix begins the labels that name the dependants of a binding.
var DependedByPrefix = strings.SplitAfterN(workv1alpha2.DependedByLabel("", ""), "depended-by-", 2)[0]

// IndexValue is the index value of a reference, in whatever version; the name is empty for one by labels.
func IndexValue(gvk schema.GroupVersionKind, namespace, name string) string {
	return gvk.GroupKind().String() + "|" + namespace + "|" + name
}

func IndexValues(obj client.Object) []string {
	if obj.GetDeletionTimestamp() != nil || !obj.(workv1alpha2.Binding).BindingSpec().PropagateDeps {
		return nil
	}
	var keys []string
	for _, d := range Parse(obj) {
		keys = append(keys, IndexValue(schema.FromAPIVersionAndKind(d.APIVersion, d.Kind), d.Namespace, d.Name))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func Parse(binding metav1.Object) []interpret.Dependency {
	raw := binding.GetAnnotations()[workv1alpha2.DependenciesAnnotation]
	if raw == "" {
		return nil
	}
	var list []interpret.Dependency
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return nil // edited by hand; the next change of the template repairs it
	}
	// The list may be older than the rule.
	return slices.DeleteFunc(list, func(d interpret.Dependency) bool { return !InReach(binding.GetNamespace(), d) })
}

// InReach returns whether a template of a namespace may take along what it refers to: objects of the same namespace, and the definition
// of a kind, without which a custom resource could not be applied. A template that belongs to no namespace takes along definitions
// only. Other references are ignored: the author of a template need not be allowed to read the objects that it names.
func InReach(namespace string, d interpret.Dependency) bool {
	if d.Namespace == "" {
		return IsDefinition(schema.FromAPIVersionAndKind(d.APIVersion, d.Kind))
	}
	return d.Namespace == namespace
}

func IsDefinition(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "apiextensions.k8s.io" && gvk.Kind == "CustomResourceDefinition"
}

// InOrder sorts bindings by namespace and name.
func InOrder(bindings []workv1alpha2.Binding) []workv1alpha2.Binding {
	slices.SortFunc(bindings, func(a, b workv1alpha2.Binding) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return bindings
}

// RefersTo checks the labels of references that go by them.
func RefersTo(binding workv1alpha2.Binding, subject policy.Subject) bool {
	for _, d := range Parse(binding) {
		if !subject.Is(schema.FromAPIVersionAndKind(d.APIVersion, d.Kind)) || d.Namespace != subject.Namespace {
			continue
		}
		if d.Name == subject.Name || d.Name == "" && selects(d.LabelSelector, subject.Labels) {
			return true
		}
	}
	return false
}

func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	if selector == nil {
		return false
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(set))
}

// Clusters are the clusters where a dependant is or still is: a copy being drained needs what it refers to until it is gone.
func Clusters(binding workv1alpha2.Binding) []workv1alpha2.TargetCluster {
	spec := binding.BindingSpec()
	clusters := slices.Clone(spec.Clusters)
	for _, task := range spec.GracefulEvictionTasks {
		there := slices.ContainsFunc(clusters, func(c workv1alpha2.TargetCluster) bool { return c.Name == task.FromCluster })
		if !there && task.PurgeMode != policyv1alpha1.PurgeModeDirectly {
			clusters = append(clusters, workv1alpha2.TargetCluster{Name: task.FromCluster})
		}
	}
	return clusters
}

// Fill writes into a spec, and into the labels of its binding, who needs it. It returns the changed labels.
func Fill(spec *workv1alpha2.ResourceBindingSpec, present map[string]string, dependants []workv1alpha2.Binding) map[string]*string {
	changes := map[string]*string{}
	for key := range present {
		if strings.HasPrefix(key, DependedByPrefix) {
			changes[key] = nil
		}
	}
	spec.RequiredBy = nil
	for _, d := range dependants {
		spec.RequiredBy = append(spec.RequiredBy, workv1alpha2.BindingSnapshot{
			Namespace: d.GetNamespace(), Name: d.GetName(), Clusters: Clusters(d),
		})
		key, id := workv1alpha2.DependedByLabel(d.GetNamespace(), d.GetName()), d.GetLabels()[d.PermanentIDLabel()]
		if have, ok := present[key]; ok && have == id {
			delete(changes, key)
		} else {
			changes[key] = &id
		}
	}
	return changes
}

// FillStrictest gives an attached binding, which has no policy of its own, what the policies of its dependants say: the strongest
// wish of each kind. It returns which of their wishes conflict. A definition is never taken over from a member on behalf of those who
// have objects of its kind.
func FillStrictest(spec *workv1alpha2.ResourceBindingSpec, dependants []workv1alpha2.Binding) (conflicts []string) {
	first := dependants[0].BindingSpec()
	var resolution, preserve bool
	definition := IsDefinition(spec.Resource.GroupVersionKind())
	spec.ConflictResolution = policyv1alpha1.ConflictAbort
	spec.PreserveResourcesOnDeletion = nil
	for _, d := range dependants {
		theirs := d.BindingSpec()
		if overwrites(theirs) && !definition {
			spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
		}
		if theirs.PreserveResourcesOnDeletion != nil {
			spec.PreserveResourcesOnDeletion = ptr.To(*theirs.PreserveResourcesOnDeletion || ptr.Deref(spec.PreserveResourcesOnDeletion, false))
		}
		resolution = resolution || overwrites(theirs) != overwrites(first) && !definition
		preserve = preserve || ptr.Deref(theirs.PreserveResourcesOnDeletion, false) != ptr.Deref(first.PreserveResourcesOnDeletion, false)
	}
	if resolution {
		conflicts = append(conflicts, "ConflictResolution conflicted (Overwrite vs Abort)")
	}
	if preserve {
		conflicts = append(conflicts, "PreserveResourcesOnDeletion conflicted (true vs false)")
	}
	return conflicts
}

func overwrites(spec *workv1alpha2.ResourceBindingSpec) bool {
	return spec.ConflictResolution == policyv1alpha1.ConflictOverwrite
}

// Same returns whether a change of a binding is of no concern to what its template refers to.
func Same(before, after workv1alpha2.Binding) bool {
	a, b := before.BindingSpec(), after.BindingSpec()
	if !a.PropagateDeps && !b.PropagateDeps {
		return true
	}
	return a.PropagateDeps == b.PropagateDeps &&
		before.GetAnnotations()[workv1alpha2.DependenciesAnnotation] == after.GetAnnotations()[workv1alpha2.DependenciesAnnotation] &&
		(before.GetDeletionTimestamp() == nil) == (after.GetDeletionTimestamp() == nil) &&
		a.ConflictResolution == b.ConflictResolution &&
		ptr.Equal(a.PreserveResourcesOnDeletion, b.PreserveResourcesOnDeletion) &&
		equality.Semantic.DeepEqual(Clusters(before), Clusters(after))
}
