package imports

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

// importsManager owns the imports on the control plane, so that fields are removed from them that no export has any more.
const importsManager = "flagship-imports"

// writeOnHub makes the import on the control plane what the exports add up to. It has no address: nothing runs there. One that a user
// made stays as it is, and so does one whose spec a user changed.
func (i *importer) writeOnHub(ctx context.Context, s *set) error {
	if s.custom != nil {
		return nil
	}
	meta, there := i.templates.Meta(importRef(s.key))
	if s.service == nil || !i.namespaceOnHub(s.key.Namespace) {
		if !there || !madeFromExports(meta.Labels) || meta.DeletionTimestamp != nil {
			return nil
		}
		object := &multiclusterv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}}
		err := i.client.Delete(ctx, object, client.Preconditions{UID: new(meta.UID)})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting ServiceImport %s: %w", s.key, err)
		}
		return nil
	}
	existing, err := i.onHub(ctx, s.key)
	if err != nil {
		return err
	}
	if existing != nil && !madeFromExports(existing.Labels) {
		return nil // A user was faster; its event follows.
	}
	if existing, err = i.applyOnHub(ctx, s, existing); err != nil {
		return err
	}
	return i.setStatusOnHub(ctx, s, existing)
}

// applyOnHub writes the import if it differs, and returns it; nil if it is a user's. One that differs although the exports are the same
// was changed by a user, such as by an apply of the import that Karmada needs: it is that user's from then on.
func (i *importer) applyOnHub(ctx context.Context, s *set, existing *multiclusterv1beta1.ServiceImport) (*multiclusterv1beta1.ServiceImport, error) {
	desired := importObject(s.key, *s.service)
	raw, err := manifestOf(desired)
	if err != nil {
		return nil, fmt.Errorf("encoding ServiceImport %s: %w", s.key, err)
	}
	sum := sha256.Sum256(raw)
	content := hex.EncodeToString(sum[:8])
	if existing != nil && existing.Annotations[multiclusterv1beta1.ContentAnnotation] == content {
		if equality.Semantic.DeepEqual(existing.Spec, desired.Spec) {
			return existing, nil
		}
		return nil, i.leaveToUser(ctx, existing)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return nil, fmt.Errorf("encoding ServiceImport %s: %w", s.key, err)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	object.SetResourceVersion(hubclient.NeverVersion) // one that a user creates meanwhile is theirs
	if existing != nil {
		object.SetResourceVersion(existing.ResourceVersion)
	}
	object.SetLabels(labels.Merge(desired.Labels, map[string]string{multiclusterv1beta1.MadeFromExportsLabel: "true"}))
	object.SetAnnotations(labels.Merge(desired.Annotations, map[string]string{multiclusterv1beta1.ContentAnnotation: content}))
	err = i.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(importsManager), client.ForceOwnership)
	if err != nil {
		return nil, fmt.Errorf("writing ServiceImport %s: %w", s.key, err)
	}
	return i.onHub(ctx, s.key)
}

// leaveToUser removes what marks an import as made from exports, its status first. The event of the change leads to a turn in which it
// is one that a user made.
func (i *importer) leaveToUser(ctx context.Context, existing *multiclusterv1beta1.ServiceImport) error {
	cleared := existing.DeepCopy()
	cleared.Status = multiclusterv1beta1.ServiceImportStatus{}
	if _, err := hubclient.PatchStatus(ctx, i.client, existing, cleared); err != nil {
		return client.IgnoreNotFound(err)
	}
	theirs := cleared.DeepCopy()
	delete(theirs.Labels, multiclusterv1beta1.MadeFromExportsLabel)
	delete(theirs.Annotations, multiclusterv1beta1.ContentAnnotation)
	_, err := hubclient.Patch(ctx, i.client, cleared, theirs)
	return client.IgnoreNotFound(err)
}

