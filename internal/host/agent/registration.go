package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/agents/credential"
)

const (
	// refusalPatience is how long refusals repeat before the agent ends: a control plane refuses for a moment when it starts, or
	// when one of its replicas has not seen a new Cluster yet.
	refusalPatience = 3 * time.Second
	// refusalPause is the shortest pause between two attempts in that time.
	refusalPause = time.Second
	// absencePause is the shortest pause before the next attempt to reach a control plane that cannot be reached.
	absencePause = 5 * time.Second
	// jitter spreads the attempts of many agents after the same outage: it is by what share a pause is longer at most.
	jitter = 0.4
)

// registration is what ties an agent to its Cluster. An agent whose Cluster is deleted, is in Push mode, or is another one of the same
// name ends, since nothing that it does would be accepted.
type registration struct {
	hub     client.Reader
	cluster string
	// credential is the file of the agent's certificate, "" for none.
	credential string
	clock      clock.Clock
	// doubtful has a value after an error that may mean that the control plane does not accept the agent any more.
	doubtful chan struct{}
}

func newRegistration(o Options) *registration {
	return &registration{cluster: o.Cluster, credential: o.Credential, clock: o.Clock, doubtful: make(chan struct{}, 1)}
}

// doubt has the registration checked.
func (r *registration) doubt() {
	select {
	case r.doubtful <- struct{}{}:
	default:
	}
}

// watchFailed is called with the errors of every watch.
func (r *registration) watchFailed(ctx context.Context, reflector *cache.Reflector, err error) {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		r.doubt()
	}
	cache.DefaultWatchErrorHandler(ctx, reflector, err)
}

// watch has the registration of a Cluster checked when that changes so that the agent has nothing to do any more.
func (r *registration) watch(ctx context.Context, mgr manager.Manager, uid types.UID) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &clusterv1alpha1.Cluster{})
	if err != nil {
		return fmt.Errorf("watching Cluster %s: %w", r.cluster, err)
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, o any) {
			if c, ok := o.(*clusterv1alpha1.Cluster); ok && (c.UID != uid || c.Spec.SyncMode != clusterv1alpha1.Pull) {
				r.doubt()
			}
		},
		DeleteFunc: func(any) { r.doubt() },
	})
	if err != nil {
		return fmt.Errorf("watching Cluster %s: %w", r.cluster, err)
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-r.doubtful:
			}
			if _, err := r.await(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}))
}

// await returns the Cluster when the control plane can be reached and accepts the agent. The error is one that another attempt does
// not cure, or that of ctx.
func (r *registration) await(ctx context.Context) (*clusterv1alpha1.Cluster, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := r.persist(ctx, func() error { return r.hub.Get(ctx, client.ObjectKey{Name: r.cluster}, cluster) })
	if err != nil {
		return nil, err
	}
	if cluster.Spec.SyncMode != clusterv1alpha1.Pull {
		return nil, fmt.Errorf("cluster %s is in %s mode: the control plane serves it itself, and its agent ends", r.cluster, cluster.Spec.SyncMode)
	}
	return cluster, nil
}

// home returns the id of the control plane, which is the uid of its namespace kube-system.
func (r *registration) home(ctx context.Context, kube kubernetes.Interface) (string, error) {
	var home *corev1.Namespace
	err := r.persist(ctx, func() (err error) {
		home, err = kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading the id of the control plane (the uid of its namespace %s): %w", metav1.NamespaceSystem, err)
	}
	return string(home.UID), nil
}

// persist repeats a request until it succeeds, or the control plane has refused it for refusalPatience.
func (r *registration) persist(ctx context.Context, request func() error) error {
	var refused time.Time
	for {
		err := request()
		pause := refusalPause
		switch now := r.clock.Now(); {
		case err == nil:
			return nil
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err):
			log.FromContext(ctx).Error(err, "Cannot reach the control plane", "cluster", r.cluster)
			refused, pause = time.Time{}, absencePause
		case refused.IsZero():
			refused = now
		case now.Sub(refused) >= refusalPatience:
			return fmt.Errorf("the control plane does not accept the agent of cluster %s%s: it ends, and the objects in the cluster stay "+
				"(docs/agents.md has what can be done): %w", r.cluster, r.expired(now), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the control plane: %w", ctx.Err())
		case <-r.clock.After(wait.Jitter(pause, jitter)):
		}
	}
}

// expired returns that the certificate of the agent has expired, as part of a message, "" otherwise: the API server does not name the cause.
func (r *registration) expired(now time.Time) string {
	if end, known := certificateExpiry(r.credential); known && now.After(end) {
		return ", whose certificate expired at " + end.UTC().Format(time.RFC3339)
	}
	return ""
}

// certificateExpiry returns when the certificate in the file of a credential expires; false without a file, and if there is no certificate in it.
func certificateExpiry(file string) (time.Time, bool) {
	content, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}, false
	}
	end, err := credential.Expiry(content)
	return end, err == nil
}
