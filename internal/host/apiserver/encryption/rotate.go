package encryption

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

// ReloadPeriod is how often an API server reads its encryption configuration again.
const ReloadPeriod = 5 * time.Second

const (
	// loadPatience is how long a server may take to load a changed configuration.
	loadPatience = 2 * time.Minute
	// loadPoll is how often that is read.
	loadPoll = time.Second
	// inFlight is how long a write may take from its encryption to etcd.
	inFlight = 5 * time.Second
	// loadedMetric is the metric of the API server that holds the hash of the configuration it has loaded.
	loadedMetric = "apiserver_encryption_config_controller_last_config_info{"
)

// Step is one of the steps of a rotation, in their order.
type Step string

// The steps of a rotation. With several servers on one etcd, each of them must have loaded the keys of a step before the next.
const (
	// Add makes a new key, with which servers only decrypt at first.
	Add Step = "add"
	// Use has servers encrypt with the newest key.
	Use Step = "use"
	// Rewrite stores all objects anew.
	Rewrite Step = "rewrite"
	// Remove removes all keys but the newest.
	Remove Step = "remove"
)

// Steps are all of them, in their order.
func Steps() []Step { return []Step{Add, Use, Rewrite, Remove} }

// Rotate changes the built-in encryption key of the running server with this data directory, which the client configuration
// leads to. It calls report with a line of text for each thing that was done.
func Rotate(ctx context.Context, dataDir string, server *rest.Config, report func(string), steps ...Step) error {
	return Rotation{
		KeyFile: filepath.Join(dataDir, "pki", KeyFile), ConfigFile: filepath.Join(dataDir, configFile),
		Server: server, Clock: clock.RealClock{}, Report: report,
	}.Run(ctx, steps...)
}

// Rotation changes the key of a running server.
type Rotation struct {
	// KeyFile and ConfigFile are the files of that server.
	KeyFile, ConfigFile string
	// Server leads to its API.
	Server *rest.Config
	// Clock names new keys and paces the waiting.
	Clock clock.WithTicker
	// Report is called with a line of text for each thing that was done.
	Report func(string)
}

// ErrNotBuiltIn means that a server has no built-in encryption of which a key could be changed.
var ErrNotBuiltIn = errors.New("the server does not encrypt with a key of its own: " +
	"it has its own --encryption-provider-config, or --plain-secrets, or has never been started")

// Run takes the given steps. All steps together can be run again after a failure: a rotation that has begun is continued.
func (r Rotation) Run(ctx context.Context, steps ...Step) error {
	config, err := os.ReadFile(r.ConfigFile)
	if errors.Is(err, os.ErrNotExist) {
		return ErrNotBuiltIn
	}
	if err != nil {
		return fmt.Errorf("reading the encryption configuration: %w", err)
	}
	if plain, err := isPlain(config); err != nil {
		return err
	} else if plain {
		return ErrNotBuiltIn
	}
	rewriter, err := NewRewriter(r.Server)
	if err != nil {
		return err
	}
	for _, step := range steps {
		text, err := os.ReadFile(r.KeyFile)
		if err != nil {
			return fmt.Errorf("reading the encryption keys: %w", err)
		}
		keys, err := ParseKeys(text)
		if err != nil {
			return fmt.Errorf("reading %s: %w", r.KeyFile, err)
		}
		if err := r.take(ctx, step, keys, rewriter); err != nil {
			return fmt.Errorf("step %s: %w", step, err)
		}
	}
	return nil
}

func (r Rotation) take(ctx context.Context, step Step, keys Keys, rewriter *Rewriter) error {
	switch step {
	case Add:
		if len(keys) > 1 {
			r.Report(fmt.Sprintf("there is a newer key already: %s", keys[keys.newest()].Name))
			return r.load(ctx, keys)
		}
		key, err := NewKey(r.Clock.Now())
		if err != nil {
			return err
		}
		r.Report(fmt.Sprintf("made key %s", key.Name))
		return r.load(ctx, append(keys, key))
	case Use:
		newest := keys.newest()
		keys[0], keys[newest] = keys[newest], keys[0]
		r.Report(fmt.Sprintf("encrypting with %s", keys[0].Name))
		return r.load(ctx, keys)
	case Rewrite:
		if err := r.load(ctx, keys); err != nil {
			return err
		}
		// A write that was encrypted with the old key may still be on its way to etcd.
		if err := r.pause(ctx, inFlight); err != nil {
			return err
		}
		if err := rewriter.Rewrite(ctx, r.tell); err != nil {
			return err
		}
		return rewriter.record(ctx, keys, false)
	case Remove:
		done, err := rewriter.recorded(ctx, keys, false)
		if err != nil {
			return err
		}
		if !done || keys.newest() != 0 {
			return fmt.Errorf("not every object is stored with the newest key: run the steps %s and %s before", Use, Rewrite)
		}
		if len(keys) > 1 { // what is not rewritten now cannot be read any more
			if err := rewriter.Rewrite(ctx, func(Progress) {}); err != nil {
				return err
			}
		}
		for _, key := range keys[1:] {
			r.Report(fmt.Sprintf("removing key %s", key.Name))
		}
		return r.load(ctx, keys[:1])
	}
	return fmt.Errorf("unknown step %q", step)
}

func (r Rotation) tell(p Progress) { r.Report(p.String()) }

// load writes keys and configuration, and returns when the server has loaded them. The key file comes first: a server that
// starts in between makes its configuration of it.
func (r Rotation) load(ctx context.Context, keys Keys) error {
	config, err := Configuration(keys, false)
	if err != nil {
		return err
	}
	if err := replace(r.KeyFile, keys.Text()); err != nil {
		return err
	}
	if err := replace(r.ConfigFile, config); err != nil {
		return err
	}
	return r.awaitLoaded(ctx, fmt.Sprintf("sha256:%x", sha256.Sum256(config)))
}

func replace(path string, text []byte) error {
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, text) {
		return nil
	}
	return atomicfile.Write(path, text, 0o600)
}

// awaitLoaded waits until the server reports that it has loaded the configuration with this hash.
func (r Rotation) awaitLoaded(ctx context.Context, hash string) error {
	client, err := kubernetes.NewForConfig(r.Server)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, loadPatience)
	defer cancel()
	tick := r.Clock.NewTicker(loadPoll)
	defer tick.Stop()
	for {
		metrics, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("reading which configuration the server has loaded: %w", err)
		}
		if hasLoaded(metrics, hash) {
			return nil
		}
		select {
		case <-tick.C():
		case <-ctx.Done():
			return fmt.Errorf("the server has not loaded the changed configuration %s: %w", r.ConfigFile, ctx.Err())
		}
	}
}

func (r Rotation) pause(ctx context.Context, d time.Duration) error {
	timer := r.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func hasLoaded(metrics []byte, hash string) bool {
	for line := range strings.Lines(string(metrics)) {
		if strings.HasPrefix(line, loadedMetric) {
			return strings.Contains(line, `hash="`+hash+`"`)
		}
	}
	return false
}
