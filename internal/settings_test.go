package internal_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSettingsOfThePreviousVersion: no flag, variable or field of the previous version is gone, and none has another type (docs/upgrade.md).
// test/upgrade/testdata/configuration is the generated reference of the commit in test/upgrade/testdata/previous; that of this tree, which
// make verify-generated compares with the code, has to have all that it has.
func TestSettingsOfThePreviousVersion(t *testing.T) {
	previous, present := settingsIn(t, "../test/upgrade/testdata/configuration"), settingsIn(t, "../docs/reference/configuration.md")
	if len(previous) < 80 {
		t.Fatalf("read only %d settings of the previous version", len(previous))
	}
	for _, s := range gone(previous, present) {
		t.Errorf("%s is gone, or has another type: a setting works on for at least one minor version (docs/upgrade.md). Bring it back, name it and its "+
			"successor in CHANGELOG.md, and remove it when test/upgrade/testdata/previous is a version whose reference calls it deprecated", s)
	}
}

// setting is a command, a flag with its variable, a field of the file, and a type, such as "flagship server --port FLAGSHIP_PORT port int". It is
// deprecated if its meaning begins with that.
type setting struct {
	text       string
	deprecated bool
}

var settingRow = regexp.MustCompile("^\\| `(--[a-z0-9-]+)`<br>`([A-Z0-9_]+)` \\| `([A-Za-z0-9]+)` \\| ([A-Za-z0-9]+) \\| [^|]*\\| (.*)$")

func settingsIn(t *testing.T, path string) []setting {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found, rest := parseSettings(string(page))
	for _, line := range rest {
		t.Errorf("%s has a row that is no setting: %s", path, line)
	}
	return found
}

// parseSettings returns the settings of a page, and the rows of flags that it cannot read.
func parseSettings(page string) (found []setting, rest []string) {
	command := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if name, heading := strings.CutPrefix(line, "## "); heading {
			command = name
		}
		if !strings.HasPrefix(line, "| `--") {
			continue
		}
		row := settingRow.FindStringSubmatch(line)
		if row == nil {
			rest = append(rest, line)
			continue
		}
		found = append(found, setting{strings.Join(append([]string{command}, row[1:5]...), " "), strings.HasPrefix(strings.ToLower(row[5]), "deprecated")})
	}
	return found, rest
}

// gone are the settings of the previous version that are not present, but for those that it deprecated.
func gone(previous, present []setting) (texts []string) {
	for _, s := range previous {
		if !s.deprecated && !slices.ContainsFunc(present, func(p setting) bool { return p.text == s.text }) {
			texts = append(texts, s.text)
		}
	}
	return texts
}

func TestGoneSettingsAreFound(t *testing.T) {
	const page = `
## flagship server

### general

| flag | in the file | type | default | meaning |
|---|---|---|---|---|
| ` + "`--port`<br>`FLAGSHIP_PORT` | `port` | int | `6443` | port to listen on |\n| `--old`<br>`FLAGSHIP_OLD` | `old` | string |  | deprecated: use --port |" + `

## flagship agent

| ` + "`--name`<br>`FLAGSHIP_NAME` | `name` | string |  | a name |\n"
	previous, rest := parseSettings(page)
	if len(previous) != 3 || len(rest) != 0 {
		t.Fatalf("read %v and left %v", previous, rest)
	}
	for name, tc := range map[string]struct{ from, to, want string }{
		"Same":          {"", "", ""},
		"Removed":       {"| `--port`", "| port", "flagship server --port FLAGSHIP_PORT port int"},
		"OtherType":     {"| int |", "| string |", "flagship server --port FLAGSHIP_PORT port int"},
		"OtherField":    {"`name` |", "`named` |", "flagship agent --name FLAGSHIP_NAME name string"},
		"OtherVariable": {"FLAGSHIP_NAME", "FLAGSHIP_NAMED", "flagship agent --name FLAGSHIP_NAME name string"},
		"Deprecated":    {"| `--old`", "| old", ""},
	} {
		t.Run(name, func(t *testing.T) {
			present, _ := parseSettings(strings.Replace(page, tc.from, tc.to, 1))
			if got := strings.Join(gone(previous, present), ", "); got != tc.want {
				t.Errorf("gone are %q, want %q", got, tc.want)
			}
		})
	}
	if _, rest := parseSettings("| `--port` | port |\n"); len(rest) != 1 {
		t.Errorf("a row of another form is not reported: %v", rest)
	}
}
