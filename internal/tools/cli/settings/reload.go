package settings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	reloadKey = "flagship.io/reload"
	// fileKey marks flags that have their value from the file.
	fileKey = "flagship.io/file"
	// ReloadPeriod is how often the file is read. A change counts when it was read twice.
	ReloadPeriod = 5 * time.Second
)

// Reload marks flags whose fields may change while the process runs, and AtStart those whose fields are read at the start only. Every flag is
// one or the other.
func Reload(flags *pflag.FlagSet, names ...string) { mark(flags, "true", names) }

// AtStart marks flags whose fields are read at the start only.
func AtStart(flags *pflag.FlagSet, names ...string) { mark(flags, "false", names) }

func mark(flags *pflag.FlagSet, value string, names []string) {
	for _, name := range names {
		f := flags.Lookup(name)
		f.Annotations = annotated(f, reloadKey, value)
	}
}

// Reloaded returns whether the field of a flag may change while the process runs; known is false for a flag that is not marked.
func Reloaded(f *pflag.Flag) (reloaded, known bool) {
	value := f.Annotations[reloadKey]
	return slices.Equal(value, []string{"true"}), len(value) == 1
}

func annotated(f *pflag.Flag, key, value string) map[string][]string {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[key] = []string{value}
	return f.Annotations
}

// Reloader applies changes of the configuration file while a process runs. It reads the file once in a period, as certificates are read: a
// watch would need an inotify instance, of which a user has 128 by default, and miss how kubelet replaces a mounted ConfigMap.
//
// A flag on the command line and a variable in the environment win over the file, as at the start. A file that is not valid changes nothing,
// and neither does a field that is read at the start only. Both are logged once and are in metrics.
type Reloader struct {
	flags         *pflag.FlagSet
	configuration runtime.Object
	fresh         func() (*pflag.FlagSet, func() (func(), error))
	clock         clock.WithTicker

	valid    prometheus.Gauge
	restarts *prometheus.GaugeVec
	// seen was read last, and tried was applied or refused last.
	seen, tried []byte
	// refused is the error that was logged last; empty while the file is valid.
	refused string
	// waiting are the fields that take effect at the next start.
	waiting []string
	// current are the values of flags that are reloaded.
	current map[string]string
}

// NewReloader returns a Reloader for a process whose flags Apply has set. Fresh returns flags of the same command with their defaults, and
// a function that checks the values that they have got then, and returns what puts these into effect.
func NewReloader(flags *pflag.FlagSet, configuration runtime.Object, c clock.WithTicker, fresh func() (*pflag.FlagSet, func() (apply func(), err error))) *Reloader {
	r := &Reloader{
		flags: flags, configuration: configuration, fresh: fresh, clock: c, current: map[string]string{},
		valid: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "flagship_configuration_valid",
			Help: "1 if the configuration file was valid when it was read last, 0 if it was not, and changed nothing.",
		}),
		restarts: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "flagship_configuration_restart_required",
			Help: "1 for each field of the configuration file that has changed and takes effect at the next start.",
		}, []string{"field"}),
	}
	r.valid.Set(1) // Apply has read it
	for _, field := range Fields(configuration) {
		if f := flags.Lookup(flagOf(field)); f != nil {
			r.current[field] = f.Value.String()
		}
	}
	return r
}

func (r *Reloader) path() string { return r.flags.Lookup(configFlag).Value.String() }

// Collectors are the metrics; none without a file.
func (r *Reloader) Collectors() []prometheus.Collector {
	if r.path() == "" {
		return nil
	}
	return []prometheus.Collector{r.valid, r.restarts}
}

