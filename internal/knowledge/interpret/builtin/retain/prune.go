package retain

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

// Prune runs a kind's own rule and the one for all kinds. Template is the object before it was edited; it is not changed.
func Prune(rule func(obj, template *unstructured.Unstructured)) func(obj, template *unstructured.Unstructured) {
	return func(obj, template *unstructured.Unstructured) {
		rule(obj, template) // first: it may need what the other removes, since template may be obj
		PruneServerSet(obj, template)
	}
}

// PruneServerSet removes what an API server, not a user, wrote to an object, and owners and finalizers: their controllers run on
// the control plane.
func PruneServerSet(obj, _ *unstructured.Unstructured) {
	delete(obj.Object, "status")
	metadata, ok := obj.Object["metadata"].(map[string]any)
	if !ok {
		return
	}
	for _, name := range []string{
		"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
		"resourceVersion", "selfLink", "uid", "ownerReferences", "finalizers",
	} {
		delete(metadata, name)
	}
}

// PruneDeployment removes the annotations of a deployment controller.
func PruneDeployment(obj, _ *unstructured.Unstructured) {
	removeKeys(obj.Object, []string{"metadata", "annotations"},
		"deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history")
}

// PruneJob removes the selector and labels with the uid that a Job has on the control plane, unless the selector of the template is
// manual, and the time to live, on which package jobttl acts: the result stays in all clusters until the last of them has finished.
func PruneJob(obj, template *unstructured.Unstructured) {
	unstructured.RemoveNestedField(obj.Object, "spec", "ttlSecondsAfterFinished")
	if manual, _, _ := unstructured.NestedBool(template.Object, "spec", "manualSelector"); manual {
		return
	}
	generated := []string{
		"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
	}
	removeKeys(obj.Object, []string{"spec", "selector", "matchLabels"}, generated...)
	removeKeys(obj.Object, []string{"spec", "template", "metadata", "labels"}, generated...)
	removeKeys(obj.Object, []string{"metadata", "labels"}, generated...) // by default those of the pod template
	if selector, _, _ := unstructured.NestedMap(obj.Object, "spec", "selector"); len(selector) == 0 {
		unstructured.RemoveNestedField(obj.Object, "spec", "selector")
	}
}

// PruneService removes the addresses that the control plane allocated; a headless Service keeps its None. A choice of address
// families is kept if some field manager owns it in the template: a user has set it, since the allocator owns no field. Node ports are
// the same in every member, so they stay where the Service still has some.
func PruneService(obj, template *unstructured.Unstructured) {
	spec, ok := obj.Object["spec"].(map[string]any)
	if !ok {
		return
	}
	if spec["clusterIP"] != "None" {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	} else if before, _, _ := unstructured.NestedString(template.Object, "spec", "clusterIP"); before != "None" {
		delete(spec, "clusterIPs") // those of the control plane: an override made the Service headless
	}
	owned := ownedFields(template)
	balanced := spec["type"] == "LoadBalancer"
	remove := func(name string, keeps bool) {
		if !keeps && !owned.Has(fieldpath.MakePathOrDie("spec", name)) {
			delete(spec, name)
		}
	}
	remove("ipFamilies", false)
	remove("ipFamilyPolicy", false)
	remove("healthCheckNodePort", balanced && spec["externalTrafficPolicy"] == "Local")
	if spec["type"] == "NodePort" || balanced && spec["allocateLoadBalancerNodePorts"] != false {
		return
	}
	ports, _ := spec["ports"].([]any)
	for _, entry := range ports {
		if port, ok := entry.(map[string]any); ok && !ownsNodePort(owned, port) {
			delete(port, "nodePort")
		}
	}
}

// ownedFields is what some field manager owns of an object; it is empty if the object has no managed fields.
func ownedFields(obj *unstructured.Unstructured) *fieldpath.Set {
	owned := fieldpath.NewSet()
	for _, entry := range obj.GetManagedFields() {
		set := fieldpath.NewSet()
		if entry.FieldsV1 != nil && set.FromJSON(entry.FieldsV1.GetRawReader()) == nil {
			owned = owned.Union(set)
		}
	}
	return owned
}

// ownsNodePort is true if owned has the nodePort of an entry of spec.ports.
func ownsNodePort(owned *fieldpath.Set, port map[string]any) bool {
	number, _ := fields.Int64(port["port"])
	protocol, ok := port["protocol"].(string)
	if !ok {
		protocol = "TCP"
	}
	key := fieldpath.KeyByFields("port", number, "protocol", protocol)
	return owned.Has(fieldpath.MakePathOrDie("spec", "ports", key, "nodePort"))
}

// PruneServiceAccount removes the references to token Secrets that the control plane made for the account.
func PruneServiceAccount(obj, _ *unstructured.Unstructured) {
	secrets, ok := obj.Object["secrets"].([]any)
	if !ok {
		return
	}
	prefix := obj.GetName() + "-token-"
	kept := slices.DeleteFunc(secrets, func(entry any) bool {
		reference, _ := entry.(map[string]any)
		name, _ := reference["name"].(string)
		return strings.HasPrefix(name, prefix)
	})
	if len(kept) == 0 {
		delete(obj.Object, "secrets")
		return
	}
	obj.Object["secrets"] = kept
}

