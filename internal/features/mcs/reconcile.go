package mcs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcs/exposure"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// Templates is the part of *hubstore.Store that this package uses.
type Templates interface {
	Subscribe(func(hubstore.Ref))
	WaitForSync(context.Context) error
	Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool)
	Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error)
	PatchMetadata(context.Context, hubstore.Ref, []byte) (*unstructured.Unstructured, error)
}

var serviceKind = schema.GroupVersionKind{Version: "v1", Kind: "Service"}

func serviceRef(key types.NamespacedName) hubstore.Ref {
	return hubstore.Ref{GroupVersionKind: serviceKind, Namespace: key.Namespace, Name: key.Name}
}

// reconciler reconciles one MultiClusterService at a time: the claim, the binding, the registrations with providers, the status.
// Slices have a loop of their own, in package dispatch.
type reconciler struct {
	client    client.Client
	templates Templates
	policies  hubclient.Policies
	clusters  endpointslices.Clusters
	events    events.Recorder
}

// Reconcile brings everything about one MultiClusterService up to date.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	mcs := &networkingv1alpha1.MultiClusterService{}
	err := r.client.Get(ctx, request.NamespacedName, mcs)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, r.withdraw(ctx, request.NamespacedName)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading the MultiClusterService: %w", err)
	case mcs.DeletionTimestamp != nil:
		if err := r.withdraw(ctx, request.NamespacedName); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, hubclient.RemoveFinalizer(ctx, r.client, mcs, networkingv1alpha1.MultiClusterServiceFinalizer)
	}
	if err := hubclient.AddFinalizer(ctx, r.client, mcs, networkingv1alpha1.MultiClusterServiceFinalizer); err != nil {
		return reconcile.Result{}, err
	}
	state, next, err := r.read(ctx, mcs)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.expose(ctx, &state); err != nil {
		r.events.Publish(events.Warning(events.Reference(mcsKind, mcs), events.SyncServiceFailed, err.Error()))
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: next}, r.setStatus(ctx, state)
}

// read reads everything that the result depends on. Next is when the next cluster that is not ready expires.
func (r *reconciler) read(ctx context.Context, mcs *networkingv1alpha1.MultiClusterService) (s serviceState, next time.Duration, err error) {
	s = serviceState{mcs: mcs, expired: map[string]string{}}
	registered, err := r.clusters.Registered(ctx)
	if err != nil {
		return s, 0, err
	}
	s.exposure, s.excess = exposure.Of(&mcs.Spec, endpointslices.Names(registered)), endpointslices.Excess(registered)
	for _, name := range s.exposure.All() {
		expired, left := r.clusters.Expired(registered, name)
		if expired {
			s.expired[name] = fmt.Sprintf("cluster %s has not been ready for more than %s", name, r.clusters.Grace())
		}
		if left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	if s.service, err = r.service(ctx, client.ObjectKeyFromObject(mcs)); err != nil {
		return s, 0, err
	}
	switch {
	case workv1alpha1.ReservedService(mcs.Namespace, mcs.Name):
		s.obstacle = networkingv1alpha1.ReservedServiceMessage(mcs.Namespace, mcs.Name)
	case s.service == nil:
		s.obstacle = fmt.Sprintf("Service %s/%s does not exist: create it", mcs.Namespace, mcs.Name)
	default:
		s.obstacle = mismatch(mcs.Spec.Ports, s.service)
	}
	if s.works, err = mcswork.ListOf(ctx, r.client, client.ObjectKeyFromObject(mcs)); err != nil {
		return s, 0, err
	}
	s.binding, err = r.binding(ctx, client.ObjectKeyFromObject(mcs))
	return s, next, err
}

// service reads the Service from the API server, so that its absence is certain: nil if there is none or it is being deleted.
func (r *reconciler) service(ctx context.Context, key types.NamespacedName) (*corev1.Service, error) {
	obj, err := r.templates.Get(ctx, serviceRef(key))
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	service := &corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, service); err != nil {
		return nil, fmt.Errorf("reading Service %s: %w", key, err)
	}
	if service.DeletionTimestamp != nil {
		return nil, nil
	}
	return service, nil
}

