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
)

// Templates is the hub shore as this room uses it; *template.Store is one.
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

// exposer reconciles one MultiClusterService at a time: the claim, the binding, the registrations with providers, the
// status. Slices have a loop of their own.
type exposer struct {
	client    client.Client
	templates Templates
	// selected says whether a policy takes a Service that nobody else has.
	selected func(context.Context, hubstore.Ref, metav1.Object) (bool, error)
	fleet    endpointslices.Clusters
	events   events.Recorder
}

// Reconcile brings everything about one MultiClusterService up to date.
func (e *exposer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	mcs := &networkingv1alpha1.MultiClusterService{}
	err := e.client.Get(ctx, request.NamespacedName, mcs)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, e.withdraw(ctx, request.NamespacedName)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading the MultiClusterService: %w", err)
	case mcs.DeletionTimestamp != nil:
		if err := e.withdraw(ctx, request.NamespacedName); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, hubclient.RemoveFinalizer(ctx, e.client, mcs, networkingv1alpha1.MultiClusterServiceFinalizer)
	}
	if err := hubclient.AddFinalizer(ctx, e.client, mcs, networkingv1alpha1.MultiClusterServiceFinalizer); err != nil {
		return reconcile.Result{}, err
	}
	p, err := e.look(ctx, mcs)
	if err != nil {
		return reconcile.Result{}, err
	}
	err = e.act(ctx, &p)
	result := reconcile.Result{}
	if errors.Is(err, endpointslices.ErrNoExecutionNamespace) {
		result.RequeueAfter, err = endpointslices.RetryDelay, nil
	}
	if err != nil {
		e.events.Publish(events.Warning(events.Reference(mcsKind, mcs), events.SyncServiceFailed, err.Error()))
		return reconcile.Result{}, err
	}
	var next time.Duration
	p.away, next = e.fleet.Away(ctx, p.exposure.All())
	p.pulled = e.fleet.Pulled(ctx, p.exposure.Providers)
	if next > 0 && (result.RequeueAfter == 0 || next < result.RequeueAfter) {
		result.RequeueAfter = next
	}
	return result, e.tell(ctx, p)
}

// look gathers what there is.
func (e *exposer) look(ctx context.Context, mcs *networkingv1alpha1.MultiClusterService) (serviceState, error) {
	p := serviceState{mcs: mcs}
	registered, err := e.fleet.Registered(ctx)
	if err != nil {
		return p, err
	}
	p.exposure = exposure.Of(&mcs.Spec, registered)
	if p.service, err = e.service(ctx, client.ObjectKeyFromObject(mcs)); err != nil {
		return p, err
	}
	switch {
	case p.service == nil:
		p.obstacle = fmt.Sprintf("Service %s/%s does not exist: create it", mcs.Namespace, mcs.Name)
	default:
		p.obstacle = mismatch(mcs.Spec.Ports, p.service)
	}
	if p.works, err = mcswork.ListOf(ctx, e.client, client.ObjectKeyFromObject(mcs)); err != nil {
		return p, err
	}
	p.binding, err = e.binding(ctx, client.ObjectKeyFromObject(mcs))
	return p, err
}

// service reads the Service from the API server, so that its absence is certain: nil if there is none or it is going.
func (e *exposer) service(ctx context.Context, key types.NamespacedName) (*corev1.Service, error) {
	obj, err := e.templates.Get(ctx, serviceRef(key))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
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

func (e *exposer) binding(ctx context.Context, service types.NamespacedName) (*workv1alpha2.ResourceBinding, error) {
	binding := &workv1alpha2.ResourceBinding{}
	key := types.NamespacedName{Namespace: service.Namespace, Name: bindingName(service.Name)}
	err := e.client.Get(ctx, key, binding)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading binding %s: %w", key, err)
	}
	return binding, nil
}

