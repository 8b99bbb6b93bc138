package settings_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	clocktesting "k8s.io/utils/clock/testing"

	configurationv1alpha1 "github.com/flagship-k8s/flagship/api/configuration/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli/settings"
)

// TestEveryFieldIsReloadedOrFixed: a flag is either read again or read at the start only, and a value that is read again is no list, which
// restoring a flag could not tell from its default.
func TestEveryFieldIsReloadedOrFixed(t *testing.T) {
	for name, c := range commands() {
		reloaded := 0
		c.flags().VisitAll(func(f *pflag.Flag) {
			again, known := settings.Reloaded(f)
			if f.Name == "config" {
				return
			}
			if !known {
				t.Errorf("flagship %s --%s is neither in settings.Reload nor in settings.AtStart", name, f.Name)
			}
			if again {
				reloaded++
			}
			if _, list := f.Value.(pflag.SliceValue); again && (list || f.Value.Type() == "stringToString") {
				t.Errorf("flagship %s --%s is reloaded and a %s", name, f.Name, f.Value.Type())
			}
		})
		if reloaded < 5 {
			t.Errorf("flagship %s reloads %d fields", name, reloaded)
		}
	}
}

// running is a process with a configuration file.
type running struct {
	t        *testing.T
	path     string
	reloader *settings.Reloader
	log      *bytes.Buffer
	// applied are the values of each time at which the file was applied.
	applied []string
}

// run starts with the content of a file, and a command line and variables of the environment that win over it.
func run(t *testing.T, content string, line []string, variables map[string]string) *running {
	t.Helper()
	r := &running{t: t, path: filepath.Join(t.TempDir(), "server.yaml"), log: &bytes.Buffer{}}
	r.write(content)
	r.start(line, variables)
	return r
}

func (r *running) start(line []string, variables map[string]string) {
	r.t.Helper()
	flags := commands()["server"].flags()
	if err := flags.Parse(append(line, "--config", r.path)); err != nil {
		r.t.Fatal(err)
	}
	if err := settings.Apply(flags, &configurationv1alpha1.ServerConfiguration{}, in(variables)); err != nil {
		r.t.Fatal(err)
	}
	r.reloader = settings.NewReloader(flags, &configurationv1alpha1.ServerConfiguration{}, clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), func() (*pflag.FlagSet, func() (func(), error)) {
		next := commands()["server"].flags()
		value := func(name string) string { return next.Lookup(name).Value.String() }
		return next, func() (func(), error) {
			if value("skipped-propagating-namespaces") == "[bad]" {
				return nil, fmt.Errorf("skippedPropagatingNamespaces: bad")
			}
			return func() {
				r.applied = append(r.applied, strings.Join([]string{value("brake-share"), value("brake-minimum"), value("brake-window"), value("port")}, " "))
			}, nil
		}
	})
}

const head = "apiVersion: configuration.flagship.io/v1alpha1\nkind: ServerConfiguration\n"

