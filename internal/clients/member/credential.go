package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Credential is what a connection presents to a member, and how it verifies the member.
type Credential struct {
	// Token is a bearer token; empty if a client certificate is used.
	Token string
	// Renewal is a bearer token without expiry, only for requests of new tokens; empty for none.
	Renewal string
	// Expires is when Token ends; zero if that is unknown.
	Expires time.Time
	// CABundle, PEM, verifies the member's serving certificate. Empty means the roots of this machine.
	CABundle []byte
	// Certificate and Key, PEM, are a client certificate; both or none.
	Certificate, Key []byte
	// Endpoint wins over the Cluster's apiEndpoint. An agent sets it: it may reach its own cluster by another way
	// than the rest of the world.
	Endpoint string
}

// CredentialsFunc returns the credential of a cluster as it is now, for the address in the given Cluster. It is called for
// once a minute per member and whenever a member refuses the token, so it should read from a cache. It may be called from
// several goroutines. An AccessError of the Cluster's API forbids the use of the credential that is known.
type CredentialsFunc func(ctx context.Context, cluster *clusterv1alpha1.Cluster) (Credential, error)

const (
	// credentialAge is how long a credential is used before it is tried again.
	credentialAge = time.Minute
	// credentialPause bounds how often the credential is read again because a member refuses the token.
	credentialPause = 2 * time.Second
)

// issued is a credential with the address that it was issued for. The two are kept together, so that a credential never
// goes to the address of a Cluster that changed meanwhile.
type issued struct {
	Credential
	address address
}

// tokenCache keeps the credential of one member. The caching token sources of client-go and oauth2 keep a token until it expires. Here a
// token goes only to the address that it was issued for, comes with the trust in that address, is read again after a refusal, and
// must not be used any more when its Cluster forbids it.
type tokenCache struct {
	clock clock.PassiveClock
	fetch func(context.Context) (issued, error)

	mu      sync.Mutex
	current issued
	fetched time.Time // zero: never, or expired
}

// get returns a credential that was requested at most maxAge ago. A known one is better than none: it outlives a
// failure to renew it, unless the failure forbids its use.
func (w *tokenCache) get(ctx context.Context, maxAge time.Duration) (issued, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fetched.IsZero() && w.clock.Since(w.fetched) < maxAge {
		return w.current, nil
	}
	fresh, err := w.fetch(ctx)
	var forbidden *clusterv1alpha1.AccessError
	switch {
	case err == nil:
		w.current, w.fetched = fresh, w.clock.Now()
	case errors.As(err, &forbidden):
		w.current, w.fetched = issued{}, time.Time{}
		return issued{}, fmt.Errorf("getting the credential of the member: %w", err)
	case w.fetched.IsZero():
		return issued{}, fmt.Errorf("getting the credential of the member: %w", err)
	}
	return w.current, nil
}

// expired returns whether the known token has ended, by our clock. It only chooses the reason for a refusal by the member, whose own
// clock decides what it accepts.
func (w *tokenCache) expired() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.current.Expires.IsZero() && w.clock.Now().After(w.current.Expires)
}

// expire makes the next get read the credential again.
func (w *tokenCache) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fetched = time.Time{}
}

// sameTrust returns whether both credentials lead to the same TLS connection.
func (c Credential) sameTrust(other Credential) bool {
	return c.Endpoint == other.Endpoint &&
		bytes.Equal(c.CABundle, other.CABundle) &&
		bytes.Equal(c.Certificate, other.Certificate) &&
		bytes.Equal(c.Key, other.Key)
}