// act does what there is to do. With an obstacle, what is there stays and nothing is added; without a Service nothing of
// it is wanted anywhere, and its binding is the template room's to delete.
func (e *exposer) act(ctx context.Context, p *serviceState) error {
	if p.service == nil {
		return endpointslices.DeleteAll(ctx, e.client, p.works)
	}
	if p.obstacle != "" {
		return nil
	}
	if err := e.claim(ctx, p); err != nil {
		return err
	}
	if err := e.bind(ctx, p); err != nil {
		return err
	}
	return e.register(ctx, p)
}

func (e *exposer) claim(ctx context.Context, p *serviceState) error {
	patch := claimPatch(p.service, p.mcs)
	if patch.Empty() {
		return nil
	}
	raw, err := patch.Bytes()
	if err != nil {
		return err
	}
	if err := e.doubt(ctx, p); err != nil {
		return err
	}
	holder := policyOn(p.service)
	obj, err := e.templates.PatchMetadata(ctx, serviceRef(client.ObjectKeyFromObject(p.mcs)), raw)
	if err != nil {
		return err
	}
	if holder != "" {
		e.events.Publish(events.Normal(events.Reference(mcsKind, p.mcs), events.SyncServiceSucceed,
			fmt.Sprintf("Service %s is taken over from %s, which gets it back when this is gone", client.ObjectKeyFromObject(p.mcs), holder)))
	}
	p.service.ResourceVersion = obj.GetResourceVersion()
	p.service.Labels, p.service.Annotations = obj.GetLabels(), obj.GetAnnotations()
	return nil
}

// doubt has a binding of ours, if there is one, made anew from the Service: somebody may have rendered it without the claim, by
// which members' slices are found. It is noted before the claim is back, so that a kill in between leaves something to do.
func (e *exposer) doubt(ctx context.Context, p *serviceState) error {
	if p.binding == nil || !ours(p.binding) || p.binding.Annotations[networkingv1alpha1.ServiceContentAnnotation] == "" {
		return nil
	}
	doubted := p.binding.DeepCopy()
	delete(doubted.Annotations, networkingv1alpha1.ServiceContentAnnotation)
	if err := e.patch(ctx, p.binding, doubted); err != nil {
		return err
	}
	p.binding = doubted
	return nil
}

// bind writes the binding. One that is going, or is another Service's of the same name, has to be gone first; its end is
// an event.
func (e *exposer) bind(ctx context.Context, p *serviceState) error {
	if p.binding != nil {
		if p.binding.DeletionTimestamp != nil {
			return nil
		}
		if p.binding.Spec.Resource.UID != p.service.UID {
			return e.deleteBinding(ctx, p.binding)
		}
	}
	desired, err := bindingFor(p.mcs, p.service, p.exposure.All(), p.binding)
	if err != nil {
		return err
	}
	if p.binding == nil {
		err := e.client.Create(ctx, desired)
		if apierrors.IsAlreadyExists(err) {
			return nil // the cache is a moment behind; its event follows
		}
		if err != nil {
			return fmt.Errorf("creating binding %s: %w", client.ObjectKeyFromObject(desired), err)
		}
		p.binding = desired
		return nil
	}
	return e.patch(ctx, p.binding, desired)
}

// register has every provider's slices collected, and nobody else's.
func (e *exposer) register(ctx context.Context, p *serviceState) error {
	existing, name := map[string]*workv1alpha1.Work{}, mcswork.RegistrationName(client.ObjectKeyFromObject(p.mcs))
	var surplus []*workv1alpha1.Work
	for _, w := range p.works {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace)
		provides := slices.Contains(p.exposure.Providers, cluster) && len(p.exposure.Consumers) > 0
		switch {
		case !networkingv1alpha1.IsRecord(w): // dispatch looks after those
		case !provides:
			surplus = append(surplus, w)
		case mcswork.IsRegistration(w) && w.Name == name:
			existing[cluster] = w
		case mcswork.IsRegistration(w):
			surplus = append(surplus, w)
		}
	}
	failures := []error{endpointslices.DeleteAll(ctx, e.client, surplus)}
	if len(p.exposure.Consumers) > 0 {
		for _, provider := range p.exposure.Providers {
			failures = append(failures, e.addFinalizer(ctx, p, provider, existing[provider]))
		}
	}
	return errors.Join(failures...)
}

