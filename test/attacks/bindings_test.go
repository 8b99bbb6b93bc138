package attacks_test

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// bindingTo is a binding that a user writes by hand: it sends an object to a cluster without any policy.
func bindingTo(cluster, namespace, name string, resource workv1alpha2.ObjectReference) *workv1alpha2.ResourceBinding {
	return &workv1alpha2.ResourceBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: workv1alpha2.ResourceBindingSpec{
			Resource: resource, Clusters: []workv1alpha2.TargetCluster{{Name: cluster}}, ConflictResolution: "Overwrite",
		},
	}
}

func core(kind, namespace, name string) workv1alpha2.ObjectReference {
	return workv1alpha2.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name}
}

// TestABindingCarriesNoSecretOfOthers is a binding that names a Secret of another namespace, the hub's own credentials for
// another member, or a Secret that its author may not read.
func TestABindingCarriesNoSecretOfOthers(t *testing.T) {
	fleet := shared.Start(t)
	member, other := fleet.Members[0], fleet.Members[1]
	ns, victim := fleet.Namespace(t), fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "resourcebindings")
	fleettest.Create(t, fleet.Hub, fleettest.Secret(victim, "top", map[string]string{"a": "b"}), fleettest.Secret(ns, "not-his", nil))

	for name, attack := range map[string]struct {
		user     *fleettest.Cluster
		resource workv1alpha2.ObjectReference
		refused  func(error) bool
	}{
		"other-namespace": {tenant, core("Secret", victim, "top"), apierrors.IsInvalid},
		"credentials":     {tenant, core("Secret", "karmada-cluster", other.Name), apierrors.IsInvalid},
		"not-readable":    {tenant, core("Secret", ns, "not-his"), apierrors.IsForbidden},
		// Nor do those who may do everything carry what is not a template of the namespace.
		"by-the-operator": {fleet.Hub, core("Secret", victim, "top"), apierrors.IsInvalid},
		"cluster-scoped":  {fleet.Hub, core("Namespace", ns, victim), apierrors.IsInvalid},
	} {
		err := attack.user.Create(t.Context(), bindingTo(member.Name, ns, name, attack.resource))
		if err == nil {
			stolen := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: attack.resource.Namespace, Name: attack.resource.Name}}
			if attack.resource.Kind == "Secret" {
				fleettest.ExpectEventually(t, member, stolen, fleettest.Exists[*corev1.Secret])
			}
			t.Errorf("%s: the binding was accepted, and the object went to the member", name)
		} else if !attack.refused(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	inHub := bindingTo(member.Name, "karmada-cluster", "credentials", core("Secret", "karmada-cluster", other.Name))
	if err := fleet.Hub.Create(t.Context(), inHub); !apierrors.IsInvalid(err) {
		t.Errorf("a binding in the namespace of credentials: got %v, want a refusal", err)
		fleettest.Delete(t, fleet.Hub, inHub)
	}
}

