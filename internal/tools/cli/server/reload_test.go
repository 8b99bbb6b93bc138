package server

import (
	"reflect"
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/settings"
)

// TestReloadedFlagsAreTunable: what a running control plane is given has every flag that is reloaded, and none that is not but those that the
// reloader leaves as they are.
func TestReloadedFlagsAreTunable(t *testing.T) {
	kept := []string{"brake-window", "enable-no-execute-taint-eviction", "no-execute-taint-eviction-purge-mode"}
	samples := map[string]string{"bool": "true", "int": "7", "int64": "7", "float64": "0.7", "duration": "90m"}
	c := newServerCommand(cli.Streams{})
	flags := func() (*serverFlags, *pflag.FlagSet) {
		s := &serverFlags{}
		return s, s.flagSet()
	}
	unset, _ := flags()
	if err := unset.complete(); err != nil {
		t.Fatal(err)
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		reloaded, known := settings.Reloaded(f)
		sample := samples[f.Value.Type()]
		switch f.Name {
		case "namespace-size-limit":
			sample = "7Gi"
		case "no-execute-taint-eviction-purge-mode":
			sample = "Directly"
		}
		if !known || f.Name == "v" || sample == "" && !reloaded {
			return
		}
		set, all := flags()
		if err := all.Set(f.Name, sample); err != nil {
			t.Fatalf("--%s: %v", f.Name, err)
		}
		if err := set.complete(); err != nil {
			t.Fatalf("--%s: %v", f.Name, err)
		}
		changes := !reflect.DeepEqual(set.options.Tunable, unset.options.Tunable)
		if changes != (reloaded || slices.Contains(kept, f.Name)) {
			t.Errorf("--%s is reloaded: %v, and changes what a running control plane is given: %v", f.Name, reloaded, changes)
		}
	})
}