// enlist writes the registration with one provider. One that somebody took the owner's name off is not among the owner's.
func (e *exposer) addFinalizer(ctx context.Context, p *serviceState, provider string, existing *workv1alpha1.Work) error {
	if existing == nil {
		var err error
		key := types.NamespacedName{Namespace: workv1alpha1.ExecutionNamespace(provider), Name: mcswork.RegistrationName(client.ObjectKeyFromObject(p.mcs))}
		if existing, err = endpointslices.GetWork(ctx, e.client, key); err != nil {
			return err
		}
	}
	desired, err := mcswork.Registration(p.mcs, provider, existing, !p.hasSelector())
	if err != nil {
		return err
	}
	return endpointslices.Write(ctx, e.client, existing, desired)
}

// tell writes the status if it is another.
func (e *exposer) tell(ctx context.Context, p serviceState) error {
	status := p.status()
	if equality.Semantic.DeepEqual(status, p.mcs.Status) {
		return nil
	}
	updated := p.mcs.DeepCopy()
	updated.Status = status
	if _, err := hubclient.PatchStatus(ctx, e.client, p.mcs, updated); client.IgnoreNotFound(err) != nil {
		return err
	}
	for _, n := range news(p, p.mcs.Status.Conditions, status.Conditions) {
		e.events.Publish(n)
	}
	return nil
}

// withdraw takes back everything done for a MultiClusterService that goes or is gone. A Service that a policy selects goes to
// it together with its binding, so that its copies stay; else the copies go.
func (e *exposer) withdraw(ctx context.Context, key types.NamespacedName) error {
	works, err := mcswork.ListOf(ctx, e.client, key)
	if err != nil {
		return err
	}
	if err := endpointslices.DeleteAll(ctx, e.client, works); err != nil {
		return err
	}
	meta, there := e.templates.Meta(serviceRef(key))
	binding, err := e.binding(ctx, key)
	if err != nil {
		return err
	}
	if binding != nil && ours(binding) && binding.DeletionTimestamp == nil {
		if err := e.handOver(ctx, key, binding, meta, there); err != nil {
			return err
		}
	}
	if !there || !claimed(meta) {
		return nil
	}
	raw, err := releasePatch(meta).Bytes()
	if err != nil {
		return err
	}
	_, err = e.templates.PatchMetadata(ctx, serviceRef(key), raw)
	return client.IgnoreNotFound(err)
}

// handOver gives the binding of a Service to the policy that selects it, or deletes it if there is none.
func (e *exposer) handOver(ctx context.Context, key types.NamespacedName, binding *workv1alpha2.ResourceBinding, service *metav1.PartialObjectMetadata, there bool) error {
	selected := false
	if there && service.DeletionTimestamp == nil && service.UID == binding.Spec.Resource.UID {
		var err error
		if selected, err = e.selected(ctx, serviceRef(key), service); err != nil {
			return err
		}
	}
	if selected {
		return e.patch(ctx, binding, returned(binding))
	}
	return e.deleteBinding(ctx, binding)
}

func (e *exposer) deleteBinding(ctx context.Context, binding *workv1alpha2.ResourceBinding) error {
	err := e.client.Delete(ctx, binding.DeepCopy(), client.Preconditions{UID: new(binding.UID)},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting binding %s: %w", client.ObjectKeyFromObject(binding), err)
	}
	return nil
}

// patch sends what differs; nothing if nothing does.
func (e *exposer) patch(ctx context.Context, before, after *workv1alpha2.ResourceBinding) error {
	_, err := hubclient.Patch(ctx, e.client, before, after)
	return client.IgnoreNotFound(err)
}
