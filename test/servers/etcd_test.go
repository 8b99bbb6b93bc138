package servers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// memberVar names the environment variable with which this program is a server of etcd instead of a test: its memberOf as JSON.
const memberVar = "FLAGSHIP_TEST_ETCD"

// memberOf is one server of an etcd cluster.
type memberOf struct {
	Name, Dir, Client, Peer, Cluster string
}

// TestMain runs the tests, or a server of etcd until its standard input ends, which it does with the test.
func TestMain(m *testing.M) {
	text := os.Getenv(memberVar)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := serveEtcd(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveEtcd(text string) error {
	var member memberOf
	if err := json.Unmarshal([]byte(text), &member); err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Name, config.Dir, config.InitialCluster = member.Name, member.Dir, member.Cluster
	config.LogLevel, config.UnsafeNoFsync = "fatal", true // the test kills processes, not the machine
	at := func(address string) []url.URL { return []url.URL{{Scheme: "http", Host: address}} }
	config.ListenClientUrls, config.AdvertiseClientUrls = at(member.Client), at(member.Client)
	config.ListenPeerUrls, config.AdvertisePeerUrls = at(member.Peer), at(member.Peer)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	server.Close()
	return err
}

// etcdCluster is a cluster of three servers, each in a process.
type etcdCluster struct {
	members []memberOf
	running []*exec.Cmd
	// client reaches all of them.
	client *clientv3.Client
}

// startEtcd runs a cluster until the test ends.
func startEtcd(t *testing.T) *etcdCluster {
	t.Helper()
	const size = 3
	dir := t.TempDir()
	c := &etcdCluster{members: make([]memberOf, size), running: make([]*exec.Cmd, size)}
	peers := make([]string, size)
	for i := range c.members {
		name := fmt.Sprintf("etcd%d", i)
		c.members[i] = memberOf{Name: name, Dir: filepath.Join(dir, name), Client: freeAddress(t), Peer: freeAddress(t)}
		peers[i] = name + "=http://" + c.members[i].Peer
	}
	for i := range c.members {
		c.members[i].Cluster = strings.Join(peers, ",")
		c.start(t, i)
	}
	var err error
	c.client, err = clientv3.New(clientv3.Config{Endpoints: c.endpoints(), DialTimeout: time.Minute, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.client.Close() })
	eventually(t, "etcd has a leader", func(ctx context.Context) error {
		_, err := c.client.Get(ctx, "any")
		return err
	})
	return c
}

func freeAddress(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", fleettest.FreePort(t))
}

// start runs a server, with the data that it has.
func (c *etcdCluster) start(t *testing.T, i int) {
	t.Helper()
	text, err := json.Marshal(c.members[i])
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberVar+"="+string(text))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.running[i] = cmd
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// kill ends a server as kill -9 does.
func (c *etcdCluster) kill(i int) {
	_ = c.running[i].Process.Kill()
	_ = c.running[i].Wait()
}

func (c *etcdCluster) endpoints() []string {
	var urls []string
	for _, m := range c.members {
		urls = append(urls, "http://"+m.Client)
	}
	return urls
}

// leader returns which server leads, and the ids of all.
func (c *etcdCluster) leader(ctx context.Context) (leads int, ids []uint64, err error) {
	leads = -1
	for i, endpoint := range c.endpoints() {
		status, err := c.client.Status(ctx, endpoint)
		if err != nil {
			return -1, nil, err
		}
		ids = append(ids, status.Header.MemberId)
		if status.Leader == status.Header.MemberId {
			leads = i
		}
	}
	if leads < 0 {
		return -1, nil, fmt.Errorf("none of %v leads", ids)
	}
	return leads, ids, nil
}

// move has another server lead.
func (c *etcdCluster) move(t *testing.T) {
	t.Helper()
	eventually(t, "another server of etcd leads", func(ctx context.Context) error {
		leads, ids, err := c.leader(ctx)
		if err != nil {
			return err
		}
		at, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints()[leads : leads+1], DialTimeout: time.Minute, Logger: zap.NewNop()})
		if err != nil {
			return err
		}
		defer func() { _ = at.Close() }()
		_, err = at.MoveLeader(ctx, ids[(leads+1)%len(ids)])
		return err
	})
}

// compact drops all versions of objects but the newest.
func (c *etcdCluster) compact(t *testing.T) {
	t.Helper()
	eventually(t, "etcd is compacted", func(ctx context.Context) error {
		now, err := c.client.Get(ctx, "any")
		if err != nil {
			return err
		}
		_, err = c.client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
		return err
	})
}
