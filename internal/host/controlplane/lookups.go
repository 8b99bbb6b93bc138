package controlplane

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/agents"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/imports"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

var errStarting = errors.New("the control plane is starting")

// admissionLookups are what admission and authorization, which run before the loops, read from them.
type admissionLookups struct {
	components atomic.Pointer[components]
}

func (w *admissionLookups) started() (*components, error) {
	if h := w.components.Load(); h != nil {
		return h, nil
	}
	return nil, errStarting
}

// instances counts the objects of a kind by cluster.
func (w *admissionLookups) instances(ctx context.Context, group, kind string) (counts map[string]int, wanted bool, err error) {
	h, err := w.started()
	if err != nil {
		return nil, false, err
	}
	return h.carrier.Instances(ctx, group, kind)
}

// publish publishes an event of admission. Until the loops are built none is.
func (w *admissionLookups) publish(e events.Event) {
	if h, err := w.started(); err == nil {
		h.events.Publish(e)
	}
}

// hasEndpoints returns whether a Service has EndpointSlices, or true if that is unknown.
func (w *admissionLookups) hasEndpoints(ctx context.Context, namespace, name string) bool {
	h, err := w.started()
	if err != nil {
		return true
	}
	slices := &discoveryv1.EndpointSliceList{}
	err = h.mgr.GetAPIReader().List(ctx, slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name}, client.Limit(1))
	return err != nil || len(slices.Items) > 0
}

// replicasUnknown returns whether a kind is one of a definition on the control plane, and nothing reads the replicas of its objects. Until the loops
// are built that is not known.
func (w *admissionLookups) replicasUnknown(kind schema.GroupVersionKind) bool {
	h, err := w.started()
	if err != nil || scheme.Scheme.Recognizes(kind) {
		return false
	}
	served := slices.ContainsFunc(h.templates.Kinds(), func(k hubstore.Kind) bool { return k.GroupVersionKind.GroupKind() == kind.GroupKind() })
	return served && !h.interpreter.Supports(kind, configv1alpha1.InterpreterOperationInterpretReplica) &&
		!h.interpreter.Supports(kind, configv1alpha1.InterpreterOperationInterpretComponent)
}

