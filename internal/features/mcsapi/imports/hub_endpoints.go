package imports

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

const (
	// hubSliceIndex finds the slices on the control plane that were made from the record of a slice.
	hubSliceIndex = "service.hubSlice"
)

var sliceKind = schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}

// OnHub selects the derived Services and EndpointSlices that this package writes on the control plane. By the label no policy and no
// dependency propagates them: members get the same from Works.
func OnHub() map[string]string {
	return map[string]string{policyv1alpha1.ResourceTemplateClaimedByLabel: multiclusterv1beta1.KindServiceImport}
}

// addIndexes adds the indexes of the slices on the control plane.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &discoveryv1.EndpointSlice{}, hubSliceIndex, func(obj client.Object) []string {
		return []string{exportwork.RecordOf(obj).String()}
	})
	if err != nil {
		return fmt.Errorf("adding the index %s: %w", hubSliceIndex, err)
	}
	return nil
}

// hubEndpoints reconciles the EndpointSlices on the control plane that are made from one record. Nothing there uses them: they are for
// readers.
type hubEndpoints struct{ *importer }

// recordOfSlice enqueues the record of a slice.
func recordOfSlice(_ context.Context, slice *discoveryv1.EndpointSlice) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: exportwork.RecordOf(slice)}}
}

// recordOfWork enqueues a record, and for an export those of its slices.
func recordOfWork(_ context.Context, work *workv1alpha1.Work) []reconcile.Request {
	switch exportwork.RoleOf(work) {
	case multiclusterv1beta1.RoleEndpoints:
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(work)}}
	case multiclusterv1beta1.RoleExport:
		return []reconcile.Request{endpointslices.Group(exportwork.ServiceOf(work))}
	}
	return nil
}

// contentChanges leaves out the verdicts on exports, which are annotations.
func contentChanges() predicate.TypedPredicate[*workv1alpha1.Work] {
	return predicate.TypedFuncs[*workv1alpha1.Work]{UpdateFunc: func(e ctrlevent.TypedUpdateEvent[*workv1alpha1.Work]) bool {
		return e.ObjectOld.Generation != e.ObjectNew.Generation || !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels)
	}}
}

// Reconcile implements reconcile.Reconciler. The request names the record, whether it exists or not.
func (h *hubEndpoints) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var have discoveryv1.EndpointSliceList
	if err := h.client.List(ctx, &have, client.MatchingFields{hubSliceIndex: request.String()}); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the EndpointSlices of %s: %w", request, err)
	}
	r, err := h.readRecord(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	var desired, existing *discoveryv1.EndpointSlice
	if r.slice != nil && h.namespaceOnHub(r.set.key.Namespace) {
		r.transfer.spec = *r.set.specOnHub()
		desired = onHub(r.slice, r.transfer)
	}
	from, _ := workv1alpha1.ClusterOfExecutionNamespace(request.Namespace)
	var failures []error
	for i := range have.Items {
		old := &have.Items[i]
		if desired != nil && client.ObjectKeyFromObject(old) == client.ObjectKeyFromObject(desired) && old.AddressType == desired.AddressType {
			existing = old
		} else if isOnHub(old.Labels) && old.DeletionTimestamp == nil && strings.HasPrefix(old.Name, networkingv1alpha1.ImportedEndpointSliceName(from, "")) {
			// It is surplus, or has another type of addresses, which cannot be changed. One with another name is a copy that a user made.
			failures = append(failures, client.IgnoreNotFound(h.client.Delete(ctx, old, client.Preconditions{UID: new(old.UID)})))
		}
	}
	if desired != nil {
		failures = append(failures, h.writeSlice(ctx, existing, desired))
	}
	return reconcile.Result{RequeueAfter: r.left}, errors.Join(failures...)
}

// writeSlice leaves a slice of that name which is not ours.
func (h *hubEndpoints) writeSlice(ctx context.Context, existing, desired *discoveryv1.EndpointSlice) error {
	if existing == nil {
		if _, taken := h.templates.Meta(hubstore.Ref{GroupVersionKind: sliceKind, Namespace: desired.Namespace, Name: desired.Name}); taken {
			return nil
		}
		return ignoreTaken(h.client.Create(ctx, desired))
	}
	updated := existing.DeepCopy()
	updated.Labels, updated.Annotations = desired.Labels, desired.Annotations
	if !equality.Semantic.DeepEqual(updated.Endpoints, desired.Endpoints) {
		updated.Endpoints = desired.Endpoints
	}
	if !equality.Semantic.DeepEqual(updated.Ports, desired.Ports) {
		updated.Ports = desired.Ports
	}
	_, err := hubclient.Patch(ctx, h.client, existing, updated)
	return client.IgnoreNotFound(err)
}

// onHub returns a recorded slice as it is on the control plane, with the names by which exportwork.RecordOf finds the record.
func onHub(record *discoveryv1.EndpointSlice, t transfer) *discoveryv1.EndpointSlice {
	out := imported(record, t)
	maps.Copy(out.Labels, OnHub())
	out.Labels[networkingv1alpha1.EndpointSliceWorkNamespaceLabel] = record.Namespace
	out.Annotations = map[string]string{
		networkingv1alpha1.EndpointSliceProvisionClusterAnnotation: t.from,
		networkingv1alpha1.EndpointSliceWorkNameLabel:              record.Name, // a label for Works; a name may be too long for one
	}
	return out
}

// ignoreTaken ignores that an object exists which the cache does not show, since it is not ours, or that its namespace is deleted.
func ignoreTaken(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// isOnHub returns whether an object is one of those that OnHub selects.
// Derives returns whether objects of a kind on the control plane may be derived from exports.
func Derives(kind schema.GroupKind) bool {
	return kind == importKind.GroupKind() || kind == serviceKind.GroupKind() || kind == sliceKind.GroupKind()
}

// IsDerived returns whether an object of such a kind with these labels is derived, and not a user's.
func IsDerived(labels map[string]string) bool { return madeFromExports(labels) || isOnHub(labels) }

func isOnHub(labels map[string]string) bool {
	return labels[policyv1alpha1.ResourceTemplateClaimedByLabel] == multiclusterv1beta1.KindServiceImport
}
