package settings_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	configurationv1alpha1 "github.com/flagship-k8s/flagship/api/configuration/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/agents"
	"github.com/flagship-k8s/flagship/internal/tools/cli/server"
	"github.com/flagship-k8s/flagship/internal/tools/cli/settings"
)

// configured is a command with a configuration file.
type configured struct {
	flags func() *pflag.FlagSet
	file  func() runtime.Object
	kind  string
}

func commands() map[string]configured {
	return map[string]configured{
		"server": {
			flags: func() *pflag.FlagSet { return command("server", server.Commands(cli.Streams{})).Flags() },
			file:  func() runtime.Object { return &configurationv1alpha1.ServerConfiguration{} },
			kind:  configurationv1alpha1.KindServerConfiguration,
		},
		"agent": {
			flags: func() *pflag.FlagSet { return command("agent", agents.Commands(cli.Streams{})).Flags() },
			file:  func() runtime.Object { return &configurationv1alpha1.AgentConfiguration{} },
			kind:  configurationv1alpha1.KindAgentConfiguration,
		},
	}
}

func command(name string, all []*cobra.Command) *cobra.Command {
	return all[slices.IndexFunc(all, func(c *cobra.Command) bool { return c.Name() == name })]
}

// samples are a value for each type of flag: on the command line and in a file.
var samples = map[string]struct {
	text string
	file any
}{
	"bool":           {"true", true},
	"int":            {"7", 7},
	"int64":          {"123456789012", 123456789012},
	"float64":        {"0.7", 0.7},
	"duration":       {"90m", "90m"},
	"string":         {"text, with a comma", "text, with a comma"},
	"stringSlice":    {"a,b", []string{"a", "b"}},
	"stringToString": {"n/s:80=host:80", map[string]string{"n/s:80": "host:80"}},
}

// TestEveryFlagIsAField: a flag has a field and a field a flag, and a value means the same on the command line, in the file and in the
// environment.
func TestEveryFlagIsAField(t *testing.T) {
	for name, c := range commands() {
		t.Run(name, func(t *testing.T) {
			fields := settings.Fields(c.file())
			content := map[string]any{"apiVersion": configurationv1alpha1.GroupVersion.String(), "kind": c.kind}
			variables, line := map[string]string{}, c.flags()
			line.VisitAll(func(f *pflag.Flag) {
				if f.Name == "config" {
					return
				}
				if !slices.Contains(fields, settings.Field(f.Name)) {
					t.Errorf("%s has no field %s for --%s", c.kind, settings.Field(f.Name), f.Name)
				}
				fields = slices.DeleteFunc(fields, func(field string) bool { return field == settings.Field(f.Name) })
				sample, ok := samples[f.Value.Type()]
				if !ok {
					t.Fatalf("--%s is a %s, for which there is no sample", f.Name, f.Value.Type())
				}
				content[settings.Field(f.Name)], variables[settings.Variable(f.Name)] = sample.file, sample.text
				if err := line.Set(f.Name, sample.text); err != nil || f.Value.String() == f.DefValue {
					t.Fatalf("setting --%s to %s: %v", f.Name, sample.text, err)
				}
			})
			if len(fields) > 0 {
				t.Fatalf("%s has fields without a flag: %v", c.kind, fields)
			}
			file, environment := c.flags(), c.flags()
			apply(t, file, c.file(), write(t, content), nil)
			apply(t, environment, c.file(), "", variables)
			line.VisitAll(func(f *pflag.Flag) {
				if f.Name == "config" {
					return
				}
				if got := file.Lookup(f.Name).Value.String(); got != f.Value.String() {
					t.Errorf("--%s is %s from the file, want %s", f.Name, got, f.Value)
				}
				if got := environment.Lookup(f.Name).Value.String(); got != f.Value.String() {
					t.Errorf("--%s is %s from the environment, want %s", f.Name, got, f.Value)
				}
			})
		})
	}
}

