package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Observer receives every object of interest on one API server as it arrives, so that a measurement waits on the state and
// not on a poll.
type Observer struct {
	Mu      sync.Mutex
	Objects map[string]any // "kind/name"
	changed chan struct{}
}

func newObserver() *Observer {
	return &Observer{Objects: map[string]any{}, changed: make(chan struct{})}
}

func (o *Observer) set(key string, obj any) {
	o.Mu.Lock()
	defer o.Mu.Unlock()
	if obj == nil {
		delete(o.Objects, key)
	} else {
		o.Objects[key] = obj
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// Until waits for a condition over all objects and returns the moment at which it held.
func (o *Observer) Until(ctx context.Context, what string, holds func(map[string]any) bool) (time.Time, error) {
	for {
		o.Mu.Lock()
		ok, changed := holds(o.Objects), o.changed
		o.Mu.Unlock()
		if ok {
			return time.Now(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

func (o *Observer) Handler(kind string) cache.ResourceEventHandler {
	key := func(obj any) string {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		m, ok := obj.(metav1.Object)
		if !ok {
			return ""
		}
		return kind + "/" + m.GetNamespace() + "/" + m.GetName()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { o.set(key(obj), obj) },
		UpdateFunc: func(_, obj any) { o.set(key(obj), obj) },
		DeleteFunc: func(obj any) { o.set(key(obj), nil) },
	}
}

// Cluster is one API server: clients to write and an observer to wait with.
type Cluster struct {
	*Observer
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface

	deployments cache.SharedIndexInformer

	cancel  context.CancelFunc
	closed  <-chan struct{}
	running sync.WaitGroup
}

// Close ends all that watches the cluster, and waits for it. A nil Cluster has nothing to end.
func (s *Cluster) Close() {
	if s == nil {
		return
	}
	s.cancel()
	s.running.Wait()
}

// Run starts the informers of a factory, which run until Close.
func (s *Cluster) Run(factory interface {
	Start(stop <-chan struct{})
	Shutdown()
},
) {
	factory.Start(s.closed)
	s.running.Go(factory.Shutdown)
}

// Connect begins to watch a cluster, until the context ends or Close is called.
func Connect(ctx context.Context, cfg *rest.Config, hub bool) (*Cluster, error) {
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	watching, cancel := context.WithCancel(ctx)
	s := &Cluster{Observer: newObserver(), Kube: kube, Dynamic: dyn, cancel: cancel, closed: watching.Done()}
	typed := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(Namespace))
	s.deployments = typed.Apps().V1().Deployments().Informer()
	if _, err := s.deployments.AddEventHandler(s.Handler("deployment")); err != nil {
		s.Close()
		return nil, fmt.Errorf("watching deployments: %w", err)
	}
	if _, err := typed.Core().V1().ConfigMaps().Informer().AddEventHandler(s.Handler("configmap")); err != nil {
		s.Close()
		return nil, fmt.Errorf("watching configmaps: %w", err)
	}
	s.Run(typed)
	typed.WaitForCacheSync(ctx.Done())
	if !hub {
		return s, nil
	}
	untyped := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	if _, err := untyped.ForResource(works).Informer().AddEventHandler(s.Handler("work")); err != nil {
		s.Close()
		return nil, fmt.Errorf("watching works: %w", err)
	}
	s.Run(untyped)
	untyped.WaitForCacheSync(ctx.Done())
	return s, nil
}

// ReportReady stands in for a member's workload controllers: every Deployment is ready as soon as it is seen.
func (s *Cluster) ReportReady(ctx context.Context) error {
	todo := make(chan *appsv1.Deployment, 4096)
	note := func(obj any) {
		if d, ok := obj.(*appsv1.Deployment); ok && d.Status.ObservedGeneration != d.Generation {
			select {
			case todo <- d:
			case <-s.closed:
			}
		}
	}
	_, err := s.deployments.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    note,
		UpdateFunc: func(_, obj any) { note(obj) },
	})
	if err != nil {
		return fmt.Errorf("watching deployments: %w", err)
	}
	for range 4 {
		s.running.Go(func() {
			for {
				select {
				case d := <-todo:
					s.patchReady(ctx, d)
				case <-s.closed:
					return
				}
			}
		})
	}
	return nil
}

// patchReady ignores errors: an object that has gone needs no status, and any other failure shows as a measurement that
// never ends.
func (s *Cluster) patchReady(ctx context.Context, d *appsv1.Deployment) {
	n := *d.Spec.Replicas
	patch, err := json.Marshal(map[string]any{"status": appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
	}})
	if err != nil {
		return
	}
	_, _ = s.Kube.AppsV1().Deployments(d.Namespace).Patch(ctx, d.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
}

// Count returns how many objects of a kind satisfy a condition.
func Count(objects map[string]any, kind string, holds func(any) bool) int {
	n := 0
	for key, obj := range objects {
		if len(key) > len(kind) && key[:len(kind)] == kind && key[len(kind)] == '/' && holds(obj) {
			n++
		}
	}
	return n
}

func Anything(any) bool { return true }

// WorkApplied says whether a Work in an execution namespace carries Applied=True.
func WorkApplied(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Applied" && m["status"] == "True" {
			return true
		}
	}
	return false
}

// CarriesStatus says whether the template's status accounts for all replicas of n members.
func CarriesStatus(members int) func(any) bool {
	return func(obj any) bool {
		d, ok := obj.(*appsv1.Deployment)
		return ok && d.Status.ObservedGeneration == d.Generation && d.Status.ReadyReplicas == *d.Spec.Replicas*int32(members)
	}
}

// RunsImage says whether the object is a Deployment with the given image.
func RunsImage(image string) func(any) bool {
	return func(obj any) bool {
		d, ok := obj.(*appsv1.Deployment)
		return ok && d.Spec.Template.Spec.Containers[0].Image == image
	}
}

func CreateNamespace(ctx context.Context, s *Cluster, labels map[string]string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace, Labels: labels}}
	if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", Namespace, err)
	}
	return nil
}

// PrepareNamespace creates the namespace, and returns when policies are created in it without delay. The API server delays each creation of a
// custom resource by two seconds within the first two seconds after its definition, which is new in a control plane that has just started for
// the first time.
func PrepareNamespace(ctx context.Context, s *Cluster) error {
	if err := CreateNamespace(ctx, s, nil); err != nil {
		return err
	}
	const name = "not-stored"
	_, err := s.Dynamic.Resource(Policies).Namespace(Namespace).Create(ctx, Duplicated(name, SelectDeployment(name)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("creating a policy without storing it: %w", err)
	}
	return nil
}

// Poll is until for very many objects, where a look after every change would take more time than what is measured.
func (o *Observer) Poll(ctx context.Context, what string, holds func(map[string]any) bool) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		o.Mu.Lock()
		ok := holds(o.Objects)
		o.Mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}