func (r *running) write(content string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(head+content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// wait lets a number of periods pass.
func (r *running) wait(periods int) {
	r.t.Helper()
	for range periods {
		settings.Check(r.t.Context(), r.reloader, r.log)
	}
}

func (r *running) want(what string, valid float64, waiting []string, applied ...string) {
	r.t.Helper()
	collectors := r.reloader.Collectors()
	if got := testutil.ToFloat64(collectors[0]); got != valid {
		r.t.Errorf("%s: the file is valid: %v, want %v; log:\n%s", what, got, valid, r.log)
	}
	var fields []string
	for _, field := range []string{"brakeWindow", "port", "tlsSan", "conversionService", "brakeShare"} {
		if testutil.ToFloat64(collectors[1].(*prometheus.GaugeVec).WithLabelValues(field)) == 1 {
			fields = append(fields, field)
		}
	}
	if !slices.Equal(fields, waiting) {
		r.t.Errorf("%s: %v wait for the next start, want %v", what, fields, waiting)
	}
	if !slices.Equal(r.applied, applied) {
		r.t.Errorf("%s: applied %q, want %q; log:\n%s", what, r.applied, applied, r.log)
	}
}

// TestReload: a field that may change does once two reads in a row have found the same, and others wait for the next start.
func TestReload(t *testing.T) {
	r := run(t, "brakeShare: 0.3\nport: 7000\n", nil, nil)
	r.wait(3)
	r.want("nothing has changed", 1, nil)

	r.write("brakeShare: 0.4\nport: 7000\n")
	r.wait(1)
	r.want("the file may be half of what is being written", 1, nil)
	r.wait(3)
	r.want("one field", 1, nil, "0.4 500 10m0s 7000")

	r.write("brakeMinimum: 9\nbrakeWindow: 1h\nport: 7001\ntlsSan: [a]\nconversionService: {a/b: \"c:1\"}\n")
	r.wait(3)
	waiting := []string{"brakeWindow", "port", "tlsSan", "conversionService"}
	r.want("a field that is not there has its default again", 1, waiting, "0.4 500 10m0s 7000", "0.5 9 10m0s 7000")
	if got := strings.Count(r.log.String(), "next start"); got != 1 {
		t.Errorf("it is logged %d times that fields wait for the next start", got)
	}

	r.write("brakeMinimum: 9\nport: 7000\n")
	r.wait(3)
	r.want("what has changed back waits no more", 1, nil, "0.4 500 10m0s 7000", "0.5 9 10m0s 7000")
}

// TestReloadRefuses: a file that would fail a start changes nothing, and is logged once.
func TestReloadRefuses(t *testing.T) {
	for name, content := range map[string]string{
		"Syntax":   "brakeShare: [\n",
		"Unknown":  "brakeShare: 0.4\nbrakeShar: 0.4\n",
		"Twice":    "brakeShare: 0.4\nbrakeShare: 0.4\n",
		"Type":     "brakeShare: 0.4\nbrakeWindow: soon\n",
		"Options":  "brakeShare: 0.4\nskippedPropagatingNamespaces: [bad]\n",
		"TwoFiles": "brakeShare: 0.4\n---\n" + head,
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, "brakeShare: 0.3\n", nil, nil)
			r.write(content)
			r.wait(5)
			r.want("refused", 0, nil)
			if got := strings.Count(r.log.String(), "is not valid"); got != 1 {
				t.Errorf("it is logged %d times:\n%s", got, r.log)
			}
			r.write("brakeShare: 0.6\n")
			r.wait(2)
			r.want("corrected", 1, nil, "0.6 500 10m0s 6443")
		})
	}
	t.Run("Gone", func(t *testing.T) {
		r := run(t, "brakeShare: 0.3\n", nil, nil)
		r.wait(2)
		if err := os.Remove(r.path); err != nil {
			t.Fatal(err)
		}
		r.wait(2)
		r.want("gone", 0, nil)
		r.write("brakeShare: 0.3\n")
		r.wait(2)
		r.want("as before", 1, nil)
	})
}

// TestReloadOrder: flags and variables of the environment win over the file, whatever becomes of it.
func TestReloadOrder(t *testing.T) {
	r := run(t, "brakeShare: 0.3\nbrakeMinimum: 9\nport: 7000\n", []string{"--brake-share", "0.7", "--port", "7001"}, map[string]string{"FLAGSHIP_BRAKE_MINIMUM": "8"})
	r.wait(2)
	r.write("brakeShare: 0.4\nbrakeMinimum: 10\nport: 7002\ndegradedAfter: 5m\n")
	r.wait(3)
	r.want("only what nothing else sets", 1, nil, "0.7 8 10m0s 7001")
}

// TestReloadsInPeriods: the file is read once in a period, until the end.
func TestReloadsInPeriods(t *testing.T) {
	r := run(t, "brakeShare: 0.3\n", nil, nil)
	fake, done := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), make(chan string, 1)
	flags := commands()["server"].flags()
	if err := flags.Set("config", r.path); err != nil {
		t.Fatal(err)
	}
	stop := settings.NewReloader(flags, &configurationv1alpha1.ServerConfiguration{}, fake, func() (*pflag.FlagSet, func() (func(), error)) {
		next := commands()["server"].flags()
		return next, func() (func(), error) {
			return func() { done <- next.Lookup("brake-share").Value.String() }, nil
		}
	}).Start(t.Context())
	for share := ""; share != "0.3"; {
		select {
		case share = <-done:
		default:
			if fake.HasWaiters() {
				fake.Step(settings.ReloadPeriod)
			}
			runtime.Gosched()
		}
	}
	stop()
}

// TestReloadConfigMap: kubelet replaces a mounted ConfigMap by another target of a symbolic link in the middle of the path.
func TestReloadConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(name, content string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "server.yaml"), []byte(head+content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "brakeShare: 0.3\n")
	r := &running{t: t, path: filepath.Join(dir, "server.yaml"), log: &bytes.Buffer{}}
	if err := os.Symlink(filepath.Join("..data", "server.yaml"), r.path); err != nil {
		t.Fatal(err)
	}
	r.start(nil, nil)
	r.wait(2)
	version("..2", "brakeShare: 0.4\n")
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	r.wait(2)
	r.want("replaced", 1, nil, "0.4 500 10m0s 6443")
}
