package migration

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
)

// stage is when an object is copied. What comes later depends on what comes earlier.
type stage int

const (
	// namespaces and definitions come first: all others are in them or of them.
	namespaces stage = iota
	definitions
	// clusters come before bindings: a binding must not name a cluster that does not exist.
	clusters
	// rules of interpretation and of overrides come before anything is rendered.
	rules
	// bindings come before templates and policies, so that both find the clusters as they are.
	bindings
	templates
	policies
	// works that no binding owns come last: their namespaces are made for Clusters.
	works
)

// Item is an object that is copied.
type Item struct {
	stage    stage
	resource resource
	object   *unstructured.Unstructured
}

// String is the object as messages show it.
func (i Item) String() string { return describe(i.object) }

func describe(obj *unstructured.Unstructured) string {
	if obj.GetNamespace() == "" {
		return obj.GetKind() + " " + obj.GetName()
	}
	return obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// Note is something that a migration does not do, for objects of one kind.
type Note struct {
	Kind   string `json:"kind"`
	Count  int    `json:"count"`
	Reason string `json:"reason"`
	// Names are some of the objects.
	Names []string `json:"names"`
}

// maxNames bounds the names in a Note.
const maxNames = 5

// Plan is what a migration copies and what it does not.
type Plan struct {
	Items []Item
	Notes []Note
	// credentials are the Secrets that the Clusters name, by namespace/name.
	credentials map[string]*unstructured.Unstructured
	// ready names the Clusters that are ready in the source.
	ready sets.Set[string]
}

// Counts returns how many objects of each kind are copied.
func (p *Plan) Counts() map[string]int {
	counts := map[string]int{}
	for _, i := range p.Items {
		counts[i.object.GetKind()]++
	}
	return counts
}

// Read makes the plan of a migration from a control plane.
func Read(ctx context.Context, source *ControlPlane) (*Plan, error) {
	all, err := source.resources(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plan{credentials: map[string]*unstructured.Unstructured{}, ready: sets.New[string]()}
	bound := sets.New[hubstore.Ref]()
	var clusterScoped []Item
	for _, r := range all {
		err := source.each(ctx, r.GroupVersionResource, "", func(obj *unstructured.Unstructured) error {
			if r.Group == workv1alpha2.GroupName && strings.HasSuffix(r.kind, "ResourceBinding") {
				bound.Insert(templateOf(obj))
			}
			if r.Group == "" && r.kind == "Secret" && obj.GetNamespace() == clusterv1alpha1.ClusterNamespace {
				p.credentials[obj.GetNamespace()+"/"+obj.GetName()] = obj
			}
			if r.kind == "Cluster" && r.Group == clusterv1alpha1.GroupName && isTrue(obj, clusterv1alpha1.ClusterConditionReady) {
				p.ready.Insert(obj.GetName())
			}
			at, copied, reason := classify(r, obj)
			switch {
			case copied && at == templates && !r.namespaced:
				clusterScoped = append(clusterScoped, Item{at, r, obj})
			case copied:
				p.Items = append(p.Items, Item{at, r, obj})
			}
			if reason != "" {
				p.note(r, obj, reason) // of one that is copied, too
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, i := range clusterScoped {
		if bound.Has(unversioned(i.object.GroupVersionKind(), "", i.object.GetName())) {
			p.Items = append(p.Items, i)
			continue
		}
		p.note(i.resource, i.object, "no ClusterResourceBinding propagates it; it may configure its control plane itself")
	}
	slices.SortStableFunc(p.Items, func(a, b Item) int { return cmp.Compare(a.stage, b.stage) })
	return p, nil
}

func templateOf(binding *unstructured.Unstructured) hubstore.Ref {
	resource, _, _ := unstructured.NestedStringMap(binding.Object, "spec", "resource") // its types are those of the API
	return unversioned(schema.FromAPIVersionAndKind(resource["apiVersion"], resource["kind"]), resource["namespace"], resource["name"])
}

// unversioned names an object in whatever version.
func unversioned(kind schema.GroupVersionKind, namespace, name string) hubstore.Ref {
	kind.Version = ""
	return hubstore.Ref{GroupVersionKind: kind, Namespace: namespace, Name: name}
}

func (p *Plan) note(r resource, obj *unstructured.Unstructured, reason string) {
	kind := r.GroupResource().String()
	i := slices.IndexFunc(p.Notes, func(n Note) bool { return n.Kind == kind && n.Reason == reason })
	if i < 0 {
		i, p.Notes = len(p.Notes), append(p.Notes, Note{Kind: kind, Reason: reason})
	}
	n := &p.Notes[i]
	if n.Count++; len(n.Names) < maxNames {
		n.Names = append(n.Names, strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/"))
	}
}

// stagesOfGroup are the stages of the kinds of the control plane's own API.
var stagesOfGroup = map[string]stage{
	"config.karmada.io": rules, "policy.karmada.io": policies, "networking.karmada.io": policies,
	"autoscaling.karmada.io": policies, "remedy.karmada.io": policies, "search.karmada.io": policies,
}

// notActedOn are kinds that are copied, and that Flagship serves without a controller.
var notActedOn = sets.New("FederatedHPA", "CronFederatedHPA", "FederatedResourceQuota", "MultiClusterIngress")

// classify returns when an object is copied. If it is not, the reason is for people; without one the object is of no interest, since
// every control plane has its own.
func classify(r resource, obj *unstructured.Unstructured) (at stage, copied bool, reason string) {
	switch {
	case obj.GetDeletionTimestamp() != nil:
		return 0, false, "it is being deleted"
	case r.Group == clusterv1alpha1.GroupName && r.kind == "Cluster":
		return clusters, true, ""
	case r.Group == workv1alpha2.GroupName && strings.HasSuffix(r.kind, "ResourceBinding"):
		return bindings, true, ""
	case r.Group == workv1alpha1.GroupName && r.kind == "Work":
		return works, isOfUser(obj) && !slices.Contains(memberaccount.ImpersonatorWorks(), obj.GetName()), ""
	case r.Group == "policy.karmada.io" && strings.HasSuffix(r.kind, "OverridePolicy"):
		return rules, true, ""
	}
	if at, own := stagesOfGroup[r.Group]; own {
		if notActedOn.Has(r.kind) {
			reason = "it is copied, but nothing acts on it yet"
		}
		return at, true, reason
	}
	if r.Group == "apps.karmada.io" {
		return 0, false, "it is a request that was answered"
	}
	ref := hubstore.RefOf(obj)
	switch {
	case hubstore.Excluded(ref) || ofEveryServer(r, obj):
		return 0, false, ""
	case metav1.GetControllerOf(obj) != nil:
		return 0, false, "the controller that made it makes it again"
	case r.Group == "" && r.kind == "Namespace":
		return namespaces, true, ""
	case r.Group == "apiextensions.k8s.io" && r.kind == "CustomResourceDefinition":
		return definitions, true, ""
	}
	return templates, true, ""
}

// isOfUser returns whether a Work was made by a person: those of the control plane are rendered again.
func isOfUser(obj *unstructured.Unstructured) bool {
	for _, keys := range []map[string]string{obj.GetLabels(), obj.GetAnnotations()} {
		for key := range keys {
			if key != workv1alpha1.WorkPermanentIDLabel && workv1alpha1.IsOwnershipKey(key) || strings.Contains(key, ".karmada.io/") && key != workv1alpha1.WorkPermanentIDLabel {
				return false
			}
		}
	}
	manifests, _, _ := unstructured.NestedSlice(obj.Object, "spec", "workload", "manifests") // its types are those of the API
	return !slices.ContainsFunc(manifests, func(m any) bool {
		manifest, ok := m.(map[string]any)
		return ok && manifest["apiVersion"] == "v1" && manifest["kind"] == "Namespace"
	})
}

// ofEveryServer returns whether every API server has such an object of its own.
func ofEveryServer(r resource, obj *unstructured.Unstructured) bool {
	if _, own := obj.GetLabels()["kubernetes.io/bootstrapping"]; own || obj.GetLabels()["karmada.io/bootstrapping"] != "" {
		return true
	}
	switch r.Group {
	case "apiregistration.k8s.io": // besides those that API servers register, those of Karmada's own servers
		_, registered := obj.GetLabels()[hubstore.RegisteredLabel]
		namespace, _, _ := unstructured.NestedString(obj.Object, "spec", "service", "namespace")
		return registered || namespace == clusterv1alpha1.SystemNamespace
	case "flowcontrol.apiserver.k8s.io", "admissionregistration.k8s.io":
		return strings.HasPrefix(obj.GetName(), "karmada") || r.Group == "flowcontrol.apiserver.k8s.io"
	case "fleet.flagship.io", "flagship.io":
		return true
	case "networking.k8s.io":
		return r.kind == "IPAddress" || r.kind == "ServiceCIDR"
	case "discovery.k8s.io":
		return obj.GetLabels()["endpointslice.kubernetes.io/managed-by"] != ""
	case "":
		secretType, _, _ := unstructured.NestedString(obj.Object, "type")
		return r.kind == "Endpoints" || r.kind == "Node" || r.kind == "Secret" && secretType == string(corev1.SecretTypeServiceAccountToken)
	}
	return strings.HasPrefix(obj.GetName(), "system-") || strings.HasPrefix(obj.GetName(), "system:") || r.kind == "ClusterRole" && strings.HasPrefix(obj.GetName(), "karmada")
}

// isTrue returns whether a condition of an object is True.
func isTrue(obj *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		of, ok := c.(map[string]any)
		return ok && of["type"] == condition && of["status"] == string(metav1.ConditionTrue)
	})
}

// text is a field of an object, "" if it is no string.
func text(obj *unstructured.Unstructured, path ...string) string {
	value, _, err := unstructured.NestedString(obj.Object, path...)
	if err != nil {
		return ""
	}
	return value
}
