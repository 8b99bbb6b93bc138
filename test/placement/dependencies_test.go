package placement_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	multiclusterv1alpha1 "github.com/flagship-k8s/flagship/api/multicluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// reading is a Deployment that mounts a ConfigMap.
func reading(ns, name, settings string) *appsv1.Deployment {
	d := fleettest.Deployment(ns, name, 1)
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: settings}}}}}
	return d
}

func along(policy *policyv1alpha1.PropagationPolicy) *policyv1alpha1.PropagationPolicy {
	policy.Spec.PropagateDeps = true
	return policy
}

// neededIn is the condition of an attached binding that is needed in exactly these clusters, by so many.
func neededIn(parents int, clusters ...string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		var got []string
		for _, s := range b.Spec.RequiredBy {
			got = append(got, names(s.Clusters)...)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, clusters) || len(b.Spec.RequiredBy) != parents {
			return fmt.Errorf("it is needed by %d in %v, want %d in %v", len(b.Spec.RequiredBy), got, parents, clusters)
		}
		return nil
	}
}

func TestDependenciesFollow(t *testing.T) {
	fleet, ns := start(t)
	blue, green := fleettest.ConfigMap(ns, "blue", nil), fleettest.ConfigMap(ns, "green", nil)
	web, api := reading(ns, "web", "blue"), reading(ns, "api", "blue")
	fleettest.Create(t, fleet.Hub, blue, green, web, api,
		along(fleettest.Policy(ns, "web", fleettest.To("east-1"), web)), along(fleettest.Policy(ns, "api", fleettest.To("west-1"), api)))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "blue"), neededIn(2, "east-1", "west-1"))
	fleettest.ExpectAbsent(t, fleet.Hub, binding(ns, "ConfigMap", "green"))

	// A parent refers to another object: that follows, and what it needed before is needed by the other parent only.
	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Volumes[0].ConfigMap.Name = "green" })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "green"), neededIn(1, "east-1"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "blue"), neededIn(1, "west-1"))

	// A parent moves, and what it needs moves with it.
	api2 := fleettest.Policy(ns, "api", fleettest.To("west-1"), api)
	fleettest.Update(t, fleet.Hub, api2, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("west-2", "west-3") })
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "blue"), neededIn(1, "west-2", "west-3"))

	// The last parent goes.
	fleettest.Delete(t, fleet.Hub, api)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "blue"), going)
	if err := fleet.Hub.Get(t.Context(), client.ObjectKeyFromObject(blue), blue); err != nil {
		t.Errorf("the template itself: %v", err)
	}
}

// Who needs an object stops needing it in one way or another, and in any order.
func TestParentsGoOneByOne(t *testing.T) {
	fleet, ns := start(t)
	ways := []struct {
		name, cluster string
		end           func(parent *appsv1.Deployment, policy *policyv1alpha1.PropagationPolicy)
	}{
		{"deleted", "east-1", func(parent *appsv1.Deployment, _ *policyv1alpha1.PropagationPolicy) {
			fleettest.Delete(t, fleet.Hub, parent)
		}},
		{"alone", "east-2", func(_ *appsv1.Deployment, policy *policyv1alpha1.PropagationPolicy) {
			fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.PropagateDeps = false })
		}},
		{"changed", "west-1", func(parent *appsv1.Deployment, _ *policyv1alpha1.PropagationPolicy) {
			fleettest.Update(t, fleet.Hub, parent, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Volumes = nil })
		}},
	}
	for n, order := range [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}} {
		shared := fleettest.ConfigMap(ns, fmt.Sprintf("shared-%d", n), nil)
		fleettest.Create(t, fleet.Hub, shared)
		parents, policies := make([]*appsv1.Deployment, len(ways)), make([]*policyv1alpha1.PropagationPolicy, len(ways))
		left := map[string]bool{}
		for i, way := range ways {
			parents[i] = reading(ns, fmt.Sprintf("%s-%d", way.name, n), shared.Name)
			policies[i] = along(fleettest.Policy(ns, parents[i].Name, fleettest.To(way.cluster), parents[i]))
			fleettest.Create(t, fleet.Hub, parents[i], policies[i])
			left[way.cluster] = true
		}
		attached := binding(ns, "ConfigMap", shared.Name)
		fleettest.ExpectEventually(t, fleet.Hub, attached, neededIn(3, "east-1", "east-2", "west-1"))
		for _, i := range order {
			ways[i].end(parents[i], policies[i])
			delete(left, ways[i].cluster)
			if len(left) > 0 {
				fleettest.ExpectEventually(t, fleet.Hub, attached, neededIn(len(left), slices.Sorted(maps.Keys(left))...))
			}
		}
		fleettest.ExpectEventually(t, fleet.Hub, attached, going)
	}
}