// TestOrder: the command line wins over the environment, and that over the file, whose path may be a variable. What none of them has
// keeps its default.
func TestOrder(t *testing.T) {
	path := write(t, map[string]any{
		"apiVersion": "configuration.flagship.io/v1alpha1", "kind": "ServerConfiguration",
		"name": "file", "bindAddress": "10.0.0.1", "port": 1, "tlsSan": []string{"file"},
	})
	flags := commands()["server"].flags()
	if err := flags.Parse([]string{"--name", "line", "--tls-san", "line"}); err != nil {
		t.Fatal(err)
	}
	apply(t, flags, &configurationv1alpha1.ServerConfiguration{}, "", map[string]string{
		"FLAGSHIP_CONFIG": path, "FLAGSHIP_NAME": "variable", "FLAGSHIP_BIND_ADDRESS": "10.0.0.2", "FLAGSHIP_TLS_SAN": "variable", "FLAGSHIP_DATA_DIR": "",
	})
	for name, want := range map[string]string{
		"name": "line", "tls-san": "[line]", "bind-address": "10.0.0.2", "port": "1", "data-dir": "", "storage-quota": "8Gi",
	} {
		if got := flags.Lookup(name).Value.String(); got != want {
			t.Errorf("--%s is %q, want %q", name, got, want)
		}
	}
}

// TestFaultsAreNamed: what is wrong in a file or a variable is misuse, with the name of the field or the variable.
func TestFaultsAreNamed(t *testing.T) {
	const head = "apiVersion: configuration.flagship.io/v1alpha1\nkind: ServerConfiguration\n"
	for name, tc := range map[string]struct {
		file      string
		variables map[string]string
		want      []string
	}{
		"Unknown":     {file: head + "bindAdress: 0.0.0.0\n", want: []string{`unknown field "bindAdress"`}},
		"Case":        {file: head + "bindaddress: 0.0.0.0\n", want: []string{`unknown field "bindaddress"`}},
		"Duplicate":   {file: head + "port: 1\nport: 2\n", want: []string{`"port" already set`}},
		"Type":        {file: head + "port: many\n", want: []string{"port"}},
		"Overflow":    {file: head + "port: 99999999999\n", want: []string{"port"}},
		"Map":         {file: head + "conversionService: {n/s: \"a=b=c,d\"}\n", want: []string{"conversionService"}},
		"Version":     {file: "apiVersion: configuration.flagship.io/v1\nkind: ServerConfiguration\n", want: []string{"configuration.flagship.io/v1"}},
		"NoKind":      {file: "port: 1\n", want: []string{"Kind"}},
		"OtherKind":   {file: strings.Replace(head, "Server", "Agent", 1), want: []string{"its kind is AgentConfiguration; this command reads a ServerConfiguration"}},
		"Documents":   {file: head + "---\n" + head + "port: 1\n", want: []string{"more than one document"}},
		"Absent":      {want: []string{"server.yaml: reading the configuration"}},
		"Variables":   {file: head, variables: map[string]string{"FLAGSHIP_PROFILING": "perhaps", "FLAGSHIP_BRAKE_SHARE": "half"}, want: []string{"FLAGSHIP_PROFILING: ", "FLAGSHIP_BRAKE_SHARE: "}},
		"ServiceLink": {file: head, variables: map[string]string{"FLAGSHIP_PORT": "tcp://10.0.0.1:443"}, want: []string{"FLAGSHIP_PORT: ", "enableServiceLinks: false"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "server.yaml")
			if tc.file != "" {
				if err := os.WriteFile(path, []byte(tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			flags := commands()["server"].flags()
			if err := flags.Set("config", path); err != nil {
				t.Fatal(err)
			}
			err := settings.Apply(flags, &configurationv1alpha1.ServerConfiguration{}, in(tc.variables))
			if _, misuse := err.(cli.UsageError); !misuse {
				t.Fatalf("got %v, want a UsageError", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

// TestExampleOfTheDocs: the file in docs/configuration.md is valid.
func TestExampleOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	path := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := commands()["server"].flags()
	apply(t, flags, &configurationv1alpha1.ServerConfiguration{}, path, nil)
	if got := flags.Lookup("tls-san").Value.String(); got != "[flagship.example.com]" {
		t.Errorf("--tls-san is %s", got)
	}
}

func apply(t *testing.T, flags *pflag.FlagSet, configuration runtime.Object, path string, variables map[string]string) {
	t.Helper()
	if path != "" {
		variables = map[string]string{"FLAGSHIP_CONFIG": path}
	}
	if err := settings.Apply(flags, configuration, in(variables)); err != nil {
		t.Fatal(err)
	}
}

func in(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
}

func write(t *testing.T, content any) string {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "configuration.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
