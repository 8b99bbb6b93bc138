package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// startCheck is the name in /readyz of the start.
	startCheck = "start"
	// storageCheck is the name in /readyz of storage that can be written.
	storageCheck = "storage"
	// readyPoll is how often a starting server checks whether it is ready.
	readyPoll = 25 * time.Millisecond
	// addressPatience is how long a start waits until Services get addresses.
	addressPatience = 10 * time.Second
)

// started returns why the start has not ended.
func (s *Server) started() error {
	for _, ended := range []<-chan struct{}{s.served, s.cfg.Started} {
		select {
		case <-ended:
		default:
			if ended != nil {
				return errors.New("the server is starting")
			}
		}
	}
	return nil
}

// writable returns why nothing can be stored.
func (s *Server) writable() error {
	if capacity, known := s.storage.Capacity(); known && capacity.Full {
		return fmt.Errorf("the database is at its quota of %d bytes and takes nothing but deletions: delete objects, or start with a larger --storage-quota", capacity.Quota)
	}
	return nil
}

// waitReady waits until upstream's server is ready.
func (s *Server) waitReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(s.loopback)
	if err != nil {
		return fmt.Errorf("making the loopback client: %w", err)
	}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.loopback.Host+"/readyz?exclude="+startCheck+"&exclude="+storageCheck, nil)
		if err != nil {
			return fmt.Errorf("checking readiness: %w", err)
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-s.stopped:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API server: %w", ctx.Err())
		}
	}
}

// awaitServiceAddresses waits until a Service can be created. Until upstream's allocator of addresses has read the ServiceCIDRs, which
// no check of upstream waits for, it answers 500 "range is full". A dry run needs an allocator and takes no address. Any other answer,
// one of a webhook for example, does not hold up the start.
func (s *Server) awaitServiceAddresses(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.loopback)
	if err != nil {
		return fmt.Errorf("making the loopback client: %w", err)
	}
	dualStack := corev1.IPFamilyPolicyPreferDualStack
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "flagship-start-"},
		Spec:       corev1.ServiceSpec{IPFamilyPolicy: &dualStack, Ports: []corev1.ServicePort{{Port: 1}}},
	}
	err = wait.PollUntilContextTimeout(ctx, readyPoll, addressPatience, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return !apierrors.IsInternalError(err) && !apierrors.IsNotFound(err), nil // the namespace is created by a hook
	})
	if ctx.Err() != nil {
		return fmt.Errorf("waiting for addresses of Services: %w", err)
	}
	return nil
}
