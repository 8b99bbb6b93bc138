package standin_test

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/tools/bench/standin"
	"github.com/flagship-k8s/flagship/internal/tools/bench/standin/apistore"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func start(t *testing.T, count int) *standin.Server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s, err := standin.Start(ctx, count)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		s.Wait()
	})
	return s
}

func configOf(s *standin.Server, i int) *rest.Config {
	m := s.Members[i]
	return &rest.Config{Host: m.URL, BearerToken: m.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}}
}

func TestAStandInAnswersAsAMember(t *testing.T) {
	s := start(t, 2)
	fleettest.MemberAPI(t, configOf(s, 0))
	if arrivals := s.Arrivals(apistore.Namespaces, types.NamespacedName{Name: "default"}); len(arrivals) != 2 || arrivals[0].At.IsZero() {
		t.Errorf("the namespace default arrived at %v", arrivals)
	}
}

func TestModesOfAStandIn(t *testing.T) {
	s := start(t, 2)
	kube := func(i int) *kubernetes.Clientset {
		c := configOf(s, i)
		// Without retries, and without connections of before.
		c.Timeout = 0
		k, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	list := func(ctx context.Context, k *kubernetes.Clientset) error {
		return k.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes").MaxRetries(0).Do(ctx).Error()
	}
	first, other := kube(0), kube(1)
	for _, mode := range []struct {
		mode standin.Mode
		is   func(error) bool
	}{
		{standin.Busy, apierrors.IsTooManyRequests},
		{standin.Failing, apierrors.IsInternalError},
		{standin.Gone, func(err error) bool { return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }},
	} {
		if err := s.Set(mode.mode, 0, 1); err != nil {
			t.Fatal(err)
		}
		if err := list(t.Context(), first); err == nil || !mode.is(err) {
			t.Errorf("%s: %v", mode.mode, err)
		}
		if err := list(t.Context(), other); err != nil {
			t.Errorf("%s: the other one answers %v", mode.mode, err)
		}
	}
	if err := s.Set(standin.Nonsense, 0, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := first.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("nonsense is a list of nodes")
	}
	if err := s.Set(standin.Hanging, 0, 1); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- list(t.Context(), first) }()
	if err := list(t.Context(), other); err != nil {
		t.Errorf("beside one that hangs: %v", err)
	}
	select {
	case err := <-answered:
		t.Errorf("one that hangs answers %v", err)
	default:
	}
	response, err := http.Post(s.Control+"/mode?mode=healthy&first=0&count=2", "", nil) //nolint:noctx // A test of its own server.
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("setting the mode: %v, %v", response, err)
	}
	_ = response.Body.Close()
	if err := <-answered; err != nil {
		t.Errorf("one that does not hang any more: %v", err)
	}
	if statistics := s.Statistics(); statistics.Requests[standin.Refused] != 3 || statistics.Objects != 8 {
		t.Errorf("the statistics are %v, want 3 requests that were refused, and 8 objects", statistics)
	}
	if err := s.Set("odd", 0, 1); err == nil {
		t.Error("a mode that does not exist is accepted")
	}
}

// TestTheServersEndWithTheContext: once Wait has returned, nothing listens.
func TestTheServersEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := standin.Start(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	addresses := []string{s.Control}
	for _, member := range s.Members {
		addresses = append(addresses, member.URL)
	}
	cancel()
	s.Wait()
	for _, address := range addresses {
		at, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if conn, err := net.Dial("tcp", at.Host); err == nil {
			t.Errorf("%s listens", address)
			_ = conn.Close()
		}
	}
}
