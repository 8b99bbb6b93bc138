package server

import (
	"slices"
	"strings"

	"github.com/flagship-k8s/flagship/internal/host/controlplane"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// decided are the flags that a playground decides itself.
var decided = []string{"config", "data-dir", "name", "port", "shard-members", "v"}

// OptionsOf returns the options of a control plane in a playground, by flags of the command server as NAME=VALUE.
func OptionsOf(settings []string) (controlplane.Options, error) {
	f := &serverFlags{}
	flags := f.flagSet()
	for _, setting := range settings {
		name, value, given := strings.Cut(strings.TrimPrefix(setting, "--"), "=")
		switch {
		case !given:
			return controlplane.Options{}, cli.UsageErrorf("--set %s: give a value, as NAME=VALUE", setting)
		case slices.Contains(decided, name), strings.HasPrefix(name, "etcd-"):
			return controlplane.Options{}, cli.UsageErrorf("--set %s: the playground decides it; use 'flagship server' to set it", name)
		case flags.Lookup(name) == nil:
			return controlplane.Options{}, cli.UsageErrorf("--set %s: 'flagship server' has no such flag; 'flagship server --help' lists them", name)
		}
		if err := flags.Set(name, value); err != nil {
			return controlplane.Options{}, cli.UsageErrorf("--set %s: %w", name, err)
		}
	}
	if !flags.Changed("bind-address") {
		f.options.Server.BindAddress = "" // a playground listens on this machine only
	}
	return f.options, f.complete()
}
