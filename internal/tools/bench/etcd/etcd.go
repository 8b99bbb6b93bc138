package etcd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/flagship-k8s/flagship/internal/tools/playground/child"
	"github.com/flagship-k8s/flagship/internal/tools/playground/machine"
)

// Serve runs etcd on a directory in this process, prints its URL, and ends with its input.
func Serve(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	ports := machine.NewPortChooser()
	defer ports.Close()
	config := embed.NewConfig()
	config.Dir, config.LogLevel = dir, "error"
	config.ListenClientUrls, config.ListenPeerUrls = make([]url.URL, 1), make([]url.URL, 1)
	for _, at := range [][]url.URL{config.ListenClientUrls, config.ListenPeerUrls} {
		port, err := ports.Choose()
		if err != nil {
			return err
		}
		at[0] = url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	}
	config.AdvertiseClientUrls, config.AdvertisePeerUrls = config.ListenClientUrls, config.ListenPeerUrls
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return fmt.Errorf("starting etcd: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, err := fmt.Fprintln(out, config.ListenClientUrls[0].String()); err != nil {
		return fmt.Errorf("printing the address of etcd: %w", err)
	}
	ctx, cancel := child.Bind(ctx, in)
	defer cancel()
	select {
	case err := <-server.Err():
		return fmt.Errorf("running etcd: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// Process is a server of etcd in a child process.
type Process struct {
	// URL is where its clients connect to, without TLS.
	URL string
	cmd *exec.Cmd
	end io.Closer
}

// Start runs a server of etcd on a directory until Stop. The binary is that of flagship.
func Start(ctx context.Context, binary, dir string, log io.Writer) (*Process, error) {
	cmd := exec.CommandContext(ctx, binary, "bench", "etcd", "--dir", dir)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("opening the input of etcd: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("opening the output of etcd: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	p := &Process{cmd: cmd, end: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the address of etcd: %w", err), p.Stop())
	}
	p.URL = strings.TrimSpace(line)
	return p, nil
}

// Stop ends the process.
func (p *Process) Stop() error {
	err := p.end.Close()
	_ = p.cmd.Wait() // how it ends is no result
	return err
}
