package clusterstatus

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus/summary"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// watchHandlers are called when something changed.
type watchHandlers struct{ summary, kinds func() }

// resourceWatch watches the nodes, pods, devices and definitions of one member.
type resourceWatch struct {
	group     *memberwatch.Group
	resources *summary.Resources
	refused   *refusals
	devices   *deviceWatch
}

// watchResources starts the watches of a member. They end with ctx, or when the group is closed, and wait while the member is
// unavailable.
func watchResources(ctx context.Context, conn *member.Conn, changed watchHandlers) *resourceWatch {
	w := &resourceWatch{group: memberwatch.NewGroup(ctx), refused: &refusals{changed: changed.summary}}
	w.resources = summary.NewResources(func(resource string, listed bool) {
		if listed {
			w.refused.note(resource, nil)
		}
		changed.summary()
	})
	core, heads := conn.Patient().Kube.CoreV1(), conn.Patient().Metadata
	w.devices = newDeviceWatch(w.group, conn.Patient().Kube, heads, changed.summary)
	nodes, pods, defined := core.Nodes(), core.Pods(""), heads.Resource(definitions)
	w.group.Follow("nodes", noting(w.refused, "nodes", memberwatch.ListWatch(nodes.List, nodes.Watch)), &corev1.Node{}, w.resources.Nodes)
	w.group.Follow("pods", noting(w.refused, "pods", livePods(memberwatch.ListWatch(pods.List, pods.Watch))), &corev1.Pod{}, w.resources.Pods)
	w.group.Follow("definitions", memberwatch.ListWatch(defined.List, defined.Watch), &metav1.PartialObjectMetadata{}, &memberwatch.Store[string]{
		Keep: memberwatch.Of(func(object *metav1.PartialObjectMetadata) (string, bool, error) {
			return object.ResourceVersion, true, nil
		}),
		News: func(bool) { changed.kinds() },
	})
	return w
}

// writeTo fills in what is known of nodes and resources; before the first full list everything stays as it was. What the
// control plane may not read is absent, and a condition says so.
func (w *resourceWatch) writeTo(status *clusterv1alpha1.ClusterStatus, models []clusterv1alpha1.ResourceModel) {
	if reasons := w.refused.list(); len(reasons) > 0 {
		status.NodeSummary, status.ResourceSummary = nil, nil
		meta.SetStatusCondition(&status.Conditions, clusterv1alpha1.ResourcesNotReadable(strings.Join(reasons, "; ")))
		return
	}
	meta.RemoveStatusCondition(&status.Conditions, clusterv1alpha1.ClusterConditionResourcesReadable)
	nodes, resources := w.resources.Summary(models)
	if nodes != nil {
		w.devices.writeTo(resources, status.ResourceSummary)
		status.NodeSummary, status.ResourceSummary = nodes, resources
	}
}

// refusals are the resources that the member does not let the control plane list, and why.
type refusals struct {
	changed func()

	mu      sync.Mutex
	reasons map[string]string
}

// note records how a request for a resource ended.
func (r *refusals) note(resource string, err error) {
	if err != nil && !apierrors.IsForbidden(err) {
		return // says nothing about rights
	}
	r.mu.Lock()
	_, before := r.reasons[resource]
	switch {
	case err == nil:
		delete(r.reasons, resource)
	case r.reasons == nil:
		r.reasons = map[string]string{resource: err.Error()}
	default:
		r.reasons[resource] = err.Error()
	}
	r.mu.Unlock()
	if before != (err != nil) {
		r.changed()
	}
}

func (r *refusals) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Values(r.reasons))
}

// noting records in refusals how lists of a resource end.
func noting(refused *refusals, resource string, lw *cache.ListWatch) cache.ListerWatcher {
	list := lw.ListWithContextFunc
	lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		objects, err := list(ctx, o)
		refused.note(resource, err)
		return objects, err
	}
	return lw
}

// livePods leaves out pods that have finished: they take nothing.
func livePods(lw *cache.ListWatch) *cache.ListWatch {
	return memberwatch.Selecting(lw, func(o *metav1.ListOptions) { o.FieldSelector = "status.phase!=Succeeded,status.phase!=Failed" })
}