// Start reads the file once in a period until the context is done or stop is called, which waits for the end.
func (r *Reloader) Start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r.path() == "" {
			return
		}
		ticker := r.clock.NewTicker(ReloadPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
				r.check(ctx)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// check reads the file, and applies it if it was the same at the last check: a file that is being written may be valid with half of its fields.
func (r *Reloader) check(ctx context.Context) {
	content, err := os.ReadFile(r.path())
	if err != nil {
		r.seen, r.tried = nil, nil
		r.refuse(ctx, err)
		return
	}
	if !bytes.Equal(content, r.seen) || bytes.Equal(content, r.tried) && r.tried != nil {
		r.seen = content
		return
	}
	r.tried = content
	if err := r.apply(ctx, content); err != nil {
		r.refuse(ctx, err)
		return
	}
	r.refused = ""
	r.valid.Set(1)
}

// refuse reports that the file changes nothing.
func (r *Reloader) refuse(ctx context.Context, err error) {
	r.valid.Set(0)
	if r.refused == err.Error() {
		return
	}
	r.refused = err.Error()
	log.FromContext(ctx).WithName("configuration").Error(err, "The configuration file is not valid and changes nothing; correct it, or the next start fails", "file", r.path())
}

// apply puts the content of the file into effect, or returns an error and changes nothing.
func (r *Reloader) apply(ctx context.Context, content []byte) error {
	values, err := decode(content, r.configuration)
	if err != nil {
		return err
	}
	flags, check := r.fresh()
	var faults []error
	for _, field := range Fields(r.configuration) {
		name := flagOf(field)
		if r.isPinned(name) {
			faults = append(faults, r.restore(flags, name))
		} else if value, ok := values[field]; ok {
			if err := set(flags, name, value); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", field, err))
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	if _, err := check(); err != nil { // with the fields that are read at the start only, too
		return err
	}
	changed, waiting, err := r.compare(flags)
	if err != nil {
		return err
	}
	put, err := check()
	if err != nil {
		return err
	}
	logger := log.FromContext(ctx).WithName("configuration")
	if len(changed) > 0 {
		put()
		logger.Info("The configuration file has changed, and is in effect", "file", r.path(), "changed", changed)
	}
	if !slices.Equal(waiting, r.waiting) {
		r.waiting = waiting
		r.restarts.Reset()
		for _, field := range waiting {
			r.restarts.WithLabelValues(field).Set(1)
		}
		if len(waiting) > 0 {
			logger.Info("Fields of the configuration file have changed that take effect at the next start", "file", r.path(), "fields", waiting)
		}
	}
	return nil
}

// compare returns what differs from the values in effect: what is reloaded, as text, and the fields that wait for the next start, whose flags
// get the value that they had at the start again.
func (r *Reloader) compare(flags *pflag.FlagSet) (changed, waiting []string, err error) {
	for _, field := range Fields(r.configuration) {
		name := flagOf(field)
		is := flags.Lookup(name).Value.String()
		if reloaded, _ := Reloaded(r.flags.Lookup(name)); reloaded {
			if was := r.current[field]; was != is {
				changed = append(changed, fmt.Sprintf("%s from %s to %s", field, was, is))
				r.current[field] = is
			}
			continue
		}
		if is != r.current[field] {
			waiting = append(waiting, field)
			if err := r.restore(flags, name); err != nil {
				return nil, nil, err
			}
		}
	}
	return changed, waiting, nil
}

// isPinned returns whether a flag has its value from the command line or the environment.
func (r *Reloader) isPinned(name string) bool {
	f := r.flags.Lookup(name)
	return f.Changed && f.Annotations[fileKey] == nil
}

// restore sets a flag to the value that it had at the start.
func (r *Reloader) restore(flags *pflag.FlagSet, name string) error {
	from, to := r.flags.Lookup(name).Value, flags.Lookup(name).Value
	if list, ok := from.(pflag.SliceValue); ok {
		return to.(pflag.SliceValue).Replace(list.GetSlice())
	}
	text := from.String()
	if from.Type() == "stringToString" {
		if text = strings.Trim(text, "[]"); text == "" { // which cannot be set; the options of a start are those of the start
			return nil
		}
	}
	return to.Set(text)
}
