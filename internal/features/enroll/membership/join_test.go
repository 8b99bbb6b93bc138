package membership

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
)

// TestJoiningWhileTheNamespaceGoes: the namespace that an earlier membership left may be gone after it was applied, and before the account is.
func TestJoiningWhileTheNamespaceGoes(t *testing.T) {
	client := fake.NewClientset()
	attempts := 0
	client.PrependReactor("patch", "serviceaccounts", func(ktesting.Action) (bool, runtime.Object, error) {
		if attempts++; attempts > 1 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "karmada-cluster")
	})
	if err := installPatiently(t.Context(), memberaccount.Account{Name: "karmada-a"}, client); err != nil {
		t.Error(err)
	}
	if attempts != 2 {
		t.Errorf("the account was applied %d times, want another time after the namespace was gone", attempts)
	}
}

// TestTheControlPlaneWritesASecretWhileItIsWritten: it adds the renewal token between the reading of the Secret and the write that has the
// new Cluster own it.
func TestTheControlPlaneWritesASecretWhileItIsWritten(t *testing.T) {
	updates := 0
	hub := ctrlfake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if updates++; updates == 1 {
				present := &corev1.Secret{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), present); err != nil {
					return err
				}
				present.Data[clusterv1alpha1.SecretRenewalTokenKey] = []byte("renewal")
				if err := c.Update(ctx, present); err != nil {
					return err
				}
			}
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	j := &Joiner{Hub: hub, Options: Options{Name: "eu"}, Access: &rest.Config{}}
	target := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "eu", UID: "1"}}
	write := func(token string, owner *clusterv1alpha1.Cluster) *corev1.Secret {
		t.Helper()
		if err := j.writeSecrets(t.Context(), credentials{controller: token}, target, owner); err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{}
		if err := hub.Get(t.Context(), client.ObjectKey{Namespace: clusterv1alpha1.ClusterNamespace, Name: "eu"}, secret); err != nil {
			t.Fatal(err)
		}
		return secret
	}
	write("one", nil)
	if owned := write("one", target); len(owned.OwnerReferences) != 1 || string(owned.Data[clusterv1alpha1.SecretRenewalTokenKey]) != "renewal" {
		t.Errorf("after two writes in a row it is owned by %v and has %v", owned.OwnerReferences, owned.Data)
	}
	// A cluster that joins again gets a new one, which is that of the account as it is now.
	if again := write("one", target); len(again.Data[clusterv1alpha1.SecretRenewalTokenKey]) != 0 {
		t.Errorf("joining again keeps %v", again.Data)
	}
}

// TestTheControlPlaneWritesAClusterWhileItIsChanged: its taints, and then its address.
func TestTheControlPlaneWritesAClusterWhileItIsChanged(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "eu", UID: "1"}, Spec: clusterv1alpha1.ClusterSpec{APIEndpoint: "https://old"}}
	hub := ctrlfake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster).Build()
	j := &Joiner{Hub: hub, Options: Options{Name: "eu"}}
	read := func() *clusterv1alpha1.Cluster {
		t.Helper()
		c := &clusterv1alpha1.Cluster{}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	edit := func(change func(*clusterv1alpha1.Cluster)) {
		t.Helper()
		c := read()
		change(c)
		if err := hub.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	move := func(to string) func(*clusterv1alpha1.Cluster) {
		return func(c *clusterv1alpha1.Cluster) { c.Spec.APIEndpoint = to }
	}

	before := read()
	edit(func(c *clusterv1alpha1.Cluster) {
		c.Spec.Taints = []corev1.Taint{{Key: "unready", Effect: corev1.TaintEffectNoSchedule}}
	})
	after, err := j.change(t.Context(), before, move("https://new"))
	if err != nil || after.Spec.APIEndpoint != "https://new" || len(after.Spec.Taints) != 1 || read().Spec.APIEndpoint != "https://new" {
		t.Errorf("beside a taint: %v, %+v", err, after)
	}
	before = read()
	edit(move("https://another"))
	if _, err := j.change(t.Context(), before, move("https://third")); !apierrors.IsConflict(err) || read().Spec.APIEndpoint != "https://another" {
		t.Errorf("beside another address: %v", err)
	}
}
