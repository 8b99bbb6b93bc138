package taken

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// Request is one object of a member that is requested. Its kind is as the control plane serves it: a member may give any kind the
// name of any resource.
type Request struct {
	Mapping         *meta.RESTMapping
	Namespace, Name string
	// UID is that of the object when it was listed; empty if it was not.
	UID types.UID
}

// Find makes the request for an object of a resource, by the kinds that the control plane serves.
func Find(hub *rest.Config, kind, namespace, name string) (*Request, error) {
	mapping, err := cli.Mapping(hub, kind)
	if err != nil {
		return nil, err
	}
	return New(mapping, namespace, name)
}

// New makes the request for an object. A namespace does not count for a cluster-scoped kind. What no command takes from a member is
// refused before it is read: what belongs to the control plane itself, or to the API server that has it.
func New(mapping *meta.RESTMapping, namespace, name string) (*Request, error) {
	r := &Request{Mapping: mapping, Name: name}
	if r.Namespaced() {
		r.Namespace = namespace
	}
	kind := mapping.GroupVersionKind.GroupKind()
	switch {
	case hubstore.ReservedNamespace(r.Namespace):
		return nil, fmt.Errorf("the namespace %s belongs to the control plane: nothing of a member is written there", r.Namespace)
	case kind == schema.GroupKind{Kind: "Namespace"}:
		return nil, errors.New("a namespace of the control plane is in every cluster\ncreate it there with 'kubectl create namespace'")
	case hubstore.Excluded(hubstore.Ref{GroupVersionKind: mapping.GroupVersionKind, Namespace: r.Namespace, Name: name}):
		return nil, fmt.Errorf("%s %s is no template: it belongs to the API server that has it", kind.Kind, name)
	}
	return r, nil
}

// In is a client for the objects that the request is about.
func (r *Request) In(client dynamic.Interface) dynamic.ResourceInterface {
	if r.Namespaced() {
		return client.Resource(r.Mapping.Resource).Namespace(r.Namespace)
	}
	return client.Resource(r.Mapping.Resource)
}

// Namespaced returns whether objects of the kind have a namespace on the control plane.
func (r *Request) Namespaced() bool { return r.Mapping.Scope.Name() == meta.RESTScopeNameNamespace }

// Same returns an error unless an object is the one that was requested.
func (r *Request) Same(obj *unstructured.Unstructured) error {
	for _, f := range []struct{ field, want, got string }{
		{"apiVersion", r.Mapping.GroupVersionKind.GroupVersion().String(), obj.GetAPIVersion()},
		{"kind", r.Mapping.GroupVersionKind.Kind, obj.GetKind()},
		{"metadata.namespace", r.Namespace, obj.GetNamespace()},
		{"metadata.name", r.Name, obj.GetName()},
		{"metadata.uid", string(r.UID), string(obj.GetUID())},
	} {
		if f.want != f.got && (f.field != "metadata.uid" || f.want != "") {
			return fmt.Errorf("the cluster returns another object than the one that was requested: %s is %q, not %q\nfind out who answers for its API server", f.field, f.got, f.want)
		}
	}
	return nil
}

// plain are the namespaced kinds of Kubernetes that have an effect in members alone. It lists what is harmless, so that a kind of a
// later Kubernetes is not.
var plain = map[string][]string{
	"":                  {"ConfigMap", "PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController", "Secret", "Service"},
	"apps":              {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"autoscaling":       {"HorizontalPodAutoscaler"},
	"batch":             {"CronJob", "Job"},
	"networking.k8s.io": {"Ingress", "NetworkPolicy"},
	"policy":            {"PodDisruptionBudget"},
	"resource.k8s.io":   {"ResourceClaim", "ResourceClaimTemplate"},
}

// plainSecrets are the types of Secrets that no controller of an API server acts on.
var plainSecrets = []corev1.SecretType{
	"", corev1.SecretTypeOpaque, corev1.SecretTypeTLS, corev1.SecretTypeDockercfg, corev1.SecretTypeDockerConfigJson, corev1.SecretTypeBasicAuth, corev1.SecretTypeSSHAuth,
}

// Acts returns why an object would have an effect on the control plane itself, beyond its copies in members; "" if it has none: whether
// it gives rights, names an account, admits requests, defines kinds, or bounds what others do.
func (r *Request) Acts(obj *unstructured.Unstructured) string {
	gk := r.Mapping.GroupVersionKind.GroupKind()
	kubernetes := !strings.Contains(gk.Group, ".") || strings.HasSuffix(gk.Group, "k8s.io")
	switch {
	case !r.Namespaced():
		return fmt.Sprintf("%s is cluster-scoped: it counts for the whole control plane", gk.Kind)
	case gk == schema.GroupKind{Kind: "Secret"}:
		kind, _, _ := unstructured.NestedString(obj.Object, "type") // what is no text is refused by the API server
		if !slices.Contains(plainSecrets, corev1.SecretType(kind)) {
			return fmt.Sprintf("controllers of the control plane act on Secrets of the type %q", kind)
		}
	case strings.HasSuffix("."+gk.Group, ".karmada.io") || strings.HasSuffix("."+gk.Group, ".flagship.io"):
		return fmt.Sprintf("%s configures the control plane", gk)
	case kubernetes && !slices.Contains(plain[gk.Group], gk.Kind):
		return fmt.Sprintf("%s has an effect in the API server that has it", gk)
	}
	return ""
}

// Digest identifies what is to be written because of an object of a cluster: the same values have the same digest, and no others. The
// owner of a member may choose them, so that it is complete.
func Digest(cluster string, uid types.UID, values ...any) (string, error) {
	raw, err := json.Marshal([]any{cluster, uid, values}) // keys of maps are sorted
	if err != nil {
		return "", fmt.Errorf("encoding what is to be written: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Expected returns an error if what is to be written has another digest than the one that a user gives.
func Expected(given, digest string) error {
	if given != digest {
		return errors.New("what would be written is not what --expect names: the object in the cluster, or what is on the control plane, has changed\nrun the command again with --dry-run, and read what it prints")
	}
	return nil
}
