package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clockTicks is the unit of CPU time in /proc, which Linux fixes at 100 per second for user space.
const clockTicks = 100

// Fleet is a running hub with its members.
type Fleet struct {
	cmd *exec.Cmd
	dir string
	// reading drops what the process prints once it is ready, until it ends.
	reading sync.WaitGroup
	Hub     *rest.Config
	Members map[string]*rest.Config
}

// startFleet runs `flagship up` with bare members and waits until it is ready.
func Start(ctx context.Context, binary string, members int, log io.Writer, flags ...string) (*Fleet, error) {
	dir, err := os.MkdirTemp("", "flagship-bench-")
	if err != nil {
		return nil, fmt.Errorf("creating a data directory: %w", err)
	}
	args := append([]string{"up", "--bare", "--members", strconv.Itoa(members), "--data-dir", dir, "--profiling"}, flags...)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("opening the output of the playground: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the playground: %w", err)
	}
	f := &Fleet{cmd: cmd, dir: dir, Members: map[string]*rest.Config{}}
	if err := f.waitReady(out, log); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	if f.Hub, err = clientConfig(filepath.Join(dir, "hub.kubeconfig")); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	for i := 1; i <= members; i++ {
		name := fmt.Sprintf("member%d", i)
		if f.Members[name], err = clientConfig(filepath.Join(dir, name+".kubeconfig")); err != nil {
			return nil, errors.Join(err, f.Stop())
		}
	}
	return f, nil
}

// Serve runs `flagship server` on a data directory, which outlives it, and waits until it is ready. End it with End.
func Serve(ctx context.Context, binary, dir string, port int, log io.Writer, flags ...string) (*Fleet, error) {
	args := append([]string{"server", "--data-dir", dir, "--port", strconv.Itoa(port), "--allow-loopback-members", "--profiling"}, flags...)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("opening the output of the control plane: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	f := &Fleet{cmd: cmd, dir: dir}
	if err := f.waitReady(out, io.Discard); err != nil {
		return nil, errors.Join(err, f.End())
	}
	if f.Hub, err = clientConfig(filepath.Join(dir, "hub.kubeconfig")); err != nil {
		return nil, errors.Join(err, f.End())
	}
	return f, nil
}

// ServeAlso is Serve with a server of the same control plane as one that runs, on the same etcd, with the keys of that one.
func ServeAlso(ctx context.Context, binary string, first *Fleet, dir string, port int, log io.Writer, flags ...string) (*Fleet, error) {
	if err := os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(filepath.Join(first.dir, "pki"))); err != nil {
		return nil, fmt.Errorf("copying the keys of the control plane: %w", err)
	}
	return Serve(ctx, binary, dir, port, log, flags...)
}

// End ends the process and leaves its files.
func (f *Fleet) End() error {
	err := f.cmd.Process.Signal(syscall.SIGTERM)
	if err == nil {
		f.Wait()
	}
	return err
}

// Signal sends the process a signal, and does not wait for what follows.
func (f *Fleet) Signal(s os.Signal) error {
	if err := f.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %v to the control plane: %w", s, err)
	}
	return nil
}

// Wait returns when the process has ended.
func (f *Fleet) Wait() {
	f.reading.Wait()
	_ = f.cmd.Wait() // how it ends is no result
}

func (f *Fleet) waitReady(out io.Reader, log io.Writer) error {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Fprintln(log, "  "+lines.Text())
		if strings.HasPrefix(lines.Text(), "Flagship is ready") {
			f.reading.Go(func() { _, _ = io.Copy(io.Discard, out) })
			return nil
		}
	}
	return errors.New("the playground ended before it was ready")
}

// clientConfig reads a kubeconfig. The bench must not be what is slow, so it does not throttle itself, and has nothing compressed: an API
// server compresses each event of a watch by itself, which is work of the measured process that is there only because it is measured.
func clientConfig(file string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	cfg.QPS = -1
	cfg.DisableCompression = true
	return cfg, nil
}

// Stop ends the fleet and removes its files.
func (f *Fleet) Stop() error {
	return errors.Join(f.End(), os.RemoveAll(f.dir))
}

// Usage is what the hub process has consumed since it started.
type Usage struct {
	Cpu     time.Duration
	Rss     int64 // bytes, and of these
	Own     int64 // what is no part of a file
	PeakRSS int64 // bytes
}

// Dir is the data directory of the playground.
func (f *Fleet) Dir() string { return f.dir }

func (f *Fleet) Usage() (Usage, error) { return UsageOf(f.cmd.Process.Pid) }

// UsageOf is what any process has consumed.
func UsageOf(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("reading the hub's CPU time: %w", err)
	}
	// The second field is the command in parentheses and may hold spaces; utime and stime are fields 14 and 15.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int64
	for _, s := range fields[11:13] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("parsing the hub's CPU time: %w", err)
		}
		ticks += n
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("reading the hub's memory: %w", err)
	}
	u := Usage{Cpu: time.Duration(ticks) * time.Second / clockTicks}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		into, wanted := map[string]*int64{"VmHWM": &u.PeakRSS, "VmRSS": &u.Rss, "RssAnon": &u.Own}[name]
		if !wanted {
			continue
		}
		kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("parsing the hub's memory: %w", err)
		}
		*into = kib << 10
	}
	return u, nil
}

// Pause waits for a time.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
