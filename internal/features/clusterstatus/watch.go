package clusterstatus

import (
	"context"
	"errors"
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
)

// resourceWatch watches the nodes, pods and devices of one member.
type resourceWatch struct {
	group     *memberwatch.Group
	resources *summary.Resources
	refused   *refusals
	devices   *deviceWatch
}

// watchResources starts the watches of a member. They end with ctx, or when the group is closed, and wait while the member is
// unavailable.
func watchResources(ctx context.Context, conn *member.Conn, changed func()) *resourceWatch {
	w := &resourceWatch{group: memberwatch.NewGroup(ctx), refused: &refusals{changed: changed}}
	w.resources = summary.NewResources(func(resource string, listed bool) {
		if listed {
			w.refused.note(resource, nil)
		}
		changed()
	})
	w.devices = newDeviceWatch(w.group, conn, changed)
	watched := func(resource string, most int64, reduce func(runtime.Object)) memberwatch.Source {
		source := conn.Patient().Typed(corev1.SchemeGroupVersion.WithResource(resource), metav1.NamespaceAll)
		return noting(w.refused, resource, bounded(source, resource, most, reduce, func(err error) { w.refused.note(resource, err) }))
	}
	w.group.Follow("nodes", watched("nodes", maxNodes, reduceNode), w.resources.Nodes)
	w.group.Follow("pods", livePods(watched("pods", maxPods, reducePod)), w.resources.Pods)
	return w
}

// writeTo fills in what is known of nodes and resources; before the first full list everything stays as it was. What the
// control plane may not read is absent, and a condition reports it.
func (w *resourceWatch) writeTo(status *clusterv1alpha1.ClusterStatus, models []clusterv1alpha1.ResourceModel) {
	if reasons, tooMany := w.refused.list(); len(reasons) > 0 {
		status.NodeSummary, status.ResourceSummary = nil, nil
		condition := clusterv1alpha1.ResourcesNotReadable(strings.Join(reasons, "; "))
		if tooMany {
			condition = clusterv1alpha1.ResourcesNotCounted(strings.Join(reasons, "; "))
		}
		meta.SetStatusCondition(&status.Conditions, condition)
		return
	}
	meta.RemoveStatusCondition(&status.Conditions, clusterv1alpha1.ClusterConditionResourcesReadable)
	nodes, resources := w.resources.Summary(models)
	if nodes != nil {
		w.devices.writeTo(resources, status.ResourceSummary)
		status.NodeSummary, status.ResourceSummary = nodes, resources
	}
}

// refusals are the resources that the member does not let the control plane list, or has too many of, and why.
type refusals struct {
	changed func()

	mu      sync.Mutex
	reasons map[string]error
}

// note records how a request for a resource ended.
func (r *refusals) note(resource string, err error) {
	if err != nil && !apierrors.IsForbidden(err) && !errors.Is(err, errTooMany) {
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

// list returns the reasons, and whether one is that there is too much.
func (r *refusals) list() (reasons []string, tooMany bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.reasons {
		reasons = append(reasons, err.Error())
		tooMany = tooMany || errors.Is(err, errTooMany)
	}
	slices.Sort(reasons)
	return reasons, tooMany
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