func (r *reconciler) binding(ctx context.Context, service types.NamespacedName) (*workv1alpha2.ResourceBinding, error) {
	binding := &workv1alpha2.ResourceBinding{}
	key := types.NamespacedName{Namespace: service.Namespace, Name: bindingName(service.Name)}
	err := r.client.Get(ctx, key, binding)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading binding %s: %w", key, err)
	}
	return binding, nil
}

// expose claims and binds the Service and registers the providers. With an obstacle, what is there stays and nothing is added. Without
// a Service nothing of it is needed anywhere; propagate deletes its binding. Of a reserved Service no endpoints are exchanged; copies
// that an earlier version made stay, since members may need them.
func (r *reconciler) expose(ctx context.Context, s *serviceState) error {
	if s.service == nil || workv1alpha1.ReservedService(s.mcs.Namespace, s.mcs.Name) {
		return hubclient.DeleteWorks(ctx, r.client, s.works...)
	}
	if s.obstacle != "" {
		return nil
	}
	if err := r.claim(ctx, s); err != nil {
		return err
	}
	if err := r.bind(ctx, s); err != nil {
		return err
	}
	return r.register(ctx, s)
}

func (r *reconciler) claim(ctx context.Context, s *serviceState) error {
	patch := claimPatch(s.service, s.mcs)
	if patch.Empty() {
		return nil
	}
	raw, err := patch.Bytes()
	if err != nil {
		return err
	}
	if err := r.forgetContent(ctx, s); err != nil {
		return err
	}
	holder, key := policyOn(s.service), client.ObjectKeyFromObject(s.mcs)
	obj, err := r.templates.PatchMetadata(ctx, serviceRef(key), raw)
	if err != nil {
		return err
	}
	if holder != "" {
		r.events.Publish(events.Normal(events.Reference(mcsKind, s.mcs), events.SyncServiceSucceed,
			fmt.Sprintf("Service %s is taken over from %s, which gets it back when this is gone", key, holder)))
	}
	s.service.ResourceVersion = obj.GetResourceVersion()
	s.service.Labels, s.service.Annotations = obj.GetLabels(), obj.GetAnnotations()
	return nil
}

// forgetContent makes the binding change with the claim: the Service may have been rendered without the claim, by which slices in
// members are found. It is written before the claim, so that a process that ends in between leaves something to do.
func (r *reconciler) forgetContent(ctx context.Context, s *serviceState) error {
	if s.binding == nil || !ours(s.binding) || s.binding.Annotations[networkingv1alpha1.ServiceContentAnnotation] == "" {
		return nil
	}
	binding := s.binding.DeepCopy()
	delete(binding.Annotations, networkingv1alpha1.ServiceContentAnnotation)
	if err := r.patch(ctx, s.binding, binding); err != nil {
		return err
	}
	s.binding = binding
	return nil
}

// bind writes the binding. One that is being deleted, or is that of another Service of the same name, has to be gone first; that it is
// gone is an event.
func (r *reconciler) bind(ctx context.Context, s *serviceState) error {
	if s.binding != nil {
		if s.binding.DeletionTimestamp != nil {
			return nil
		}
		if s.binding.Spec.Resource.UID != s.service.UID {
			return r.deleteBinding(ctx, s.binding)
		}
	}
	desired, err := bindingFor(s.mcs, s.service, s.exposure.All(), s.binding)
	if err != nil {
		return err
	}
	if s.binding != nil {
		return r.patch(ctx, s.binding, desired)
	}
	err = r.client.Create(ctx, desired)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // The cache lacks it yet; its event follows.
	case err != nil:
		return fmt.Errorf("creating binding %s: %w", client.ObjectKeyFromObject(desired), err)
	}
	s.binding = desired
	return nil
}

