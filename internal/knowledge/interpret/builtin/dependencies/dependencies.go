package dependencies

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

func Template(_ context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
	return dependenciesAt(obj, "spec", "template", "spec")
}

func Pod(_ context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
	return dependenciesAt(obj, "spec")
}

func CronJob(_ context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
	return dependenciesAt(obj, "spec", "jobTemplate", "spec", "template", "spec")
}

// StatefulSet leaves out the claims that the set makes itself: a volume of a claim template's name is the pod's own claim.
func StatefulSet(ctx context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
	dependencies, err := Template(ctx, obj)
	if err != nil {
		return nil, err
	}
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "volumeClaimTemplates")
	templates, _ := value.([]any)
	own := map[string]bool{}
	for _, entry := range templates {
		template, _ := entry.(map[string]any)
		name, _, _ := unstructured.NestedString(template, "metadata", "name")
		own[name] = true
	}
	return slices.DeleteFunc(dependencies, func(d interpret.Dependency) bool {
		return d.Kind == "PersistentVolumeClaim" && own[d.Name]
	}), nil
}

func dependenciesAt(obj *unstructured.Unstructured, path ...string) ([]interpret.Dependency, error) {
	spec, err := fields.PodSpec(obj, path...)
	if err != nil {
		return nil, err
	}
	return OfPod(spec, obj.GetNamespace()), nil
}

// OfPod lists the ConfigMaps, Secrets, claims and the service account that a pod of the spec needs in its namespace, sorted. The
// account named default is not listed: every namespace has one. A resource claim, or a template of one, is listed in each version
// that has objects of its own: a pod does not have the version.
func OfPod(spec *corev1.PodSpec, namespace string) []interpret.Dependency {
	found := newReferences(namespace)
	pod := &corev1.Pod{Spec: *spec}
	podutil.VisitPodSecretNames(pod, found.visitor("Secret"))
	podutil.VisitPodConfigmapNames(pod, found.visitor("ConfigMap"))
	if spec.ServiceAccountName != "default" {
		found.add("ServiceAccount", spec.ServiceAccountName)
	}
	for i := range spec.Volumes {
		if source := spec.Volumes[i].PersistentVolumeClaim; source != nil {
			found.add("PersistentVolumeClaim", source.ClaimName)
		}
	}
	return append(found.sorted(), resourceClaims(spec, namespace)...)
}

// resourceClaims lists the claims and claim templates that a pod names, sorted.
func resourceClaims(spec *corev1.PodSpec, namespace string) []interpret.Dependency {
	var list []interpret.Dependency
	add := func(kind string, name *string) {
		if name == nil || *name == "" {
			return
		}
		for _, version := range []string{"resource.k8s.io/v1", "resource.k8s.io/v1alpha2"} {
			list = append(list, interpret.Dependency{APIVersion: version, Kind: kind, Namespace: namespace, Name: *name})
		}
	}
	for i := range spec.ResourceClaims {
		add("ResourceClaim", spec.ResourceClaims[i].ResourceClaimName)
		add("ResourceClaimTemplate", spec.ResourceClaims[i].ResourceClaimTemplateName)
	}
	return interpret.SortDependencies(list)
}

type referenceKey struct{ kind, name string }

// references collects core/v1 objects of one namespace.
type references struct {
	namespace string
	seen      map[referenceKey]bool
}

func newReferences(namespace string) references {
	return references{namespace: namespace, seen: map[referenceKey]bool{}}
}

func (r references) add(kind, name string) {
	if name != "" {
		r.seen[referenceKey{kind, name}] = true
	}
}

// visitor adds what it is called with.
func (r references) visitor(kind string) podutil.Visitor {
	return func(name string) bool {
		r.add(kind, name)
		return true
	}
}

func (r references) sorted() []interpret.Dependency {
	list := make([]interpret.Dependency, 0, len(r.seen))
	for key := range r.seen {
		list = append(list, interpret.Dependency{
			APIVersion: "v1", Kind: key.kind, Namespace: r.namespace, Name: key.name,
		})
	}
	slices.SortFunc(list, func(a, b interpret.Dependency) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// Ingress lists the certificates that the Ingress serves, and the Services that its requests go to. A backend that is another
// resource is no dependency: the Ingress may name any kind, also one that its author may not read.
func Ingress(_ context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
	var ingress networkingv1.Ingress
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &ingress); err != nil {
		return nil, fmt.Errorf("reading an Ingress: %w", err)
	}
	found := newReferences(obj.GetNamespace())
	backend := func(to *networkingv1.IngressBackend) {
		if to == nil {
			return
		}
		if to.Service != nil {
			found.add("Service", to.Service.Name)
		}
		if to.Resource != nil && ptr.Deref(to.Resource.APIGroup, "") == "" && to.Resource.Kind == "Service" {
			found.add(to.Resource.Kind, to.Resource.Name)
		}
	}
	for _, tls := range ingress.Spec.TLS {
		found.add("Secret", tls.SecretName)
	}
	backend(ingress.Spec.DefaultBackend)
	for _, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for i := range rule.HTTP.Paths {
			backend(&rule.HTTP.Paths[i].Backend)
		}
	}
	return found.sorted(), nil
}

// ServiceImport lists the derived Service of an import and its endpoints.
func ServiceImport(_ context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
	derived := "derived-" + obj.GetName()
	return []interpret.Dependency{
		{APIVersion: "v1", Kind: "Service", Namespace: obj.GetNamespace(), Name: derived},
		{
			APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", Namespace: obj.GetNamespace(),
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{discoveryv1.LabelServiceName: derived}},
		},
	}, nil
}
