package faults_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// diskSize is that of a file system in MiB: the storage of an API server takes half of it at its start.
	diskSize = 320
	// exitUnwritable is the exit code of a process whose file system is full.
	exitUnwritable = 3
)

// TestDisksAreFull: the file systems of a control plane, a member and an agent are really full.
func TestDisksAreFull(t *testing.T) {
	fleettest.Nightly(t, "it fills three file systems, which takes 110 s; the tests of package etcd guard what is reported")
	t.Parallel()
	if !fleettest.InOwnMounts(t) {
		return
	}
	disk := fleettest.StartDisk(t, diskSize)
	hub := fleettest.StartHubIn(t, filepath.Join(disk.Dir, "hub"), append(slices.Clone(shortTimes), "--enable-bootstrap-token-auth")...)
	t.Run("OfTheControlPlane", func(t *testing.T) { hubsDiskIsFull(t, hub, disk) })
	t.Run("OfAMember", func(t *testing.T) { t.Parallel(); membersDiskIsFull(t, hub) })
	t.Run("OfAnAgent", func(t *testing.T) { t.Parallel(); agentsDiskIsFull(t, hub) })
}

// hubsDiskIsFull: the control plane ends with what to do, nothing happens in its member, and once there is space it goes on with everything
// that it had accepted.
func hubsDiskIsFull(t *testing.T, hub *fleettest.Part, disk *fleettest.Disk) {
	member := fleettest.StartMember(t, "near", "--bare")
	hub.Join(t, "near", member.Kubeconfig)
	g := newGround(t, hub.Cluster, member.Cluster, "near")
	g.put("kept", 4, "1")
	g.converges()
	before := uids(t, member.Cluster, g.ns)

	disk.Fill(t)
	accepted := createUntilEnd(t, hub, namespace(t, hub.Cluster, "filler"))
	hub.ExpectEnd(t, exitUnwritable, "is full (")
	// A start that needs space fails in the same way; one that needs none serves until it needs some.
	starting, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := hub.Launch(t)(starting); err != nil {
		hub.ExpectEnd(t, exitUnwritable, "free space there and start again")
	} else {
		hub.Kill()
	}
	disk.Free(t)
	hub.Start(t)

	for _, name := range accepted {
		fleettest.ExpectEventually(t, hub.Cluster, fleettest.ConfigMap("filler", name, nil), fleettest.Exists)
	}
	g.put("kept", 1, "2")
	g.put("late", 2, "1")
	g.converges()
	expectSame(t, before, uids(t, member.Cluster, g.ns))
}

// createUntilEnd creates large ConfigMaps until an API server ends, and returns the names of those that it accepted.
func createUntilEnd(t *testing.T, server *fleettest.Part, ns string) (accepted []string) {
	t.Helper()
	text := map[string]string{"filler": strings.Repeat("x", 900<<10)}
	tries := 0
	eventually(t, server.Name+" ends", func(ctx context.Context) error {
		for {
			if len(accepted) > 2*diskSize {
				t.Fatal("it stores more than its file system takes")
			}
			name := fmt.Sprintf("large-%d", tries)
			tries++
			// A server that is about to end may refuse at once, or not answer at all.
			once, cancel := context.WithTimeout(ctx, 10*time.Second)
			err := server.Create(once, fleettest.ConfigMap(ns, name, text))
			cancel()
			if err == nil {
				accepted = append(accepted, name)
			}
			select {
			case <-server.Ended():
				t.Logf("it ended after it had accepted %d of %d objects", len(accepted), tries)
				return nil
			default:
			}
			if err != nil {
				return fmt.Errorf("it runs, and refuses an object: %w", err)
			}
		}
	})
	return accepted
}

// membersDiskIsFull: its API server ends. Its Cluster is not ready, and when it is back it gets what was missed.
func membersDiskIsFull(t *testing.T, hub *fleettest.Part) {
	disk := fleettest.StartDisk(t, diskSize)
	member := fleettest.StartMemberIn(t, disk.Dir, "cramped", "--bare")
	hub.Join(t, "cramped", member.Kubeconfig)
	g := newGround(t, hub.Cluster, member.Cluster, "cramped")
	g.put("kept", 4, "1")
	g.converges()
	before := uids(t, member.Cluster, g.ns)

	disk.Fill(t)
	createUntilEnd(t, member, bystanding)
	member.ExpectEnd(t, exitUnwritable, "is full (")
	fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("cramped"), func(c *clusterv1alpha1.Cluster) error {
		if fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady) == nil {
			return errors.New("it is ready")
		}
		return nil
	})
	g.put("kept", 1, "2")
	g.put("late", 2, "1")
	disk.Free(t)
	member.Start(t)
	g.converges()
	expectSame(t, before, uids(t, member.Cluster, g.ns))
}

// agentsDiskIsFull: the agent has nothing to write but its certificate, so that it starts and works. The certificate that it cannot write is
// obtained again once there is space.
func agentsDiskIsFull(t *testing.T, hub *fleettest.Part) {
	member := fleettest.StartMember(t, "far", "--bare")
	disk := fleettest.StartDisk(t, 1)
	agent := hub.StartAgentIn(t, disk.Dir, "far", member.Kubeconfig)
	g := newGround(t, hub.Cluster, member.Cluster, "far")
	g.put("kept", 2, "1")
	g.converges()

	agent.Kill()
	old := issueEarlier(t, hub, agent, "far", 20*24*time.Hour)
	disk.Fill(t)
	agent.Start(t)
	g.put("kept", 2, "2")
	g.converges()
	eventually(t, "the agent reports that it cannot write its certificate", func(context.Context) error {
		if !strings.Contains(agent.Output(), "no space left on device") {
			return errors.New("its log does not have it")
		}
		return nil
	})
	if serial(t, agent) != old {
		t.Fatal("it wrote a certificate to a full file system")
	}
	disk.Free(t)
	eventually(t, "the certificate is renewed", func(context.Context) error {
		if serial(t, agent) == old {
			return errors.New("it is the old one")
		}
		return nil
	})
	g.put("late", 1, "1")
	g.converges()
}
