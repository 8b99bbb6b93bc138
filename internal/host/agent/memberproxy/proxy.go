package memberproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
)

const (
	// tokenLife is the requested life of a token, which a member may shorten; one is used for half of its life.
	tokenLife = time.Hour
	// tokenTimeout bounds the request of one.
	tokenTimeout = 10 * time.Second
)

// Proxy is the http.Handler of a tunnel.
type Proxy struct {
	member       *url.URL
	transport    http.RoundTripper // without a credential
	kube         kubernetes.Interface
	controlPlane string
	clock        clock.PassiveClock
	drift        *drift.Episodes

	// A token is kept because each request of one is a write to the member.
	mu    sync.Mutex
	token string
	until time.Time // when to request the next one
}

// New makes the proxy into the cluster that member leads to, for the control plane with this id, which it also gives the episodes of drift.
func New(member *rest.Config, controlPlane string, clock clock.PassiveClock, episodes *drift.Episodes) (*Proxy, error) {
	location, _, err := rest.DefaultServerUrlFor(member)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cluster: %w", err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(member))
	if err != nil {
		return nil, fmt.Errorf("building the transport to the cluster: %w", err)
	}
	kube, err := kubernetes.NewForConfig(member)
	if err != nil {
		return nil, fmt.Errorf("building a client for the cluster: %w", err)
	}
	return &Proxy{member: location, transport: transport, kube: kube, controlPlane: controlPlane, clock: clock, drift: episodes}, nil
}

// ServeHTTP sends a request to the API server of the member, and carries the answer back. It answers one for the episodes of drift itself.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	failed := responder{w}
	if r.Host == drift.Host { // of the control plane itself: in requests of users it is the host of the member
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.drift.List("")) // the control plane is gone if this fails
		return
	}
	who, err := userOf(r.Header)
	if err != nil {
		failed.Error(apierrors.NewBadRequest(err.Error()))
		return
	}
	token, err := p.impersonator(r.Context())
	if err != nil {
		failed.Error(apierrors.NewServiceUnavailable("the agent has no credential to impersonate users in the cluster: " + err.Error()))
		return
	}
	location := *p.member
	location.Path, location.RawQuery = utilnet.JoinPreservingTrailingSlash(location.Path, r.URL.Path), r.URL.RawQuery
	dial.Forward(w, r, &location, p.transport, dial.Sender{Token: token, As: who}, failed)
}

// userOf is the user to impersonate. The control plane has set it, after it had removed what the client sent as its identity.
func userOf(header http.Header) (transport.ImpersonationConfig, error) {
	users := header[authenticationv1.ImpersonateUserHeader]
	if len(users) != 1 || users[0] == "" {
		return transport.ImpersonationConfig{}, fmt.Errorf("the request names %d users whom to impersonate, want one", len(users))
	}
	who := transport.ImpersonationConfig{UserName: users[0], UID: header.Get(authenticationv1.ImpersonateUIDHeader), Groups: header[authenticationv1.ImpersonateGroupHeader]}
	for name, values := range header {
		key, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		key, err := url.PathUnescape(strings.ToLower(key))
		if err != nil {
			return transport.ImpersonationConfig{}, fmt.Errorf("reading the header %s: %w", name, err)
		}
		if who.Extra == nil {
			who.Extra = map[string][]string{}
		}
		who.Extra[key] = values
	}
	return who, nil
}

// impersonator returns a token of the account that may impersonate, which it creates if there is none.
func (p *Proxy) impersonator(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if p.token != "" && now.Before(p.until) {
		return p.token, nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	accounts, err := memberaccount.AccountsIn(ctx, p.kube)
	if err != nil {
		return "", err
	}
	account, exists, err := memberaccount.ImpersonatorIn(accounts, p.controlPlane)
	if err != nil {
		return "", err
	}
	if !exists {
		if err := account.Install(ctx, p.kube); err != nil {
			return "", err
		}
	}
	token, err := account.Token(ctx, p.kube, tokenLife)
	if err != nil {
		return "", err
	}
	life, _ := memberaccount.LifeOf([]byte(token)) // its length: the API server may have another time
	p.token, p.until = token, now.Add(life.Duration()/2)
	return token, nil
}

// responder answers an error as a Status.
type responder struct{ w http.ResponseWriter }

// Error answers 503 for a cluster that cannot be reached.
func (r responder) Error(err error) {
	status := apierrors.NewServiceUnavailable("the agent does not reach the API server of the cluster: " + err.Error())
	if known, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status = known
	}
	answer := status.Status()
	answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	r.w.Header().Set("Content-Type", "application/json")
	r.w.WriteHeader(int(answer.Code))
	_ = json.NewEncoder(r.w).Encode(answer) // the control plane is gone if this fails
}
