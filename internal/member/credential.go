package member

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Credential is what a connection presents to a member, and how it knows the member.
type Credential struct {
	// Token is a bearer token; empty if a client certificate is used.
	Token string
	// CABundle, PEM, verifies the member's serving certificate. Empty means the roots of this machine.
	CABundle []byte
	// Certificate and Key, PEM, are a client certificate; both or none.
	Certificate, Key []byte
	// Endpoint wins over the Cluster's apiEndpoint. An agent sets it: it may reach its own cluster by another way
	// than the rest of the world.
	Endpoint string
}

// CredentialsFunc returns the credential of a cluster as it is now. It is asked about once a minute per member and
// whenever a member refuses the token, so it should read from a cache. It may be called from several goroutines.
type CredentialsFunc func(ctx context.Context, cluster *clusterv1alpha1.Cluster) (Credential, error)

const (
	// credentialAge is how long a credential is used before it is asked for again.
	credentialAge = time.Minute
	// credentialPause bounds how often a member that refuses our token makes us ask.
	credentialPause = 2 * time.Second
)

// wallet remembers the credential of one member.
type wallet struct {
	clock clock.PassiveClock
	fetch func(context.Context) (Credential, error)

	mu      sync.Mutex
	current Credential
	fetched time.Time // zero: never, or told to ask again
}

// get returns a credential that was asked for at most maxAge ago. A known one is better than none: it outlives a
// failure to renew it.
func (w *wallet) get(ctx context.Context, maxAge time.Duration) (Credential, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fetched.IsZero() && w.clock.Since(w.fetched) < maxAge {
		return w.current, nil
	}
	fresh, err := w.fetch(ctx)
	switch {
	case err == nil:
		w.current, w.fetched = fresh, w.clock.Now()
	case w.fetched.IsZero():
		return Credential{}, fmt.Errorf("getting the credential of the member: %w", err)
	}
	return w.current, nil
}

// expire makes the next get ask again.
func (w *wallet) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fetched = time.Time{}
}

// sameTrust tells whether both credentials lead to the same TLS connection.
func (c Credential) sameTrust(other Credential) bool {
	return c.Endpoint == other.Endpoint &&
		bytes.Equal(c.CABundle, other.CABundle) &&
		bytes.Equal(c.Certificate, other.Certificate) &&
		bytes.Equal(c.Key, other.Key)
}
