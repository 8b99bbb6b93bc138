package usage

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/clock"
)

// window is the time to which a value is said to belong. The autoscaler skips a pod that became ready less than this ago.
const window = time.Second

// selectors are those of a list; objects have no fields but their name and namespace.
func selectors(o *internalversion.ListOptions) (labels.Selector, fields.Selector) {
	byLabel, byField := labels.Everything(), fields.Everything()
	if o != nil && o.LabelSelector != nil {
		byLabel = o.LabelSelector
	}
	if o != nil && o.FieldSelector != nil {
		byField = o.FieldSelector
	}
	return byLabel, byField
}

// metaOf is that of metrics, which are made when they are read.
func metaOf(from metav1.ObjectMeta, now metav1.Time) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: from.Name, Namespace: from.Namespace, Labels: from.Labels, CreationTimestamp: now}
}

func fieldsOf(meta metav1.ObjectMeta) fields.Set {
	return fields.Set{"metadata.name": meta.Name, "metadata.namespace": meta.Namespace}
}

// podREST serves PodMetrics.
type podREST struct {
	rest.TableConvertor
	pods  listersv1.PodLister
	clock clock.PassiveClock
}

var (
	_ rest.Getter               = podREST{}
	_ rest.Lister               = podREST{}
	_ rest.Scoper               = podREST{}
	_ rest.KindProvider         = podREST{}
	_ rest.SingularNameProvider = podREST{}
)

// New returns an empty object.
func (podREST) New() runtime.Object { return &v1beta1.PodMetrics{} }

// NewList returns an empty list.
func (podREST) NewList() runtime.Object { return &v1beta1.PodMetricsList{} }

// Destroy does nothing.
func (podREST) Destroy() {}

// Kind is the kind of the objects.
func (podREST) Kind() string { return "PodMetrics" }

// NamespaceScoped is true.
func (podREST) NamespaceScoped() bool { return true }

// GetSingularName is empty, as in the metrics server: "pod" is another resource.
func (podREST) GetSingularName() string { return "" }

// Get returns what a pod uses that runs. If there is none, the error is about the pod, as in the metrics server: clients print it.
func (r podREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	pod, err := r.pods.Pods(request.NamespaceValue(ctx)).Get(name)
	if err != nil || !isRunning(pod) {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	out := r.metrics(pod)
	return &out, nil
}

// List returns what the pods of a namespace, or of all, use that run.
func (r podREST) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	byLabel, byField := selectors(o)
	pods, err := r.pods.Pods(request.NamespaceValue(ctx)).List(byLabel)
	if err != nil {
		return nil, err
	}
	list := &v1beta1.PodMetricsList{Items: []v1beta1.PodMetrics{}}
	for _, pod := range pods {
		if isRunning(pod) && byField.Matches(fieldsOf(pod.ObjectMeta)) {
			list.Items = append(list.Items, r.metrics(pod))
		}
	}
	return list, nil
}

func (r podREST) metrics(pod *corev1.Pod) v1beta1.PodMetrics {
	now := metav1.Time{Time: r.clock.Now()}
	return v1beta1.PodMetrics{
		ObjectMeta: metaOf(pod.ObjectMeta, now), Timestamp: now, Window: metav1.Duration{Duration: window},
		Containers: containersOf(pod),
	}
}

// nodeREST serves NodeMetrics.
type nodeREST struct {
	rest.TableConvertor
	nodes listersv1.NodeLister
	pods  listersv1.PodLister
	clock clock.PassiveClock
}

var (
	_ rest.Getter               = nodeREST{}
	_ rest.Lister               = nodeREST{}
	_ rest.Scoper               = nodeREST{}
	_ rest.KindProvider         = nodeREST{}
	_ rest.SingularNameProvider = nodeREST{}
)

// New returns an empty object.
func (nodeREST) New() runtime.Object { return &v1beta1.NodeMetrics{} }

// NewList returns an empty list.
func (nodeREST) NewList() runtime.Object { return &v1beta1.NodeMetricsList{} }

// Destroy does nothing.
func (nodeREST) Destroy() {}

// Kind is the kind of the objects.
func (nodeREST) Kind() string { return "NodeMetrics" }

// NamespaceScoped is false.
func (nodeREST) NamespaceScoped() bool { return false }

// GetSingularName is empty, as in the metrics server: "node" is another resource.
func (nodeREST) GetSingularName() string { return "" }

// Get returns what the pods of a node use.
func (r nodeREST) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	node, err := r.nodes.Get(name)
	if err != nil {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
	}
	byNode, err := r.running()
	if err != nil {
		return nil, err
	}
	out := r.metrics(node, byNode)
	return &out, nil
}

// List returns what the pods of each node use.
func (r nodeREST) List(_ context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	byLabel, byField := selectors(o)
	nodes, err := r.nodes.List(byLabel)
	if err != nil {
		return nil, err
	}
	byNode, err := r.running()
	if err != nil {
		return nil, err
	}
	list := &v1beta1.NodeMetricsList{Items: []v1beta1.NodeMetrics{}}
	for _, node := range nodes {
		if byField.Matches(fieldsOf(node.ObjectMeta)) {
			list.Items = append(list.Items, r.metrics(node, byNode))
		}
	}
	return list, nil
}

// running are the running pods by node.
func (r nodeREST) running() (map[string][]*corev1.Pod, error) {
	pods, err := r.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if isRunning(pod) {
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
		}
	}
	return byNode, nil
}

func (r nodeREST) metrics(node *corev1.Node, byNode map[string][]*corev1.Pod) v1beta1.NodeMetrics {
	now := metav1.Time{Time: r.clock.Now()}
	return v1beta1.NodeMetrics{
		ObjectMeta: metaOf(node.ObjectMeta, now), Timestamp: now, Window: metav1.Duration{Duration: window},
		Usage: sumOf(byNode[node.Name]),
	}
}
