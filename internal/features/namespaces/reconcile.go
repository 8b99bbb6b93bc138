package namespaces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
)

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// indexNamespace finds the Works that carry namespaces.
const indexNamespace = "propagate.namespace"

var (
	// errNoExecutionSpace means that a cluster is too new to have Works.
	errNoExecutionSpace = errors.New("execution namespace does not exist yet")
	// errUnseen means that the cache does not show a Work yet, which may come from a request whose answer was lost.
	errUnseen = errors.New("the Work exists and is not in the cache yet")
)

// Namespace is the request of the namespace loop.
type Namespace string

func (n Namespace) ref() hubstore.Ref {
	return hubstore.NamespaceRef(string(n))
}

// reconciler keeps a Work for every namespace in every cluster.
type reconciler struct {
	client    client.Client
	templates Templates
	events    events.Recorder
	newID     func() string
}

// Reconcile brings the Works of one namespace up to date.
func (l *reconciler) Reconcile(ctx context.Context, name Namespace) (reconcile.Result, error) {
	meta, ok := l.templates.Meta(name.ref())
	if !ok {
		return reconcile.Result{}, l.collect(ctx, name)
	}
	if meta.DeletionTimestamp != nil || !travels(meta) {
		return reconcile.Result{}, nil
	}
	var clusters clusterv1alpha1.ClusterList
	if err := l.client.List(ctx, &clusters, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing clusters: %w", err)
	}
	policies, err := l.overrides(ctx, meta)
	if err != nil {
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	var failures []error
	for i := range clusters.Items {
		err := l.ensure(ctx, meta, &clusters.Items[i], policies)
		if errors.Is(err, errNoExecutionSpace) || errors.Is(err, errUnseen) {
			result.RequeueAfter = backoff.NotYet
			continue
		}
		failures = append(failures, err)
	}
	if err := errors.Join(failures...); err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// travels returns whether a namespace goes to the clusters. A label that stops it later leaves what is there: to remove a namespace
// would remove all it contains.
func travels(meta metav1.Object) bool {
	return meta.GetName() != metav1.NamespaceDefault && !hubstore.ReservedNamespace(meta.GetName()) &&
		!strings.EqualFold(meta.GetLabels()[policyv1alpha1.NamespaceSkipAutoPropagationLabel], "true")
}

// Carries returns whether a Work carries a namespace that goes to every cluster: it would be created again.
func Carries(ctx context.Context, templates hubstore.Reader, work *workv1alpha1.Work) (bool, error) {
	name := work.Annotations[workv1alpha1.CarriedNamespaceAnnotation]
	if name == "" || work.Name != workv1alpha1.WorkName(namespaceKind.Kind, "", name) {
		return false, nil
	}
	meta, err := hubstore.Present(ctx, templates, hubstore.NamespaceRef(name))
	return meta != nil && travels(meta), err
}

// collect deletes the Works of a namespace that is gone for certain.
func (l *reconciler) collect(ctx context.Context, name Namespace) error {
	works, err := hubclient.ListWorks(ctx, l.client, client.MatchingFields{indexNamespace: string(name)}, client.DisableReadYourWritesConsistency)
	if err != nil || len(works) == 0 {
		return err
	}
	if _, err := l.templates.Get(ctx, name.ref()); !apierrors.IsNotFound(err) {
		return err
	}
	return hubclient.DeleteWorks(ctx, l.client, works...)
}

// overrides lists the cluster-wide override policies about a namespace.
func (l *reconciler) overrides(ctx context.Context, meta metav1.Object) ([]policyv1alpha1.Override, error) {
	all, err := hubclient.Overrides(ctx, l.client, "")
	if err != nil {
		return nil, err
	}
	target := override.Target{APIVersion: "v1", Kind: namespaceKind.Kind, Name: meta.GetName(), Labels: meta.GetLabels()}
	var policies []policyv1alpha1.Override
	for _, policy := range all {
		if override.Selects(policy, target) != override.Unselected {
			policies = append(policies, policy)
		}
	}
	return policies, nil
}

// ensure writes the Work for one cluster if it is not as it should be. A Work that a binding has, because a policy selects the
// namespace, is only marked, so that the binding does not delete it.
func (l *reconciler) ensure(ctx context.Context, meta *metav1.PartialObjectMetadata, cluster *clusterv1alpha1.Cluster, policies []policyv1alpha1.Override) error {
	if cluster.DeletionTimestamp != nil {
		return nil
	}
	key := client.ObjectKey{
		Namespace: workv1alpha1.ExecutionNamespace(cluster.Name),
		Name:      workv1alpha1.WorkName(namespaceKind.Kind, "", meta.Name),
	}
	existing := &workv1alpha1.Work{}
	err := l.client.Get(ctx, key, existing)
	switch {
	case apierrors.IsNotFound(err):
		existing = nil
	case err != nil:
		return fmt.Errorf("reading Work %s: %w", key, err)
	case existing.DeletionTimestamp != nil:
		return hubclient.WithdrawRemoval(ctx, l.client, existing)
	}
	desired := workv1alpha1.NewWork(key, existing)
	desired.AddAnnotations(map[string]string{workv1alpha1.CarriedNamespaceAnnotation: meta.Name})
	if existing == nil || !workv1alpha2.IsBound(existing) {
		if err := l.compose(ctx, desired, meta, cluster, policies); err != nil {
			l.events.Publish(events.Warning(events.Reference(namespaceKind, meta), events.ApplyOverridePolicyFailed, err.Error()))
			return reconcile.TerminalError(err)
		}
	}
	if existing == nil {
		return l.create(ctx, desired)
	}
	_, err = hubclient.Patch(ctx, l.client, existing, desired)
	return client.IgnoreNotFound(err)
}

func (l *reconciler) create(ctx context.Context, work *workv1alpha1.Work) error {
	err := l.client.Create(ctx, work)
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return errUnseen
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return errNoExecutionSpace
	default:
		return fmt.Errorf("creating Work %s/%s: %w", work.Namespace, work.Name, err)
	}
}

// compose sets what the Work has to be. The manifest is labels and annotations, nothing more, so that a namespace which exists in the
// member is adopted without being changed otherwise.
func (l *reconciler) compose(ctx context.Context, work *workv1alpha1.Work, meta *metav1.PartialObjectMetadata, cluster *clusterv1alpha1.Cluster, policies []policyv1alpha1.Override) error {
	manifest := &unstructured.Unstructured{Object: map[string]any{}}
	manifest.SetGroupVersionKind(namespaceKind)
	manifest.SetName(meta.Name)
	manifest.SetLabels(carried(meta.Labels, "kubernetes.io/metadata.name"))
	manifest.SetAnnotations(carried(meta.Annotations, "kubectl.kubernetes.io/last-applied-configuration"))
	edited, err := override.Apply(ctx, manifest, cluster, policies)
	if err != nil {
		return err
	}
	work.SetPermanentID(l.newID)
	overwrite := map[string]string{workv1alpha1.ConflictResolutionAnnotation: workv1alpha1.ConflictResolutionOverwrite}
	work.Stamp(edited.Object, meta, nil, overwrite)
	raw, err := json.Marshal(edited.Object.Object)
	if err != nil {
		return fmt.Errorf("encoding namespace %s: %w", meta.Name, err)
	}
	work.SetManifest(raw)
	work.AddAnnotations(overwrite)
	delete(work.Annotations, workv1alpha1.AppliedClusterOverridesAnnotation)
	if len(edited.Cluster) > 0 {
		applied, err := json.Marshal(edited.Cluster)
		if err != nil {
			return fmt.Errorf("encoding applied overrides: %w", err)
		}
		work.Annotations[workv1alpha1.AppliedClusterOverridesAnnotation] = string(applied)
	}
	return nil
}

// carried is a copy of labels or annotations without ownership keys and the other keys that stay here.
func carried(all map[string]string, without ...string) map[string]string {
	result := maps.Clone(all)
	maps.DeleteFunc(result, func(key, _ string) bool {
		return workv1alpha1.IsOwnershipKey(key) || slices.Contains(without, key)
	})
	return result
}
