package contents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

const (
	// pageSize bounds one answer of a list of metadata.
	pageSize = 500
	// atOnce bounds how many kinds are listed at a time: a namespace is deleted soon after its list begins.
	atOnce = 8
	// Enough objects of others have been found when there are more: the rest of the namespace is not listed.
	Enough = 3
)

// Contents is what a namespace in a member holds.
type Contents struct {
	// Others are objects that this control plane did not make, has preserved, or still applies.
	Others []string
	// Pending are Works with objects in the namespace that are being deleted.
	Pending []types.NamespacedName
	// Unknown are kinds that could not be listed.
	Unknown []string
}

// clusterObjects are the objects that every namespace of a cluster has, made by the cluster itself. A name that ends with "*" is
// a prefix.
var clusterObjects = map[schema.GroupKind][]string{
	{Kind: "ConfigMap"}:      {"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"},
	{Kind: "ServiceAccount"}: {"default", "builder", "deployer"},
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:  {"system:*"},
	{Group: "authorization.openshift.io", Kind: "RoleBinding"}: {"system:*"},
	// What happened, and who leads: both mean nothing without the objects that they are about.
	{Kind: "Event"}:                               {"*"},
	{Group: "events.k8s.io", Kind: "Event"}:       {"*"},
	{Group: "coordination.k8s.io", Kind: "Lease"}: {"*"},
}

func isClusterObject(kind schema.GroupKind, obj metav1.Object) bool {
	for _, name := range clusterObjects[kind] {
		if prefix, isPrefix := strings.CutSuffix(name, "*"); name == obj.GetName() || isPrefix && strings.HasPrefix(obj.GetName(), prefix) {
			return true
		}
	}
	annotations := obj.GetAnnotations()
	switch kind {
	case schema.GroupKind{Kind: "Endpoints"}: // of a Service, whose controller removes them with it
		_, derived := annotations["endpoints.kubernetes.io/last-change-trigger-time"]
		return derived || obj.GetLabels()["endpoints.kubernetes.io/managed-by"] == "endpoint-controller"
	case schema.GroupKind{Kind: "Secret"}: // the token of a default account, which older clusters make by themselves
		account := annotations["kubernetes.io/service-account.name"]
		return slices.Contains(clusterObjects[schema.GroupKind{Kind: "ServiceAccount"}], account) &&
			(strings.HasPrefix(obj.GetName(), account+"-token-") || strings.HasPrefix(obj.GetName(), account+"-dockercfg-"))
	}
	return false
}

// namespaceContents counts what a namespace holds.
type namespaceContents struct {
	hub        client.Reader
	conn       *member.Conn
	namespace  string
	namespaced sets.Set[schema.GroupKind]

	mu    sync.Mutex
	found Contents
	err   error // the member cannot be reached
}

// Of lists everything in a namespace of a member, by metadata alone. It takes as many requests as the member has
// namespaced kinds, about half of what the member itself takes to delete the namespace.
func Of(ctx context.Context, hub client.Reader, conn *member.Conn, namespace string) (Contents, error) {
	c := &namespaceContents{hub: hub, conn: conn, namespace: namespace, namespaced: sets.New[schema.GroupKind]()}
	lists, err := conn.NamespacedKinds(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &partial):
		for group := range partial.Groups {
			c.found.Unknown = append(c.found.Unknown, group.String())
		}
	case unavailable(err):
		return Contents{}, err
	case err != nil:
		c.found.Unknown = append(c.found.Unknown, "all kinds: "+err.Error())
	}
	kinds := kindsToList(lists)
	for _, k := range kinds {
		c.namespaced.Insert(k.kind)
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, k := range kinds {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := controlloop.CatchPanic(func() error { c.count(ctx, k); return nil }); err != nil {
				c.fail(k, err)
			}
		})
	}
	group.Wait()
	slices.Sort(c.found.Others)
	slices.Sort(c.found.Unknown)
	c.found.Unknown = slices.Compact(c.found.Unknown)
	return c.found, c.err
}

// listable is a kind of which objects can be listed and deleted.
type listable struct {
	resource schema.GroupVersionResource
	kind     schema.GroupKind
}

// kindsToList leaves out subresources and kinds whose objects cannot be deleted: these are views of other objects.
func kindsToList(lists []*metav1.APIResourceList) []listable {
	var kinds []listable
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no API server serves such a version
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			kinds = append(kinds, listable{version.WithResource(r.Name), schema.GroupKind{Group: version.Group, Kind: r.Kind}})
		}
	}
	return kinds
}

