package fleettest

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/api"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// cleanupPatience bounds what a test does after its end.
const cleanupPatience = Patience

// Cluster is a client of the hub or of a member, with all rights and without a limit of its own.
type Cluster struct {
	// Client reads and writes objects.
	client.WithWatch
	// Name is "hub", "member1", …
	Name string
	// Kubeconfig is the file that leads here.
	Kubeconfig string
	// Config is what clients of other types start from.
	Config *rest.Config
	// Dynamic reaches kinds without a Go type.
	Dynamic dynamic.Interface
}

func connect(name, kubeconfig string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	config.QPS = -1
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return connectWith(name, kubeconfig, config)
}

func connectWith(name, kubeconfig string, config *rest.Config) (*Cluster, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Name: name, Kubeconfig: kubeconfig, Config: config}
	if c.WithWatch, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", name, err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", name, err)
	}
	return c, nil
}

// newScheme returns a scheme with the built-in kinds, ours, and CustomResourceDefinition.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, api.AddToScheme, resourcev1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return scheme, nil
}

// Member returns the client of a member by name.
func (f *Fleet) Member(name string) *Cluster {
	for _, m := range f.Members {
		if m.Name == name {
			return m
		}
	}
	panic(fmt.Sprintf("this fleet has no member %q", name))
}

// Namespace makes a namespace on the hub for this test and deletes it when the test ends.
func (f *Fleet) Namespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Create(t, f.Hub, ns)
	return ns.Name
}

// cleanupContext is for requests after a test has ended.
func cleanupContext(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), cleanupPatience)
}
