package encryption

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apiserver/pkg/server/options"
	encryptionconfigcontroller "k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"

	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

const (
	// KeyFile is the file of the keys, in the directory of keys and certificates.
	KeyFile = "secret-encryption.key"
	// configFile is the built-in EncryptionConfiguration in a data directory.
	configFile = "encryption.yaml"
)

// Apply has an API server encrypt with the built-in configuration, which is written into its data directory.
func Apply(o *options.EtcdOptions, dataDir string, keys Keys, plain bool) error {
	text, err := Configuration(keys, plain)
	if err != nil {
		return err
	}
	file := filepath.Join(dataDir, configFile)
	if err := atomicfile.Write(file, text, 0o600); err != nil {
		return fmt.Errorf("writing the encryption configuration: %w", err)
	}
	o.EncryptionProviderConfigFilepath, o.EncryptionProviderConfigAutomaticReload = file, true
	// Upstream has a variable for this and no option. It is the same for all servers of a process.
	if encryptionconfigcontroller.EncryptionConfigFileChangePollDuration != ReloadPeriod {
		encryptionconfigcontroller.EncryptionConfigFileChangePollDuration = ReloadPeriod
	}
	return nil
}

// Applied is whether a data directory has the built-in configuration: its Secrets are encrypted with the keys in KeyFile.
func Applied(dataDir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dataDir, configFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("looking for the built-in encryption configuration: %w", err)
	}
	return err == nil, nil
}

// ApplyFile has an API server encrypt with an EncryptionConfiguration of its administrator. The built-in one is removed: a
// rotation of the built-in key must not find it.
func ApplyFile(o *options.EtcdOptions, dataDir, file string, reload bool) error {
	if err := os.Remove(filepath.Join(dataDir, configFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the built-in encryption configuration: %w", err)
	}
	o.EncryptionProviderConfigFilepath, o.EncryptionProviderConfigAutomaticReload = file, reload
	return nil
}
