// Package release tests what a release is made of, without making one: the files that .goreleaser.yaml names, and the service of the
// package.
package release

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	configurationv1alpha1 "github.com/flagship-k8s/flagship/api/configuration/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/programs/server"
	"github.com/flagship-k8s/flagship/internal/tools/cli/settings"
)

const root = "../.."

// made is what `make release-files` makes before a release; internal/tools/reference tests it.
const made = "bin/release/"

// TestFilesExist: every file and folder that .goreleaser.yaml names is there.
func TestFilesExist(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	found := 0
	each(config, func(key, value string) {
		if key != "src" && key != "main" || strings.HasPrefix(value, made) {
			return
		}
		found++
		if files, err := filepath.Glob(filepath.Join(root, value)); err != nil || len(files) == 0 {
			t.Errorf("%s: %s does not exist (%v)", key, value, err)
		}
	})
	if found < 10 {
		t.Errorf("only %d files were found", found)
	}
	var platforms []string
	each(config["builds"], func(key, value string) {
		if key == "targets" {
			platforms = append(platforms, value)
		}
	})
	if want := []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64"}; !slices.Equal(slices.Compact(slices.Sorted(slices.Values(platforms))), want) || len(platforms) != 12 {
		t.Errorf("it builds %v, want three programs for %v", platforms, want)
	}
}

// each visits the texts below a value of YAML, each with the nearest key.
func each(value any, visit func(key, value string)) {
	var walk func(key string, value any)
	walk = func(key string, value any) {
		switch value := value.(type) {
		case string:
			visit(key, value)
		case []any:
			for _, element := range value {
				walk(key, element)
			}
		case map[string]any:
			for key, element := range value {
				walk(key, element)
			}
		}
	}
	walk("", value)
}

// TestService: the command of the unit is one of the server, its settings are valid, and its state is where the unit allows writes.
func TestService(t *testing.T) {
	unit := readUnit(t)
	words := strings.Fields(unit["ExecStart"])
	program := server.Root(cli.Streams{})
	if filepath.Base(words[0]) != program.Name() {
		t.Errorf("it starts %s", words[0])
	}
	c, args, err := program.Find(words[1:])
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	config := c.Flags().Lookup("config")
	if path := config.Value.String(); path != "/etc/"+unit["ConfigurationDirectory"]+"/server.yaml" {
		t.Errorf("its settings are in %s", path)
	}
	applySettings(t, c)
	if dir := c.Flags().Lookup("data-dir").Value.String(); dir != "/var/lib/"+unit["StateDirectory"] {
		t.Errorf("its state is in %s", dir)
	}
	for name, want := range map[string]string{
		"DynamicUser": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "NoNewPrivileges": "yes", "PrivateDevices": "yes",
		"CapabilityBoundingSet": "", "RestrictNamespaces": "yes", "MemoryDenyWriteExecute": "yes", "SystemCallFilter": "@system-service", "UMask": "0077",
	} {
		if got, ok := unit[name]; !ok || got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
}

// applySettings reads the file of the package, with the lines that are comments there for the administrator to use.
func applySettings(t *testing.T, c *cobra.Command) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "packaging/server.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	content = regexp.MustCompile(`(?m)^# (\w+: )`).ReplaceAll(content, []byte("$1"))
	if !bytes.Contains(content, []byte("\nbindAddress: ")) {
		t.Error("the file has no example of bindAddress")
	}
	path := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Flags().Set("config", path); err != nil {
		t.Fatal(err)
	}
	none := func(string) (string, bool) { return "", false }
	if err := settings.Apply(c.Flags(), &configurationv1alpha1.ServerConfiguration{}, none); err != nil {
		t.Fatal(err)
	}
}

func readUnit(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open(filepath.Join(root, "packaging/systemd/flagship.service"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unit, lines := map[string]string{}, bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(name, "#") {
			unit[name] = value
		}
	}
	return unit
}
