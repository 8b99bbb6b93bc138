package resourceclaims_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/apiserver"
)

// hub is the one server all tests of this package share: upstream keeps state per process.
var hub *apiserver.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "resourceclaims-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	hub, err = apiserver.Start(ctx, apiserver.Config{DataDir: dir, NoFsync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := hub.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