// propagatedAPI returns whether there is an APIService of a user for a group version. Until the loops are built there is none.
func (w *admissionLookups) propagatedAPI(ctx context.Context, gv schema.GroupVersion) (bool, error) {
	h, err := w.started()
	if err != nil {
		return false, nil //nolint:nilerr // There is nothing to read it with yet.
	}
	service := &metav1.PartialObjectMetadata{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	if err := h.mgr.GetAPIReader().Get(ctx, client.ObjectKey{Name: gv.Version + "." + gv.Group}, service); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	_, registered := service.Labels[hubstore.RegisteredLabel]
	return !registered, nil
}

// mayStore returns an error if a user may not create an object in a namespace, or make one larger there. Until the loops are built
// nothing is refused.
func (w *admissionLookups) mayStore(namespace string, creates bool, grows func() bool) error {
	h, err := w.started()
	if err != nil {
		return nil //nolint:nilerr // There is nothing to compare with yet.
	}
	return h.limiter.CheckUser(namespace, creates, grows)
}

// mayRecord returns an error if a record of a member must not be stored. Until the loops are built nothing is refused.
func (w *admissionLookups) mayRecord(before, after *workv1alpha1.Work) error {
	h, err := w.started()
	if err != nil {
		return nil //nolint:nilerr // There is nothing to compare with yet.
	}
	return h.limiter.CheckRecord(before, after)
}

// cluster reads a Cluster from memory for admission, which is there before the loops are.
func (w *admissionLookups) cluster(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error) {
	h, err := w.started()
	if err != nil {
		return nil, err
	}
	cluster := &clusterv1alpha1.Cluster{}
	if err := h.mgr.GetClient().Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return cluster, nil
}

// tokenCluster returns the name of the Cluster that the user of a bootstrap token may register.
func (w *admissionLookups) tokenCluster(ctx context.Context, user string) (string, error) {
	h, err := w.started()
	if err != nil {
		return "", err
	}
	return agents.TokenCluster(ctx, h.mgr.GetClient(), user)
}

// issuedWith returns the request of a certificate of karmadactl or its agent, and the Cluster that it registers.
func (w *admissionLookups) issuedWith(ctx context.Context, credential string) (request, cluster string, err error) {
	h := w.components.Load()
	if h == nil {
		return "", "", errStarting
	}
	return agents.IssuedWith(ctx, h.mgr.GetAPIReader(), credential)
}

// holdsCredential returns whether there is a Secret of a name among those of members, with data. It is read from the API server: a cache
// may not have yet what was just joined.
func (w *admissionLookups) holdsCredential(ctx context.Context, name string) (bool, error) {
	h := w.components.Load()
	if h == nil {
		return false, errStarting
	}
	secret := &corev1.Secret{}
	err := h.mgr.GetAPIReader().Get(ctx, client.ObjectKey{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}, secret)
	return len(secret.Data) > 0, client.IgnoreNotFound(err)
}

// keeps is keeps of the components.
func (w *admissionLookups) keeps(ctx context.Context, work *workv1alpha1.Work) (bool, error) {
	h, err := w.started()
	if err != nil {
		return false, err
	}
	keeps, _, err := h.keeps(ctx, work)
	return keeps, err
}

// waits returns the clusters in which the removal of the copies of a template, which a user deletes, will wait for a person. A deletion that
// is only tried counts for no later one.
func (w *admissionLookups) waits(ctx context.Context, kind schema.GroupKind, namespace, name string, tried bool) []string {
	h, err := w.started()
	if err != nil {
		return nil // nothing is removed before the loops run
	}
	works := map[string][]types.NamespacedName{}
	for _, binding := range w.bindings(ctx, kind, namespace, name) {
		for _, target := range binding.BindingSpec().Clusters {
			works[target.Name] = append(works[target.Name], types.NamespacedName{
				Namespace: workv1alpha1.ExecutionNamespace(target.Name), Name: compose.WorkName(binding.BindingSpec()),
			})
		}
	}
	var waits []string
	for _, name := range slices.Sorted(maps.Keys(works)) {
		cluster, err := w.cluster(ctx, name)
		if err != nil || cluster == nil || cluster.DeletionTimestamp != nil {
			continue
		}
		engaged := meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionBrakeEngaged)
		if engaged || !tried && h.members.WillWait(name, works[name]) {
			waits = append(waits, name)
		}
	}
	return waits
}

// bindings are those of a template, or of all templates in a namespace that is deleted. What cannot be read is left out.
func (w *admissionLookups) bindings(ctx context.Context, kind schema.GroupKind, namespace, name string) []workv1alpha2.Binding {
	h, err := w.started()
	if err != nil {
		return nil
	}
	reader := h.mgr.GetClient()
	if kind == (schema.GroupKind{Kind: "Namespace"}) {
		var list workv1alpha2.ResourceBindingList
		if reader.List(ctx, &list, client.InNamespace(name), client.UnsafeDisableDeepCopy) != nil {
			return nil
		}
		found := make([]workv1alpha2.Binding, 0, len(list.Items))
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
		return found
	}
	binding := workv1alpha2.EmptyBinding(namespace)
	key := client.ObjectKey{Namespace: namespace, Name: workv1alpha2.BindingName(kind.Kind, name)}
	if reader.Get(ctx, key, binding, client.UnsafeDisableDeepCopy) != nil || binding.GetDeletionTimestamp() != nil {
		return nil
	}
	return []workv1alpha2.Binding{binding}
}

// withdraw deletes an object that the control plane derived, so that a user's can have its name. Before the loops run none is derived.
func (w *admissionLookups) withdraw(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) error {
	if !imports.Derives(kind.GroupKind()) {
		return nil
	}
	h, err := w.started()
	if err != nil {
		return nil //nolint:nilerr // There is nothing to withdraw yet.
	}
	present, there := h.templates.Meta(hubstore.Ref{GroupVersionKind: kind, Namespace: namespace, Name: name})
	if !there || !imports.IsDerived(present.Labels) {
		return nil
	}
	derived := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	derived.SetGroupVersionKind(kind)
	err = h.client.Delete(ctx, derived, client.Preconditions{UID: &present.UID})
	if apierrors.IsConflict(err) { // it is a user's by now
		return nil
	}
	return client.IgnoreNotFound(err)
}