// register writes a registration with each provider, and deletes all other records.
func (r *reconciler) register(ctx context.Context, s *serviceState) error {
	key := client.ObjectKeyFromObject(s.mcs)
	var providers []string
	if len(s.exposure.Consumers) > 0 {
		providers = s.exposure.Providers
	}
	var failures []error
	for _, w := range s.works {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace)
		foreign := mcswork.IsRegistration(w) && client.ObjectKeyFromObject(w) != mcswork.RegistrationKey(cluster, key)
		if networkingv1alpha1.IsRecord(w) && (!slices.Contains(providers, cluster) || foreign) { // Dispatch deletes the others.
			failures = append(failures, hubclient.DeleteWorks(ctx, r.client, w))
		}
	}
	for _, provider := range providers {
		failures = append(failures, r.registerWith(ctx, s, mcswork.RegistrationKey(provider, key), provider))
	}
	return errors.Join(failures...)
}

// registerWith reads the registration by name: others may have removed the labels that the index reads.
func (r *reconciler) registerWith(ctx context.Context, s *serviceState, key types.NamespacedName, provider string) error {
	existing, err := hubclient.GetWork(ctx, r.client, key)
	if err != nil {
		return err
	}
	desired, err := mcswork.Registration(s.mcs, provider, existing, !s.hasSelector())
	if err != nil {
		return err
	}
	return endpointslices.Write(ctx, r.client, existing, desired)
}

func (r *reconciler) setStatus(ctx context.Context, s serviceState) error {
	updated := s.mcs.DeepCopy()
	updated.Status = s.status()
	if equality.Semantic.DeepEqual(updated.Status, s.mcs.Status) {
		return nil
	}
	if _, err := hubclient.PatchStatus(ctx, r.client, s.mcs, updated); client.IgnoreNotFound(err) != nil {
		return err
	}
	for _, event := range eventsOf(s, s.mcs.Status.Conditions, updated.Status.Conditions) {
		r.events.Publish(event)
	}
	return nil
}

// withdraw reverts everything done for a MultiClusterService that is deleted. A Service that a policy selects goes to the policy
// together with its binding, so that its copies stay; otherwise the copies go.
func (r *reconciler) withdraw(ctx context.Context, key types.NamespacedName) error {
	works, err := mcswork.ListOf(ctx, r.client, key)
	if err != nil {
		return err
	}
	if err := hubclient.DeleteWorks(ctx, r.client, works...); err != nil {
		return err
	}
	service, there := r.templates.Meta(serviceRef(key))
	binding, err := r.binding(ctx, key)
	if err != nil {
		return err
	}
	if binding != nil && ours(binding) && binding.DeletionTimestamp == nil {
		if err := r.handOver(ctx, binding, service); err != nil {
			return err
		}
	}
	if !there || !claimed(service) {
		return nil
	}
	raw, err := releasePatch(service).Bytes()
	if err != nil {
		return err
	}
	_, err = r.templates.PatchMetadata(ctx, serviceRef(key), raw)
	return client.IgnoreNotFound(err)
}

// handOver gives the binding of a Service to the policy that selects it, or deletes it if there is none.
func (r *reconciler) handOver(ctx context.Context, binding *workv1alpha2.ResourceBinding, service *metav1.PartialObjectMetadata) error {
	if service != nil && service.DeletionTimestamp == nil && service.UID == binding.Spec.Resource.UID {
		decision, err := r.policies.Choose(ctx, policy.Subject{
			GroupVersionKind: serviceKind, Namespace: service.Namespace, Name: service.Name, Labels: service.Labels,
		})
		if err != nil {
			return err
		}
		if decision.Winner != nil {
			return r.patch(ctx, binding, returned(binding))
		}
	}
	return r.deleteBinding(ctx, binding)
}

func (r *reconciler) deleteBinding(ctx context.Context, binding *workv1alpha2.ResourceBinding) error {
	err := r.client.Delete(ctx, binding.DeepCopy(), client.Preconditions{UID: new(binding.UID)},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting binding %s: %w", client.ObjectKeyFromObject(binding), err)
	}
	return nil
}

func (r *reconciler) patch(ctx context.Context, before, after *workv1alpha2.ResourceBinding) error {
	_, err := hubclient.Patch(ctx, r.client, before, after)
	return client.IgnoreNotFound(err)
}
