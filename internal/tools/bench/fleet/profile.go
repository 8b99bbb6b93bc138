package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	cpuProfile = "/debug/pprof/profile"
	// HeapProfile is the path of profiles of the heap.
	HeapProfile = "/debug/pprof/heap"
)

// Profile starts taking a CPU profile of the server. The returned function waits for it and adds a heap profile. Without a
// directory nothing happens.
func (s *Cluster) Profile(ctx context.Context, dir string, members, scenario int) func() error {
	if dir == "" {
		return func() error { return nil }
	}
	file := func(kind string) string {
		return filepath.Join(dir, fmt.Sprintf("%s-%d-members-%d.pprof", kind, members, scenario))
	}
	cpu := make(chan error, 1)
	go func() { cpu <- s.FetchProfile(ctx, cpuProfile, file("cpu")) }()
	return func() error {
		return errors.Join(<-cpu, s.FetchProfile(ctx, HeapProfile, file("heap")))
	}
}

// FetchProfile takes a profile and writes it to a file.
func (s *Cluster) FetchProfile(ctx context.Context, path, file string) error {
	request := s.Kube.Discovery().RESTClient().Get().AbsPath(path)
	if path == cpuProfile {
		request = request.Param("seconds", "10")
	}
	data, err := request.DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("taking a profile: %w", err)
	}
	err = os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping a profile: %w", err)
	}
	return nil
}
