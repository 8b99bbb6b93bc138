package apiserver

import (
	"math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/storage"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// keepEvents makes the API server serve Events in memory beside those in the etcd of client.
func keepEvents(config *app.Config, shared informers.SharedInformerFactory, client *clientv3.Client, clk clock.PassiveClock) *events.Memory {
	namespaces := shared.Core().V1().Namespaces().Lister()
	memory := events.NewMemory(clk, uint64(rand.Uint32()), func(name string) bool {
		namespace, err := namespaces.Get(name)
		return err == nil && namespace.Status.Phase != corev1.NamespaceTerminating
	})
	generic := config.KubeAPIs.ControlPlane.Generic
	generic.RESTOptionsGetter = storage.WithEvents(generic.RESTOptionsGetter, client, memory)
	return memory
}

// Events takes Events of success and serves them until they are an hour old; nil for a member.
func (s *Server) Events() *events.Memory { return s.events }