// What an Ingress needs to answer: its certificate, and the Services that it leads to.
func TestAnIngressTakesItsBackendsAlong(t *testing.T) {
	fleet, ns := start(t)
	cert := fleettest.Secret(ns, "cert", map[string]string{"tls.crt": "", "tls.key": ""})
	web, unrelated := fleettest.Service(ns, "web"), fleettest.Service(ns, "unrelated")
	kind := networkingv1.PathTypePrefix
	front := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "front"}}
	front.Spec.TLS = []networkingv1.IngressTLS{{SecretName: cert.Name}}
	front.Spec.Rules = []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &kind, Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: web.Name, Port: networkingv1.ServiceBackendPort{Number: 80}}}}},
	}}}}
	fleettest.Create(t, fleet.Hub, cert, web, unrelated, front, along(fleettest.Policy(ns, "front", fleettest.To("east-1"), front)))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Secret", cert.Name), neededIn(1, "east-1"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Service", web.Name), neededIn(1, "east-1"))
	fleettest.ExpectAbsent(t, fleet.Hub, binding(ns, "Service", unrelated.Name))
}

// Whatever a pod names in its namespace goes where it goes, and nothing besides.
func TestWhatAPodNeedsGoesAlong(t *testing.T) {
	fleet, ns := start(t)
	web := fleettest.Deployment(ns, "web", 1)
	pod := &web.Spec.Template.Spec
	pod.ServiceAccountName = "runner"
	pod.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	pod.Containers[0].Env = []corev1.EnvVar{
		{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "value"}, Key: "a"}}}}
	pod.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "password"}}}}
	pod.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "files", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "files"}}}}}}},
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	fleettest.Create(t, fleet.Hub, fleettest.ConfigMap(ns, "value", nil), fleettest.ConfigMap(ns, "files", nil), fleettest.ConfigMap(ns, "unrelated", nil),
		fleettest.Secret(ns, "password", nil), fleettest.Secret(ns, "pull", nil), claim,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "runner"}}, web, along(fleettest.Policy(ns, "web", fleettest.To("west-3"), web)))
	for name, kind := range map[string]string{
		"value": "ConfigMap", "files": "ConfigMap", "password": "Secret", "pull": "Secret", "data": "PersistentVolumeClaim", "runner": "ServiceAccount",
	} {
		b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, kind, name), neededIn(1, "west-3"))
		if b.Spec.Placement != nil || len(b.Spec.Clusters) > 0 {
			t.Errorf("%s %s has a placement %v and clusters %v of its own", kind, name, b.Spec.Placement, b.Spec.Clusters)
		}
	}
	fleettest.ExpectAbsent(t, fleet.Hub, binding(ns, "ConfigMap", "unrelated"))
}

// Who imports a service gets the Service that stands for it, and its endpoints by their label, without asking.
func TestAServiceImportTakesItsServiceAlong(t *testing.T) {
	fleet, ns := start(t)
	imported := &multiclusterv1alpha1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: multiclusterv1beta1.ServiceImportSpec{
		Type: multiclusterv1beta1.ClusterSetIP, Ports: []multiclusterv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}}}
	imported.SetGroupVersionKind(multiclusterv1alpha1.SchemeGroupVersion.WithKind("ServiceImport"))
	slice := func(service string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}}}
	}
	fleettest.Create(t, fleet.Hub, fleettest.Service(ns, "derived-db"), slice("derived-db"), slice("unrelated"),
		imported, fleettest.Policy(ns, "db", fleettest.To("east-3"), imported))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ServiceImport", "db"), placed("east-3"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Service", "derived-db"), neededIn(1, "east-3"))
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "EndpointSlice", "derived-db-1"), neededIn(1, "east-3"))
	fleettest.ExpectAbsent(t, fleet.Hub, binding(ns, "EndpointSlice", "unrelated-1"))
	// Every member has the definition of imports from the control plane itself.
	fleettest.ExpectAbsent(t, fleet.Hub, &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Name: workv1alpha2.BindingName("CustomResourceDefinition", "serviceimports.multicluster.x-k8s.io")}})
}

// A kind of a user's refers to a ClusterRole and a ConfigMap, as a script says: what belongs to no namespace stays, the rest
// goes and comes back with the object.
func TestClusterScopedObjectsAreNoDependencies(t *testing.T) {
	fleet, ns := start(t)
	script := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "placement-secrets"}}
	script.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: "v1", Kind: "Secret"}
	script.Spec.Customizations.DependencyInterpretation = &configv1alpha1.DependencyInterpretation{LuaScript: `
function GetDependencies(obj)
  local role = obj.metadata.labels and obj.metadata.labels.role
  if role == nil then return {} end
  return {
    {apiVersion = "rbac.authorization.k8s.io/v1", kind = "ClusterRole", name = role},
    {apiVersion = "v1", kind = "ConfigMap", name = role},
  }
end`}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "placement-reader"}}
	secret := fleettest.Secret(ns, "password", nil)
	secret.Labels = map[string]string{"role": role.Name}
	fleettest.Create(t, fleet.Hub, script, role, fleettest.ConfigMap(ns, role.Name, nil), secret, along(fleettest.Policy(ns, "password", fleettest.To("east-2"), secret)))
	attached := binding(ns, "ConfigMap", role.Name)
	fleettest.ExpectEventually(t, fleet.Hub, attached, neededIn(1, "east-2"))
	fleettest.ExpectAbsent(t, fleet.Hub, &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Name: workv1alpha2.BindingName("ClusterRole", role.Name)}})
	fleettest.Delete(t, fleet.Hub, secret)
	fleettest.ExpectEventually(t, fleet.Hub, attached, going)
}
