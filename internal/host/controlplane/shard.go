package controlplane

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/google/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/caches"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/sharding"
)

// setupShard has the term share members with other servers, or take care that none of them does.
func (t *term) setupShard(server *apiserver.Server, o Options) error {
	leases, err := coordinationv1client.NewForConfig(server.LoopbackConfig())
	if err != nil {
		return fmt.Errorf("building a client for the leases of servers: %w", err)
	}
	if !o.ShardMembers {
		t.unshared = &sharding.Unshared{Leases: leases.Leases(clusterv1alpha1.SystemNamespace), Clock: o.Clock}
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the name of this machine for the lease of this server: %w", err)
	}
	t.shard = sharding.New(sharding.Config{
		Leases: leases.Leases(clusterv1alpha1.SystemNamespace),
		// Servers on one machine have different ports.
		Key: host + ":" + strconv.Itoa(server.Port()), ID: uuid.NewString(), URL: server.URL(), Election: t.lock.Identity(), Clock: o.Clock,
		CatchUp: func(ctx context.Context) error {
			select {
			case <-t.synced:
				return leader.CatchUp(ctx, t.caches(server))
			default:
				return errStarting
			}
		},
	})
	o.memberTerm.Store(t.shard.Term())
	t.members, err = caches.NewMemberManager(server, t.mgr, t.shard.Term())
	return err
}

// holdsShard returns an error while this server has no Lease as one that shares members: it must not lead then, since others hold a leader
// without such a Lease to be one that serves all members.
func (t *term) holdsShard() error {
	if t.shard == nil {
		return nil
	}
	return t.shard.Term().Check()
}

// alone returns an error while a server serves members that this one would serve as the leader, too.
func (t *term) alone(ctx context.Context) error {
	if t.unshared == nil {
		return nil
	}
	return t.unshared.Check(ctx)
}
