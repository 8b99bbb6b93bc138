package enroll

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	connection "github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

var epoch = time.Unix(1_800_000_000, 0)

// newMember is a cluster of the given identity that issues tokens from clock's present on.
func newMember(id string, clock *clocktesting.FakeClock) *fake.Clientset {
	c := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: memberaccount.KubeSystem, UID: types.UID(id)}})
	c.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateActionImpl)
		if !ok || create.GetSubresource() != "token" {
			return false, nil, nil
		}
		request := create.GetObject().(*authenticationv1.TokenRequest).DeepCopy()
		request.Status.Token = tokenFor(create.Name, clock.Now(), time.Duration(*request.Spec.ExpirationSeconds)*time.Second)
		return true, request, nil
	})
	return c
}

func tokenFor(account string, issued time.Time, life time.Duration) string {
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"sub":%q}`, issued.Unix(), issued.Add(life).Unix(), account)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func newHub(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1alpha1.AddToScheme, workv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: memberaccount.KubeSystem, UID: "hub-1"}}).WithStatusSubresource(&clusterv1alpha1.Cluster{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if obj.GetUID() == "" {
				obj.SetUID(types.UID(obj.GetName() + "-uid")) // as a server does
			}
			if cluster, ok := obj.(*clusterv1alpha1.Cluster); ok {
				if err := refuseSameID(ctx, c, cluster); err != nil {
					return err
				}
			}
			return c.Create(ctx, obj, opts...)
		}}).Build()
}

// refuseSameID does what the API server does.
func refuseSameID(ctx context.Context, c client.Client, cluster *clusterv1alpha1.Cluster) error {
	var clusters clusterv1alpha1.ClusterList
	if err := c.List(ctx, &clusters); err != nil {
		return err
	}
	for i := range clusters.Items {
		if other := &clusters.Items[i]; other.Name != cluster.Name && other.Spec.ID == cluster.Spec.ID {
			return apierrors.NewConflict(clusterv1alpha1.Resource("clusters"), cluster.Name, fmt.Errorf("the member is registered as cluster %q already", other.Name))
		}
	}
	return nil
}

func joinerFor(hub client.Client, member kubernetes.Interface, name string) *membership.Joiner {
	return &membership.Joiner{
		Hub: hub, Member: member, Options: membership.Options{Name: name},
		Access: &rest.Config{Host: "https://10.0.0.1:6443/", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}},
		Try:    func(context.Context, *rest.Config, string) error { return nil },
	}
}

// fixture is a reconciler with one joined cluster.
type fixture struct {
	t          *testing.T
	hub        client.Client
	member     *fake.Clientset
	renewal    *fake.Clientset // the member for requests with the renewal token; nil if there is none
	reconciler *Reconciler
	clock      *clocktesting.FakeClock

	mu        sync.Mutex
	refreshed int
	events    []string
	away      bool
}

func joined(t *testing.T, name string) *fixture {
	t.Helper()
	f := &fixture{t: t, hub: newHub(t), clock: clocktesting.NewFakeClock(epoch)}
	f.member = newMember("id-1", f.clock)
	if err := joinerFor(f.hub, f.member, name).Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.reconciler = newReconciler(f.hub, Deps{
		Member: func(string) (kubernetes.Interface, error) {
			if f.away {
				return nil, errors.New("there is no connection")
			}
			return f.member, nil
		},
		Renewal: func(string) (kubernetes.Interface, error) {
			if f.renewal == nil {
				return nil, connection.ErrNoRenewalToken
			}
			return f.renewal, nil
		},
		ControlPlane: "hub-1",
		Refresh:      func(string) { f.refreshed++ },
		Events: events.RecorderFunc(func(e events.Event) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, e.Reason)
		}),
		Clock: f.clock,
	})
	return f
}

func (f *fixture) get(obj client.Object) {
	f.t.Helper()
	if err := f.hub.Get(f.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) cluster() *clusterv1alpha1.Cluster {
	f.t.Helper()
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
	f.get(c)
	return c
}

func (f *fixture) token(secret string) string {
	f.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: secret}}
	f.get(s)
	return string(s.Data["token"])
}
