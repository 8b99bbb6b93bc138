package clusterstatus

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus/summary"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// resourceWatch watches the nodes, pods and devices of one member.
type resourceWatch struct {
	group     *memberwatch.Group
	resources *summary.Resources
	refused   *refusals
	devices   *deviceWatch
	accounts  *bounds.Accounts
}

// watchResources starts the watches of a member. They end with ctx, or when the group is closed, and wait while the member is
// unavailable.
func watchResources(ctx context.Context, conn *member.Conn, changed func()) *resourceWatch {
	w := &resourceWatch{group: memberwatch.NewGroup(ctx), refused: &refusals{changed: changed}, accounts: conn.Accounts()}
	w.resources = summary.NewResources(func(resource string, listed bool) {
		if listed {
			w.refused.note(resource, nil)
		}
		changed()
	})
	w.devices = newDeviceWatch(w.group, conn, changed)
	watched := func(resource string) memberwatch.Source {
		return noting(w.refused, resource, conn.Patient().Typed(corev1.SchemeGroupVersion.WithResource(resource), metav1.NamespaceAll))
	}
	quotas := conn.Patient().Typed(corev1.SchemeGroupVersion.WithResource("resourcequotas"), metav1.NamespaceAll)
	conn.Accounts().OnChange(changed)
	w.group.Follow(nodes, watched(nodes).Within(bounds.Nodes), w.resources.Nodes)
	w.group.Follow(pods, livePods(watched(pods).WithinMost(bounds.Pods, w.resources.PodBound)), w.resources.Pods)
	w.group.Follow("resourcequotas", quotas.Within(bounds.Quotas), w.resources.Quotas) // without the right to read them, they bound nothing
	return w
}

// nodes and pods are the names of the watches without which there is no summary.
const nodes, pods = "nodes", "pods"

// writeTo fills in what is known of nodes and resources; before the first full list everything stays as it was. What the
// control plane may not read is absent, and a condition reports it, and so what the member sends too much of.
func (w *resourceWatch) writeTo(status *clusterv1alpha1.ClusterStatus, models []clusterv1alpha1.ResourceModel) {
	reasons, excess := w.refused.list(), w.accounts.Excess()
	_, tooManyNodes := excess[nodes]
	_, tooManyPods := excess[pods]
	uncounted := len(reasons) > 0 || tooManyNodes || tooManyPods
	if uncounted {
		status.NodeSummary, status.ResourceSummary = nil, nil
	} else if nodes, resources := w.resources.Summary(models); nodes != nil {
		w.devices.writeTo(resources, status.ResourceSummary)
		if err := checkNames(resources); err != nil {
			excess = map[string]string{"": err.Error()}
			nodes, resources = nil, nil
		}
		status.NodeSummary, status.ResourceSummary = nodes, resources
	}
	texts := strings.Join(append(reasons, bounds.Texts(excess)...), "; ")
	switch {
	case len(excess) > 0:
		meta.SetStatusCondition(&status.Conditions, clusterv1alpha1.ResourcesNotCounted(texts))
	case len(reasons) > 0:
		meta.SetStatusCondition(&status.Conditions, clusterv1alpha1.ResourcesNotReadable(texts))
	default:
		meta.RemoveStatusCondition(&status.Conditions, clusterv1alpha1.ClusterConditionResourcesReadable)
	}
}

// checkNames returns an error for a summary with more resources than the status of a Cluster has.
func checkNames(resources *clusterv1alpha1.ResourceSummary) error {
	var names bounds.Amount
	for _, list := range []corev1.ResourceList{resources.Allocatable, resources.Allocated, resources.Allocating} {
		names.Objects = max(names.Objects, int64(len(list)))
		for name := range list {
			names.Bytes += int64(len(name))
		}
	}
	return bounds.ResourceNames.Check(names)
}

// refusals are the resources that the member does not let the control plane list, and why.
type refusals struct {
	changed func()

	mu      sync.Mutex
	reasons map[string]error
}

// note records how a request for a resource ended.
func (r *refusals) note(resource string, err error) {
	if err != nil && !apierrors.IsForbidden(err) {
		return // no evidence about rights
	}
	r.mu.Lock()
	_, before := r.reasons[resource]
	switch {
	case err == nil:
		delete(r.reasons, resource)
	case r.reasons == nil:
		r.reasons = map[string]error{resource: err}
	default:
		r.reasons[resource] = err
	}
	r.mu.Unlock()
	if before != (err != nil) {
		r.changed()
	}
}

// list returns the reasons.
func (r *refusals) list() (reasons []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.reasons {
		reasons = append(reasons, err.Error())
	}
	slices.Sort(reasons)
	return reasons
}

// noting records in refusals why lists of a resource fail.
func noting(refused *refusals, resource string, source memberwatch.Source) memberwatch.Source {
	list := source.List
	source.List = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		objects, err := list(ctx, o)
		if err != nil {
			refused.note(resource, err) // the store shows when a list is complete
		}
		return objects, err
	}
	return source
}

// livePods leaves out pods that have finished: they take nothing.
func livePods(source memberwatch.Source) memberwatch.Source {
	return memberwatch.Selecting(source, func(o *metav1.ListOptions) { o.FieldSelector = "status.phase!=Succeeded,status.phase!=Failed" })
}
