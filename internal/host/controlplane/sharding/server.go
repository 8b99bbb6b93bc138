package sharding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
)

const (
	// requestTimeout bounds a read of Leases, so that one without an answer leaves time for others before the deadline of the renewal.
	requestTimeout = 2 * time.Second
	// forgetAfter is the age at which the Lease of a server that is gone is deleted. It is far above the time after which the server may
	// write nothing.
	forgetAfter = time.Minute
	// identitySeparator is between the identities of a view in an annotation. Names of machines have none.
	identitySeparator = ","
)

// ErrLost is the reason why a server ends its connections: its Lease was not renewed in time.
var ErrLost = errors.New("the Lease of this server was not renewed in time: other servers may serve its members")

// Config is what a Server needs. All fields are required.
type Config struct {
	// Leases are those in the namespace karmada-system. The client must not be one of leader.Term.Fence.
	Leases coordinationv1client.LeaseInterface
	// Key stays when the server starts again, and is that of no other server.
	Key string
	// ID makes the identity of the server unique.
	ID string
	// URL is where other servers reach the API of this one.
	URL string
	// Election is the identity of the server as a candidate for the leader.
	Election string
	// CatchUp returns nil once the caches of this server have all that was written before the call. It is a function because the caches belong
	// to the loops.
	CatchUp func(context.Context) error
	// Clock decides how old a renewal is.
	Clock clock.WithTicker
}

// Server is this server among those of the control plane, from the creation of its Lease to its end.
type Server struct {
	config Config
	term   *leader.Term
	// turns is held while the Lease is used.
	turns sync.Mutex
	lease *lease

	mu    sync.Mutex
	table table
	state string
	// snapshots are the table when the caches last caught up, and after each change since. A member that another server had in one of them
	// may have been written to from newer objects than the caches have.
	snapshots   []snapshot
	subscribers []func()
}

// snapshot is a table at a time.
type snapshot struct {
	table table
	at    time.Time
}

// New returns a Server that serves nothing before Start.
func New(config Config) *Server {
	l := &lease{config: config, identity: config.Key + keySeparator + config.ID}
	return &Server{
		config: config, lease: l, term: leader.NewTerm(l, config.Clock),
		table:     table{self: l.identity, peers: map[string]*peer{}},
		snapshots: []snapshot{{table: table{self: l.identity}}},
	}
}

// Term holds while this server may write to what it serves.
func (s *Server) Term() *leader.Term { return s.term }

// MayWrite returns an error unless this server serves a member, and renewed its Lease in time.
func (s *Server) MayWrite(member string) error {
	if err := s.term.Check(); err != nil {
		return err
	}
	if !s.Serves(member) {
		return fmt.Errorf("another server serves cluster %s", member)
	}
	return nil
}

// Serves returns whether a member is assigned to this server.
func (s *Server) Serves(member string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, before := range s.snapshots {
		if !before.table.serves(member, before.at) {
			return false
		}
	}
	return s.table.serves(member, s.config.Clock.Now())
}

// Peer returns the address of the server that serves a member, and false if there is none, or it is this one.
func (s *Server) Peer(member string) (url string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.table.server(member, s.config.Clock.Now())
	return p.url, ok
}

// Subscribe has f called when other members may be served than before. F must not block.
func (s *Server) Subscribe(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, f)
}