// setStatusOnHub writes which clusters export the service.
func (i *importer) setStatusOnHub(ctx context.Context, s *set, existing *multiclusterv1beta1.ServiceImport) error {
	if existing == nil {
		return nil // It was deleted meanwhile; its event follows.
	}
	var clusters []multiclusterv1beta1.ClusterStatus
	for _, cluster := range s.exporting() {
		clusters = append(clusters, multiclusterv1beta1.ClusterStatus{Cluster: cluster})
	}
	if equality.Semantic.DeepEqual(clusters, existing.Status.Clusters) {
		return nil
	}
	updated := existing.DeepCopy()
	updated.Status.Clusters = clusters
	_, err := hubclient.PatchStatus(ctx, i.client, existing, updated)
	return client.IgnoreNotFound(err)
}

// writeDerivedOnHub makes the derived Service on the control plane what the import there is, as readers know it from Karmada. Nothing
// there uses it.
func (i *importer) writeDerivedOnHub(ctx context.Context, s *set) error {
	key := types.NamespacedName{Namespace: s.key.Namespace, Name: networkingv1alpha1.DerivedServiceName(s.key.Name)}
	existing := &corev1.Service{}
	if err := i.client.Get(ctx, key, existing); apierrors.IsNotFound(err) {
		existing = nil
	} else if err != nil {
		return fmt.Errorf("reading Service %s: %w", key, err)
	} else if !isOnHub(existing.Labels) || existing.DeletionTimestamp != nil {
		return nil
	}
	var desired *corev1.Service
	if spec := s.specOnHub(); hasDerived(spec) && i.namespaceOnHub(key.Namespace) && len(key.Name) <= validation.DNS1035LabelMaxLength {
		desired = derivedOnHub(s.key, *spec)
	}
	switch {
	case existing == nil && desired == nil:
		return nil
	case existing == nil:
		if _, taken := i.templates.Meta(hubstore.Ref{GroupVersionKind: serviceKind, Namespace: key.Namespace, Name: key.Name}); taken {
			return nil // It is a user's.
		}
		return ignoreTaken(i.client.Create(ctx, desired))
	case desired == nil || (existing.Spec.ClusterIP == corev1.ClusterIPNone) != (desired.Spec.ClusterIP == corev1.ClusterIPNone):
		// A Service's address is immutable; the event of the deletion leads back here.
		return client.IgnoreNotFound(i.client.Delete(ctx, existing, client.Preconditions{UID: new(existing.UID)}))
	}
	updated := existing.DeepCopy()
	updated.Labels, updated.Spec.Ports, updated.Spec.Selector = desired.Labels, desired.Spec.Ports, nil
	updated.Spec.SessionAffinity, updated.Spec.SessionAffinityConfig = desired.Spec.SessionAffinity, desired.Spec.SessionAffinityConfig
	updated.Spec.InternalTrafficPolicy, updated.Spec.TrafficDistribution = desired.Spec.InternalTrafficPolicy, desired.Spec.TrafficDistribution
	_, err := hubclient.Patch(ctx, i.client, existing, updated)
	return client.IgnoreNotFound(err)
}

// derivedOnHub is the derived Service on the control plane, with the defaults that the API server gives it. It has the families of
// the control plane: those of the import may not be there.
func derivedOnHub(key types.NamespacedName, spec multiclusterv1beta1.ServiceImportSpec) *corev1.Service {
	service := derivedService(key, spec)
	maps.Copy(service.Labels, OnHub())
	service.Spec.IPFamilies, service.Spec.IPFamilyPolicy = nil, nil
	service.Spec.SessionAffinity = cmp.Or(service.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	service.Spec.InternalTrafficPolicy = cmp.Or(service.Spec.InternalTrafficPolicy, new(corev1.ServiceInternalTrafficPolicyCluster))
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		port.Protocol, port.TargetPort = cmp.Or(port.Protocol, corev1.ProtocolTCP), intstr.FromInt32(port.Port)
	}
	return service
}