// TestABindingIsNotTurnedToAnotherObject is a harmless binding that is changed later, and one that works: what its author may
// read, he may send.
func TestABindingIsNotTurnedToAnotherObject(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns, victim := fleet.Namespace(t), fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "resourcebindings")
	fleettest.Create(t, fleet.Hub, fleettest.Secret(ns, "not-his", nil), fleettest.Secret(victim, "top", nil))
	fleettest.Create(t, tenant, fleettest.ConfigMap(ns, "own", map[string]string{"a": "b"}))

	binding := bindingTo(member.Name, ns, "by-hand", core("ConfigMap", ns, "own"))
	binding.Labels = map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "chosen-by-the-tenant"}
	binding.Annotations = map[string]string{workv1alpha2.DependenciesAnnotation: fmt.Sprintf(
		`[{"apiVersion": "v1", "kind": "Secret", "namespace": %q, "name": "not-his"}, {"apiVersion": "v1", "kind": "Secret", "namespace": %q, "name": "top"}]`, ns, victim)}
	binding.Spec.PropagateDeps = true
	fleettest.Create(t, tenant, binding)
	if id := binding.Labels[workv1alpha2.ResourceBindingPermanentIDLabel]; id == "" || id == "chosen-by-the-tenant" {
		t.Errorf("the binding's permanent id is %q, want one of the API server", id)
	}
	fleettest.ExpectEventually(t, member, fleettest.ConfigMap(ns, "own", nil), fleettest.Exists[*corev1.ConfigMap])

	for _, resource := range []workv1alpha2.ObjectReference{core("Secret", ns, "not-his"), core("Secret", victim, "top")} {
		turned := binding.DeepCopy()
		turned.Spec.Resource = resource
		err := tenant.Patch(t.Context(), turned, client.MergeFrom(binding))
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("turning a binding to %s/%s: got %v, want a refusal", resource.Namespace, resource.Name, err)
		}
	}
	listing := binding.DeepCopy()
	listing.Annotations = map[string]string{workv1alpha2.DependenciesAnnotation: `[{"apiVersion": "v1", "kind": "Secret", "namespace": "` + ns + `", "name": "not-his"}]`}
	if err := tenant.Patch(t.Context(), listing, client.MergeFrom(binding)); err != nil {
		t.Fatal(err)
	}
	if list := listing.Annotations[workv1alpha2.DependenciesAnnotation]; list != "" {
		t.Errorf("the tenant listed dependencies by hand: %s", list)
	}
	// A later object of the tenant has passed the loops that would have sent the others.
	fleettest.Create(t, tenant, fleettest.ConfigMap(ns, "later", nil), bindingTo(member.Name, ns, "by-hand-later", core("ConfigMap", ns, "later")))
	fleettest.ExpectEventually(t, member, fleettest.ConfigMap(ns, "later", nil), fleettest.Exists[*corev1.ConfigMap])
	fleettest.ExpectAbsent(t, member, fleettest.Secret(ns, "not-his", nil))
	fleettest.ExpectAbsent(t, member, fleettest.Secret(victim, "top", nil))
}

// TestAWideBindingCarriesWhatItsAuthorMayRead is the same for cluster-scoped objects.
func TestAWideBindingCarriesWhatItsAuthorMayRead(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns := fleet.Namespace(t)
	author := fleet.Hub.Tenant(t, ns, "configmaps")
	fleet.Hub.ClusterRights(t, "tenant-"+ns,
		rbacv1.PolicyRule{APIGroups: []string{workv1alpha2.GroupName}, Resources: []string{"clusterresourcebindings"}, Verbs: []string{"*"}})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "secret-" + ns}}
	fleettest.Create(t, fleet.Hub, role)

	wide := func(name string, resource workv1alpha2.ObjectReference) *workv1alpha2.ClusterResourceBinding {
		return &workv1alpha2.ClusterResourceBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + ns},
			Spec:       bindingTo(member.Name, "", "", resource).Spec,
		}
	}
	named := workv1alpha2.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role.Name}
	author.AwaitRight(t, authorizationv1.ResourceAttributes{Group: workv1alpha2.GroupName, Resource: "clusterresourcebindings", Verb: "create"})
	for name, attack := range map[string]struct {
		user     *fleettest.Cluster
		resource workv1alpha2.ObjectReference
		refused  func(error) bool
	}{
		"not-readable": {author, named, apierrors.IsForbidden},
		"namespaced":   {fleet.Hub, core("Secret", "karmada-cluster", fleet.Members[1].Name), apierrors.IsInvalid},
		"reserved":     {fleet.Hub, core("Namespace", "", "karmada-cluster"), apierrors.IsInvalid},
	} {
		binding := wide(name, attack.resource)
		if err := attack.user.Create(t.Context(), binding); !attack.refused(err) {
			t.Errorf("%s: got %v, want a refusal", name, err)
			fleettest.Delete(t, fleet.Hub, binding)
		}
	}
	fleettest.ExpectAbsent(t, member, role)
}
