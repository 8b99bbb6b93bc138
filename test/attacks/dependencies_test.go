package attacks_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// withDependencies makes a policy send what its templates refer to, and take over what members have of it.
func withDependencies(p *policyv1alpha1.PropagationPolicy) *policyv1alpha1.PropagationPolicy {
	p.Spec.PropagateDeps, p.Spec.ConflictResolution = true, policyv1alpha1.ConflictOverwrite
	return p
}

// TestAnIngressSendsNoClusterScopedObjects is an Ingress of a tenant whose backends are a PersistentVolume, a Namespace and a
// Secret, none of which he may read.
func TestAnIngressSendsNoClusterScopedObjects(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns, victim := fleet.Namespace(t), fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "services", "ingresses", "propagationpolicies")
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "volume-" + ns},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/"},
			},
		},
	}
	fleettest.Create(t, fleet.Hub, volume, fleettest.Secret(ns, "not-his", nil))

	web := fleettest.Service(ns, "web")
	kind := networkingv1.PathTypePrefix
	path := func(path string, backend networkingv1.IngressBackend) networkingv1.HTTPIngressPath {
		return networkingv1.HTTPIngressPath{Path: path, PathType: &kind, Backend: backend}
	}
	named := func(kind, name string) networkingv1.IngressBackend {
		return networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: kind, Name: name}}
	}
	front := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "front"}}
	front.Spec.Rules = []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{
			path("/volume", named("PersistentVolume", volume.Name)),
			path("/namespace", named("Namespace", victim)),
			path("/secret", named("Secret", "not-his")),
			path("/", networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: web.Name, Port: networkingv1.ServiceBackendPort{Number: 80}}}),
		},
	}}}}
	fleettest.Create(t, tenant, web, front, withDependencies(fleettest.Policy(ns, "front", fleettest.To(member.Name), front)))
	// The Service that the Ingress may take along is sent after the list of dependencies was made.
	fleettest.ExpectEventually(t, member, fleettest.Service(ns, "web"), fleettest.Exists[*corev1.Service])

	for _, name := range []string{
		workv1alpha2.BindingName("PersistentVolume", volume.Name), workv1alpha2.BindingName("Namespace", victim),
	} {
		fleettest.ExpectAbsent(t, fleet.Hub, &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	fleettest.ExpectAbsent(t, fleet.Hub, &workv1alpha2.ResourceBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: workv1alpha2.BindingName("Secret", "not-his")}})
	fleettest.ExpectAbsent(t, member, volume)
}

// TestAScriptSendsNothingOfOtherNamespaces is a script that finds dependencies by what a tenant wrote into his object.
func TestAScriptSendsNothingOfOtherNamespaces(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns, victim := fleet.Namespace(t), fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "podtemplates", "propagationpolicies")
	role := "rbac.authorization.k8s.io/v1"
	fleettest.Create(t, fleet.Hub, fleettest.Secret(victim, "top", nil), &configv1alpha1.ResourceInterpreterCustomization{
		ObjectMeta: metav1.ObjectMeta{Name: "references-" + ns},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target: configv1alpha1.CustomizationTarget{APIVersion: "v1", Kind: "PodTemplate"},
			Customizations: configv1alpha1.CustomizationRules{DependencyInterpretation: &configv1alpha1.DependencyInterpretation{LuaScript: `
				function GetDependencies(desiredObj)
					local a = desiredObj.metadata.annotations
					return {
						{apiVersion = "v1", kind = "Secret", namespace = a.namespace, name = "top"},
						{apiVersion = "v1", kind = "Namespace", name = a.namespace},
						{apiVersion = "` + role + `", kind = "ClusterRole", name = "view"},
						{apiVersion = "v1", kind = "ConfigMap", namespace = desiredObj.metadata.namespace, name = "own"},
					}
				end`}},
		},
	})
	template := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "references", Annotations: map[string]string{"namespace": victim}},
		Template:   corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
	}
	fleettest.Create(t, tenant, fleettest.ConfigMap(ns, "own", nil), template,
		withDependencies(fleettest.Policy(ns, "references", fleettest.To(member.Name), template)))
	fleettest.ExpectEventually(t, member, fleettest.ConfigMap(ns, "own", nil), fleettest.Exists[*corev1.ConfigMap])

	fleettest.ExpectAbsent(t, member, fleettest.Secret(victim, "top", nil))
	for _, name := range []string{workv1alpha2.BindingName("Namespace", victim), workv1alpha2.BindingName("ClusterRole", "view")} {
		fleettest.ExpectAbsent(t, fleet.Hub, &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}