// Start renews the Lease until the context is done, and returns ErrLost if that fails for too long.
func (s *Server) Start(ctx context.Context) error {
	ticker := s.config.Clock.NewTicker(leader.RetryPeriod)
	defer ticker.Stop()
	logger, held := log.FromContext(ctx).WithName("sharding"), false
	for failed := false; ; {
		err := s.turn(ctx)
		if err == nil && !held {
			logger.Info("This server has a Lease, and takes its share of the members", "lease", s.lease.name())
		}
		held = held || err == nil
		if err != nil && !failed && ctx.Err() == nil {
			logger.Error(err, "The Lease of this server is not renewed, trying again", "lease", s.lease.name())
		}
		if failed = err != nil; held && s.term.Check() != nil && ctx.Err() == nil {
			return ErrLost
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// Release ends the right to write, waits for writes to the control plane that have no answer yet, and deletes the Lease, so that others
// take the members over at once.
func (s *Server) Release(ctx context.Context) error {
	s.term.Drain()
	s.turns.Lock()
	defer s.turns.Unlock()
	if s.lease.present == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return remove(ctx, s.config.Leases, s.lease.name(), metav1.NewUIDPreconditions(string(s.lease.present.UID)))
}

// turn reads the Leases of all servers, decides which members are served, and renews the own Lease.
func (s *Server) turn(ctx context.Context) error {
	s.turns.Lock()
	defer s.turns.Unlock()
	all, holder, err := s.read(ctx)
	if err != nil {
		return err
	}
	view, gone, changed := s.decide(all, holder)
	if changed { // before others may serve what this server has released
		s.notify()
	}
	if err := s.renew(ctx, view); err != nil {
		return err
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	var errs []error
	for _, identity := range gone {
		errs = append(errs, remove(ctx, s.config.Leases, nameOf(identity), nil))
	}
	return errors.Join(errs...)
}

// decide returns the view to store, the peers whose Leases are to be deleted, and whether other members may be served than before.
func (s *Server) decide(all []published, holder string) (view, gone []string, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Clock.Now()
	s.table.read(all, holder, now)
	s.table.plan(now)
	view, gone = s.table.due(now), s.table.gone(holder, now)
	s.table.tried = view
	state := s.table.state(now)
	if changed = state != s.state; changed {
		s.state = state
		s.snapshots = append(s.snapshots, snapshot{s.table.clone(), now})
	}
	return view, gone, changed
}

// renew writes the Lease.
func (s *Server) renew(ctx context.Context, view []string) error {
	s.lease.view = view
	write := s.term.Update
	if s.lease.present == nil {
		write = s.term.Create
	}
	if err := write(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: s.lease.identity}); err != nil {
		return fmt.Errorf("renewing the Lease %s: %w", s.lease.name(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.wrote(view)
	return nil
}

// catchUp has the members served that came to this server, once the caches have what the servers wrote that had them.
func (s *Server) catchUp(ctx context.Context) error {
	s.mu.Lock()
	behind := len(s.snapshots) > 1
	s.mu.Unlock()
	if !behind {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := s.config.CatchUp(ctx); err != nil {
		return fmt.Errorf("reading what other servers wrote: %w", err)
	}
	s.mu.Lock()
	s.snapshots = s.snapshots[len(s.snapshots)-1:]
	s.mu.Unlock()
	s.notify()
	return nil
}

func (s *Server) notify() {
	s.mu.Lock()
	subscribers := slices.Clone(s.subscribers)
	s.mu.Unlock()
	for _, f := range subscribers {
		f()
	}
}

// read returns what is in the Leases of all servers, and the identity that has the Lease of the leader.
func (s *Server) read(ctx context.Context) (all []published, holder string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	present, err := list(ctx, s.config.Leases)
	if err != nil {
		return nil, "", err
	}
	for i := range present {
		p := publishedIn(&present[i])
		if p.identity == s.lease.identity { // also after a write whose answer was lost
			s.lease.present = &present[i]
		}
		all = append(all, p)
	}
	election, err := s.config.Leases.Get(ctx, leader.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return all, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("reading the Lease of the leader: %w", err)
	}
	if election.Spec.HolderIdentity != nil {
		holder = *election.Spec.HolderIdentity
	}
	return all, holder, nil
}

// remove deletes a Lease, unless it is gone or another one.
func remove(ctx context.Context, leases coordinationv1client.LeaseInterface, name string, only *metav1.Preconditions) error {
	err := leases.Delete(ctx, name, metav1.DeleteOptions{Preconditions: only})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the Lease %s: %w", name, err)
	}
	return nil
}

// nameOf is the name of the Lease of a server: identities have characters that names may not have.
func nameOf(identity string) string {
	return "flagship-server-" + identity[strings.LastIndex(identity, keySeparator)+1:]
}

// Unshared lets a server that serves all members as the leader lead only when no other server serves a share of them.
type Unshared struct {
	Leases coordinationv1client.LeaseInterface
	Clock  clock.PassiveClock

	mu    sync.Mutex
	table table
}

// Check returns an error while another server may serve members. It deletes the Leases of those that are gone.
func (u *Unshared) Check(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	present, err := list(ctx, u.Leases)
	if err != nil {
		return err
	}
	if u.table.peers == nil {
		u.table.peers = map[string]*peer{}
	}
	all := make([]published, len(present))
	for i := range present {
		all[i] = publishedIn(&present[i])
	}
	now := u.Clock.Now()
	u.table.read(all, "", now)
	var errs []error
	for identity, p := range u.table.peers {
		switch {
		case !p.alive(now):
			errs = append(errs, remove(ctx, u.Leases, nameOf(identity), nil))
		case len(p.view) > 0:
			errs = append(errs, fmt.Errorf("server %s serves a share of the members: start all servers of the control plane with --shard-members, or none", p.url))
		}
	}
	return errors.Join(errs...)
}

// list reads the Leases of all servers.
func list(ctx context.Context, leases coordinationv1client.LeaseInterface) ([]coordinationv1.Lease, error) {
	found, err := leases.List(ctx, metav1.ListOptions{LabelSelector: clusterv1alpha1.ServerLabel})
	if err != nil {
		return nil, fmt.Errorf("listing the Leases of servers: %w", err)
	}
	return found.Items, nil
}

func publishedIn(l *coordinationv1.Lease) published {
	p := published{
		url: l.Annotations[clusterv1alpha1.ServerURLAnnotation], election: l.Annotations[clusterv1alpha1.ServerElectionAnnotation],
		version: l.ResourceVersion,
	}
	if l.Spec.HolderIdentity != nil {
		p.identity = *l.Spec.HolderIdentity
	}
	if view := l.Annotations[clusterv1alpha1.ServerViewAnnotation]; view != "" {
		p.view = strings.Split(view, identitySeparator)
	}
	return p
}

// lease is the Lease of this server as the lock of a leader.Term: no other server has it.
type lease struct {
	config   Config
	identity string
	view     []string
	present  *coordinationv1.Lease
}

var _ resourcelock.Interface = &lease{}

func (l *lease) name() string { return nameOf(l.identity) }

// wanted is the Lease to write.
func (l *lease) wanted() *coordinationv1.Lease {
	out := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.SystemNamespace, Name: l.name()}}
	if l.present != nil {
		out = l.present.DeepCopy()
	}
	metav1.SetMetaDataLabel(&out.ObjectMeta, clusterv1alpha1.ServerLabel, "")
	metav1.SetMetaDataLabel(&out.ObjectMeta, clusterv1alpha1.SystemLabel, clusterv1alpha1.SystemLabelValue)
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, clusterv1alpha1.ServerURLAnnotation, l.config.URL)
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, clusterv1alpha1.ServerElectionAnnotation, l.config.Election)
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, clusterv1alpha1.ServerViewAnnotation, strings.Join(l.view, identitySeparator))
	out.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &l.identity, LeaseDurationSeconds: new(int32(leader.Duration / time.Second)), RenewTime: &metav1.MicroTime{Time: l.config.Clock.Now()},
	}
	return out
}

// Get implements resourcelock.Interface.
func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.identity}, nil, nil
}

// Create implements resourcelock.Interface.
func (l *lease) Create(ctx context.Context, _ resourcelock.LeaderElectionRecord) (err error) {
	created, err := l.config.Leases.Create(ctx, l.wanted(), metav1.CreateOptions{})
	if err == nil {
		l.present = created
	}
	return err
}

// Update implements resourcelock.Interface. The error for a Lease that was deleted is final: others hold this server to be gone.
func (l *lease) Update(ctx context.Context, _ resourcelock.LeaderElectionRecord) (err error) {
	updated, err := l.config.Leases.Update(ctx, l.wanted(), metav1.UpdateOptions{})
	if err == nil {
		l.present = updated
	}
	return err
}

// RecordEvent implements resourcelock.Interface.
func (*lease) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *lease) Identity() string { return l.identity }

// Describe implements resourcelock.Interface.
func (l *lease) Describe() string { return l.name() }