// PruneSecret removes a token of the control plane: the member signs its own. The template decides, and the copy as well: a Secret is not
// sent as another type with the token in it.
func PruneSecret(obj, template *unstructured.Unstructured) {
	if !holdsToken(obj) && !holdsToken(template) {
		return
	}
	delete(obj.Object, "data")
	delete(obj.Object, "stringData")
	removeKeys(obj.Object, []string{"metadata", "annotations"}, serviceAccountUID)
}

// boundByController is on claims and volumes that a controller, not a user, has bound to each other.
const boundByController = "pv.kubernetes.io/bound-by-controller"

// PruneClaim removes what a scheduler and the controllers of volumes decided: the node, and the volume unless a user chose it.
func PruneClaim(obj, template *unstructured.Unstructured) {
	if _, bound := template.GetAnnotations()[boundByController]; bound {
		unstructured.RemoveNestedField(obj.Object, "spec", "volumeName")
	}
	removeKeys(obj.Object, []string{"metadata", "annotations"}, "volume.kubernetes.io/selected-node", boundByController,
		"pv.kubernetes.io/bind-completed", "volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
}

// PruneVolume removes the claim that a controller bound, and of one that a user chose what is of the claim on the control plane.
func PruneVolume(obj, template *unstructured.Unstructured) {
	if _, bound := template.GetAnnotations()[boundByController]; bound {
		unstructured.RemoveNestedField(obj.Object, "spec", "claimRef")
	}
	removeKeys(obj.Object, []string{"spec", "claimRef"}, "uid", "resourceVersion")
	removeKeys(obj.Object, []string{"metadata", "annotations"}, boundByController)
}

// PruneClusterRole removes rules that the controller of aggregated roles wrote: that of each member writes its own.
func PruneClusterRole(obj, _ *unstructured.Unstructured) {
	if _, aggregated, _ := unstructured.NestedFieldNoCopy(obj.Object, "aggregationRule", "clusterRoleSelectors"); aggregated {
		delete(obj.Object, "rules")
	}
}

// PruneDaemonSet removes the annotation in which the API server has a counter of changes of the pod template.
func PruneDaemonSet(obj, _ *unstructured.Unstructured) {
	removeKeys(obj.Object, []string{"metadata", "annotations"}, "deprecated.daemonset.template.generation")
}

// PruneReplicaSet removes the annotations that the controller of its Deployment writes.
func PruneReplicaSet(obj, _ *unstructured.Unstructured) {
	removeKeys(obj.Object, []string{"metadata", "annotations"}, "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history",
		"deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas")
}

// PruneAutoscaler removes annotations in which version v1 has parts of the status.
func PruneAutoscaler(obj, _ *unstructured.Unstructured) {
	removeKeys(obj.Object, []string{"metadata", "annotations"}, "autoscaling.alpha.kubernetes.io/conditions", "autoscaling.alpha.kubernetes.io/current-metrics")
}

// injectors are the annotations that have a controller write the certificate authority of its own cluster.
var injectors = []string{
	"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca", "service.beta.openshift.io/inject-cabundle",
}

// PruneAuthority removes certificate authorities that a controller injects: that of each member injects its own, and would be overwritten.
func PruneAuthority(obj, template *unstructured.Unstructured) {
	if !slices.ContainsFunc(injectors, func(key string) bool {
		_, of := obj.GetAnnotations()[key]
		_, was := template.GetAnnotations()[key]
		return of || was
	}) {
		return
	}
	unstructured.RemoveNestedField(obj.Object, "spec", "caBundle")
	unstructured.RemoveNestedField(obj.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
	hooks, _ := obj.Object["webhooks"].([]any)
	for _, hook := range hooks {
		if fields, ok := hook.(map[string]any); ok {
			unstructured.RemoveNestedField(fields, "clientConfig", "caBundle")
		}
	}
}

// PruneTrustBundle removes the certificate authorities that OpenShift injects into a ConfigMap.
func PruneTrustBundle(obj, _ *unstructured.Unstructured) {
	if obj.GetAnnotations()["service.beta.openshift.io/inject-cabundle"] == "true" {
		removeKeys(obj.Object, []string{"data"}, "service-ca.crt")
	}
	if obj.GetLabels()["config.openshift.io/inject-trusted-cabundle"] == "true" {
		removeKeys(obj.Object, []string{"data"}, "ca-bundle.crt")
	}
}

const serviceAccountUID = "kubernetes.io/service-account.uid"

// holdsToken returns whether a Secret has a token, by its type or by the annotation that the controller of tokens adds.
func holdsToken(obj *unstructured.Unstructured) bool {
	_, filled := obj.GetAnnotations()[serviceAccountUID]
	return filled || isTokenSecret(obj)
}

func isTokenSecret(obj *unstructured.Unstructured) bool {
	return obj.Object["type"] == "kubernetes.io/service-account-token"
}

// removeKeys deletes keys from the map at the path, and the map if that leaves it empty.
func removeKeys(object map[string]any, path []string, keys ...string) {
	value, _, err := unstructured.NestedFieldNoCopy(object, path...)
	fields, ok := value.(map[string]any)
	if err != nil || !ok {
		return
	}
	before := len(fields)
	maps.DeleteFunc(fields, func(key string, _ any) bool { return slices.Contains(keys, key) })
	if len(fields) == 0 && before > 0 {
		unstructured.RemoveNestedField(object, path...)
	}
}