// count adds the objects of one kind.
func (c *namespaceContents) count(ctx context.Context, k listable) {
	if slices.Contains(clusterObjects[k.kind], "*") {
		return
	}
	options := metav1.ListOptions{Limit: pageSize}
	for pages := (bounds.Pages{}); ; {
		if c.done() {
			return
		}
		page, err := c.conn.Metadata().Resource(k.resource).Namespace(c.namespace).List(ctx, options)
		switch {
		case err == nil:
		case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
			return // not served, or not any more
		default:
			c.fail(k, err)
			return
		}
		for i := range page.Items {
			c.add(ctx, k, &page.Items[i])
		}
		if err := pages.Next(len(page.Items), page.Continue); err != nil {
			c.fail(k, err)
			return
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return
		}
	}
}

// done returns whether enough is known.
func (c *namespaceContents) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil || len(c.found.Others) > Enough
}

func (c *namespaceContents) fail(k listable, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if unavailable(err) {
		c.err = err
		return
	}
	why := string(apierrors.ReasonForError(err))
	if why == "" {
		why = http.StatusText(http.StatusInternalServerError)
	}
	c.found.Unknown = append(c.found.Unknown, k.resource.GroupResource().String()+" ("+why+")")
}

// add counts one object, unless it is deleted with the namespace or before it.
func (c *namespaceContents) add(ctx context.Context, k listable, obj *metav1.PartialObjectMetadata) {
	if obj.DeletionTimestamp != nil || isClusterObject(k.kind, obj) || c.goesWithItsOwner(obj) {
		return
	}
	work, ours := c.workOf(obj)
	leaving := false
	if ours {
		var gone bool
		var err error
		if gone, leaving, err = c.lookAt(ctx, k, obj.Name, work); err != nil {
			c.fail(k, err) // it may be leaving: to count it would spare the namespace for good
			return
		}
		if gone {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if leaving {
		c.found.Pending = append(c.found.Pending, work)
		return
	}
	c.found.Others = append(c.found.Others, k.kind.Kind+" "+obj.Name)
}

// AnyLeft returns whether one of some Works is there. One that cannot be read counts as there.
func AnyLeft(ctx context.Context, hub client.Reader, works []types.NamespacedName) bool {
	return slices.ContainsFunc(works, func(key types.NamespacedName) bool {
		return !apierrors.IsNotFound(hub.Get(ctx, key, &workv1alpha1.Work{}))
	})
}

// lookAt returns whether an object of a Work was deleted, and its Work with it, since it was listed, and whether it will be.
func (c *namespaceContents) lookAt(ctx context.Context, k listable, name string, work types.NamespacedName) (gone, leaving bool, err error) {
	found := &workv1alpha1.Work{}
	switch err = c.hub.Get(ctx, work, found); {
	case apierrors.IsNotFound(err):
		gone, err = c.isGone(ctx, k, name)
	case err != nil:
		err = fmt.Errorf("reading Work %s: %w", work, err)
	case found.DeletionTimestamp != nil:
		leaving = true
	default:
		leaving, err = c.deletesAll(ctx)
	}
	return gone, leaving, err
}

// deletesAll returns whether the Cluster is being deleted with the objects that were applied there: each Work will be deleted, though not
// all of them are yet.
func (c *namespaceContents) deletesAll(ctx context.Context) (bool, error) {
	cluster := &clusterv1alpha1.Cluster{}
	if err := c.hub.Get(ctx, types.NamespacedName{Name: c.conn.Name()}, cluster); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Cluster %s: %w", c.conn.Name(), err)
	}
	return cluster.DeletionTimestamp != nil && clusterv1alpha1.DeletesObjects(cluster), nil
}

// isGone returns whether the member no longer has an object that was listed, or is deleting it.
func (c *namespaceContents) isGone(ctx context.Context, k listable, name string) (bool, error) {
	obj, err := c.conn.Metadata().Resource(k.resource).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && obj.DeletionTimestamp != nil, err
}

// goesWithItsOwner returns whether an object has an owner in the namespace: that one is counted, or is gone, and the garbage
// collector is on its way.
func (c *namespaceContents) goesWithItsOwner(obj *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(obj.OwnerReferences, func(o metav1.OwnerReference) bool {
		version, err := schema.ParseGroupVersion(o.APIVersion)
		return err == nil && c.namespaced.Has(schema.GroupKind{Group: version.Group, Kind: o.Kind})
	})
}

// workOf returns the Work that an object of this control plane belongs to.
func (c *namespaceContents) workOf(obj *metav1.PartialObjectMetadata) (types.NamespacedName, bool) {
	work := types.NamespacedName{Namespace: obj.Annotations[workv1alpha1.WorkNamespaceAnnotation], Name: obj.Annotations[workv1alpha1.WorkNameAnnotation]}
	ours := obj.Labels[workv1alpha1.ManagedLabel] == workv1alpha1.ManagedLabelValue && c.conn.ControlPlane().Other(obj) == ""
	return work, ours && work.Namespace == workv1alpha1.ExecutionNamespace(c.conn.Name())
}

// unavailable returns whether the member could not be reached.
func unavailable(err error) bool {
	_, is := errors.AsType[*member.UnavailableError](err)
	return is
}
