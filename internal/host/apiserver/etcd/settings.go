package etcd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

// SettingsFile is the name of the file in a data directory that leads to the external etcd which has the keys of that control plane. A
// restore writes it, so that a server needs no flags for it.
const SettingsFile = "etcd.json"

// prefix is what all keys begin with, without a slash at its end, as the API server makes it of the same setting.
func (e *External) prefix() string { return path.Join("/", cmp.Or(e.Prefix, defaultPrefix)) }

// Save writes the settings to a data directory. Paths become absolute.
func (e *External) Save(dataDir string) error {
	saved := *e
	saved.Prefix = e.prefix()
	for _, file := range []*string{&saved.CAFile, &saved.CertFile, &saved.KeyFile} {
		if *file == "" {
			continue
		}
		absolute, err := filepath.Abs(*file)
		if err != nil {
			return fmt.Errorf("writing the settings of etcd: %w", err)
		}
		*file = absolute
	}
	text, err := json.MarshalIndent(saved, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the settings of etcd: %w", err)
	}
	return atomicfile.Write(filepath.Join(dataDir, SettingsFile), append(text, '\n'), 0o600)
}

// Saved returns the settings in a data directory; nil if there are none.
func Saved(dataDir string) (*External, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, SettingsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the settings of etcd: %w", err)
	}
	saved := &External{}
	if err := json.Unmarshal(text, saved); err != nil {
		return nil, fmt.Errorf("reading the settings of etcd in %s: %w", filepath.Join(dataDir, SettingsFile), err)
	}
	if len(saved.Endpoints) == 0 {
		return nil, fmt.Errorf("%s has no endpoints", filepath.Join(dataDir, SettingsFile))
	}
	return saved, nil
}

// Choose returns how to reach the external etcd of a data directory; nil if there is none. The settings in the data directory apply where
// flags are not given. The prefix of the flags may not be another one: with it, a server would begin with an empty store, or with that of
// another control plane.
func Choose(dataDir string, flags External) (*External, error) {
	saved, err := Saved(dataDir)
	switch {
	case err != nil:
		return nil, err
	case saved == nil && len(flags.Endpoints) == 0:
		return nil, nil
	case saved == nil:
		return &flags, nil
	case flags.Prefix != "" && flags.prefix() != saved.prefix():
		return nil, fmt.Errorf("the keys of %s begin with %s, as its %s has it, and not with %s: leave --etcd-prefix out, or remove that file if they were moved",
			dataDir, saved.prefix(), SettingsFile, flags.prefix())
	case len(flags.Endpoints) == 0:
		return saved, nil
	}
	flags.Prefix = saved.Prefix
	return &flags, nil
}
