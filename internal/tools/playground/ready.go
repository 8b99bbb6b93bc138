package playground

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

var (
	clusters   = schema.GroupVersionResource{Group: "cluster.karmada.io", Version: "v1alpha1", Resource: "clusters"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// takeIn joins a member that serves, unless it has been joined before, and waits until its Cluster is ready.
func (p *Playground) takeIn(ctx context.Context, m *member) error {
	hub, err := dynamic.NewForConfig(p.hub.LoopbackConfig())
	if err != nil {
		return fmt.Errorf("making a client for the control plane: %w", err)
	}
	name := m.spec.Name
	if m.spec.Joined {
		_, err := hub.Resource(clusters).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			p.out.say("  %-9s was taken out before and stays out", name)
			return nil
		}
		if err != nil {
			return fmt.Errorf("looking for cluster %s: %w", name, err)
		}
	} else if err := p.join(ctx, m); err != nil {
		return err
	}
	if err := waitUntil(ctx, hub.Resource(clusters), name, clusterReady); err != nil {
		return fmt.Errorf("waiting until cluster %s is ready: %w", name, err)
	}
	if err := waitUntil(ctx, hub.Resource(namespaces), workv1alpha1.ExecutionNamespace(name), exists); err != nil {
		return fmt.Errorf("waiting for the execution namespace of %s: %w", name, err)
	}
	p.out.say("  %-9s is ready", name)
	return nil
}

// join makes a member known to the hub.
func (p *Playground) join(ctx context.Context, m *member) error {
	name := m.spec.Name
	if err := grantOperators(ctx, m); err != nil {
		return fmt.Errorf("granting rights in %s: %w", name, err)
	}
	if m.spec.Pull {
		if err := p.config.Register(ctx, m.agentOf(), HubKubeconfig(p.config.DataDir)); err != nil {
			return fmt.Errorf("registering the agent of %s: %w", name, err)
		}
	} else if err := p.config.Join(ctx, p.HubConfig(), name, MemberKubeconfig(p.config.DataDir, name)); err != nil {
		return fmt.Errorf("joining %s: %w", name, err)
	}
	if err := p.markJoined(name); err != nil {
		return err
	}
	return m.joined()
}

// grantOperators gives the user of the control plane's kubeconfig all rights in a member, so that clusters/NAME/proxy leads to its
// pods: the owner of that file has the member's kubeconfig as well. A bare member has no pods.
func grantOperators(ctx context.Context, m *member) error {
	if m.spec.Bare {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", MemberKubeconfig(string(m.dir), m.spec.Name))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "playground-operators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterv1alpha1.OperatorsGroup}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (p *Playground) markJoined(name string) error {
	return p.spec.change(func(r *fleetSpec) {
		for i := range r.Members {
			if r.Members[i].Name == name {
				r.Members[i].Joined = true
			}
		}
	})
}

// waitForKinds returns when every custom kind of the control plane is served.
func (p *Playground) waitForKinds(ctx context.Context) error {
	hub, err := dynamic.NewForConfig(p.hub.LoopbackConfig())
	if err != nil {
		return fmt.Errorf("making a client for the control plane: %w", err)
	}
	list, err := hub.Resource(crds).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the kinds of the control plane: %w", err)
	}
	for _, crd := range list.Items {
		if established(&crd) == nil {
			continue
		}
		if err := waitUntil(ctx, hub.Resource(crds), crd.GetName(), established); err != nil {
			return fmt.Errorf("waiting until %s is served: %w", crd.GetName(), err)
		}
	}
	return nil
}

// errAbsent is the error of a condition about an object that does not exist.
var errAbsent = errors.New("it does not exist")

func exists(*unstructured.Unstructured) error { return nil }

func clusterReady(u *unstructured.Unstructured) error { return conditionTrue(u, "Ready") }

func established(u *unstructured.Unstructured) error { return conditionTrue(u, "Established") }

// conditionTrue returns nil if the object has the condition with status True, else what it has.
func conditionTrue(u *unstructured.Unstructured, kind string) error {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range list {
		condition, ok := item.(map[string]any)
		if !ok || condition["type"] != kind {
			continue
		}
		if condition["status"] == "True" {
			return nil
		}
		return fmt.Errorf("%s is %v: %v", kind, condition["status"], condition["message"])
	}
	return fmt.Errorf("there is no condition %s", kind)
}

// waitUntil watches one object until the condition has nothing to say against it. The error of a wait that ended
// otherwise holds what the condition said last.
func waitUntil(ctx context.Context, r dynamic.ResourceInterface, name string, condition func(*unstructured.Unstructured) error) error {
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return r.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return r.Watch(ctx, o)
		},
	}
	last := errAbsent
	_, err := watchtools.UntilWithSync(ctx, lw, &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		u, ok := e.Object.(*unstructured.Unstructured)
		switch {
		case !ok || u.GetName() != name:
			return false, nil
		case e.Type == watch.Deleted:
			last = errAbsent
		default:
			last = condition(u)
		}
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%w: %w", err, last)
}
