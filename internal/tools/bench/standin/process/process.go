package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/bench/standin"
	"github.com/flagship-k8s/flagship/internal/tools/playground/child"
)

// Serve runs stand-ins in this process, prints how to reach them, and ends with its input.
func Serve(ctx context.Context, count int, in io.Reader, out io.Writer) error {
	ctx, cancel := child.Bind(ctx, in)
	defer cancel()
	s, err := standin.Start(ctx, count)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(s.Description); err != nil {
		cancel()
		s.Wait()
		return fmt.Errorf("printing the addresses: %w", err)
	}
	<-ctx.Done()
	s.Wait()
	return nil
}

// StandIns are stand-ins in a child process, so that their CPU and memory are not those of the bench.
type StandIns struct {
	standin.Description
	cmd *exec.Cmd
	end io.Closer
}

// Start runs stand-ins until Stop. The binary is that of flagship.
func Start(ctx context.Context, binary string, count int, log io.Writer) (*StandIns, error) {
	cmd := exec.CommandContext(ctx, binary, "bench", "stand-ins", "--count", strconv.Itoa(count))
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("opening the input of the stand-ins: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("opening the output of the stand-ins: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the stand-ins: %w", err)
	}
	s := &StandIns{cmd: cmd, end: in}
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&s.Description); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the addresses of the stand-ins: %w", err), s.Stop())
	}
	return s, nil
}

// Stop ends the process.
func (s *StandIns) Stop() error {
	err := s.end.Close()
	_ = s.cmd.Wait() // how it ends is no result
	return err
}

// Config leads to one stand-in as its administrator.
func (s *StandIns) Config(i int) *rest.Config {
	m := s.Members[i]
	return &rest.Config{Host: m.URL, BearerToken: m.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}}
}

// Usage is what the process has consumed.
func (s *StandIns) Usage() (fleet.Usage, error) { return fleet.UsageOf(s.cmd.Process.Pid) }

// call sends a control request and decodes the answer.
func (s *StandIns) call(ctx context.Context, method, path string, query url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, s.Control+path+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("building a request for the stand-ins: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("sending a request to the stand-ins: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return fmt.Errorf("the stand-ins answer %s: %s", resp.Status, text)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of the stand-ins: %w", err)
	}
	return nil
}

// Set has some of the stand-ins, from the first one on, be in a mode.
func (s *StandIns) Set(ctx context.Context, mode standin.Mode, first, count int) error {
	return s.call(ctx, http.MethodPost, "/mode", url.Values{
		"mode": {string(mode)}, "first": {strconv.Itoa(first)}, "count": {strconv.Itoa(count)},
	}, nil)
}

// Statistics counts what was sent to the stand-ins.
func (s *StandIns) Statistics(ctx context.Context) (found standin.Statistics, err error) {
	return found, s.call(ctx, http.MethodGet, "/statistics", nil, &found)
}

// Arrivals returns when an object was first there, by member.
func (s *StandIns) Arrivals(ctx context.Context, resource, namespace, name string) (map[int]time.Time, error) {
	var list []standin.Arrival
	err := s.call(ctx, http.MethodGet, "/arrivals", url.Values{"resource": {resource}, "namespace": {namespace}, "name": {name}}, &list)
	found := make(map[int]time.Time, len(list))
	for _, a := range list {
		found[a.Member] = a.At
	}
	return found, err
}
