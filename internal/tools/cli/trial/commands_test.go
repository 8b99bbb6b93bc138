package trial

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/playground"
)

// TestMain refuses to be a member: a playground starts its own executable for each, which is this test if a command starts one.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, playground.MemberCommand) || slices.Contains(os.Args, playground.AgentCommand) {
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// run runs the program with the commands of this package.
func run(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	build := func(s cli.Streams) *cobra.Command {
		return cli.Root(s, &cobra.Command{Use: "flagship"}, Commands(s))
	}
	code = cli.Run(build, args, cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// TestMisuseStartsNothing: a fleet takes a minute and gigabytes, so that a mistake is reported before.
func TestMisuseStartsNothing(t *testing.T) {
	for args, want := range map[string]string{
		"up --members -1":           "--members cannot be -1",
		"up now":                    `unknown command "now"`,
		"up --member 3":             "run 'flagship up --help' for the flags",
		"demo now":                  `unknown command "now"`,
		"member":                    "member needs a command: ",
		"member sto member1":        "member needs a command: ",
		"member stop":               "accepts 1 arg(s), received 0",
		"member list member1":       `unknown command "member1"`,
		"bench scedule":             `unknown command "scedule"`,
		"bench schedule 5":          `unknown command "5"`,
		"bench --timeout 5":         "run 'flagship bench --help' for the flags",
		"bench failover -o wide":    `--output "wide" is none of table, json, yaml`,
		"bench failover --trials 0": "--trials must be at least 1",
		"bench crowd --object 5":    "run 'flagship bench crowd --help' for the flags",
	} {
		t.Run(args, func(t *testing.T) {
			state := t.TempDir()
			t.Setenv("XDG_STATE_HOME", state)
			code, out, errs := run(strings.Fields(args)...)
			if code != 2 || out != "" || !strings.HasPrefix(errs, "error: ") || !strings.Contains(errs, want) {
				t.Errorf("code %d, output %q, errors %q; want 2 and %q", code, out, errs, want)
			}
			if made, err := os.ReadDir(state); err != nil || len(made) > 0 {
				t.Errorf("%v was made: %v", made, err)
			}
		})
	}
}

func TestMembersOfAPlaygroundThatDoesNotRun(t *testing.T) {
	dir := t.TempDir()
	for _, args := range []string{"stop member1", "start member1", "pause member1", "resume member1", "list"} {
		code, out, errs := run(append(strings.Fields("member "+args), "--data-dir", dir)...)
		if code != 1 || out != "" || !strings.Contains(errs, dir) || strings.Count(errs, "\n") != 1 {
			t.Errorf("member %s: code %d, output %q, errors %q; want 1 and one line that names the directory", args, code, out, errs)
		}
	}
}

func TestTheFileForResultsIsMadeFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "missing", "results.json")
	if code, out, errs := run("bench", "--json", file); code != 1 || out != "" || !strings.Contains(errs, "creating the file for results: ") || !strings.Contains(errs, file) {
		t.Errorf("code %d, output %q, errors %q; want a failure before anything is measured", code, out, errs)
	}
}

func TestMemberList(t *testing.T) {
	var out bytes.Buffer
	err := printMembers(cli.Streams{Out: &out}, []playground.MemberStatus{
		{Name: "member1", State: "running", PID: 4711, Server: "https://127.0.0.1:7001"},
		{Name: "member3", State: "running", PID: 4712, AgentPID: 4713, Server: "https://127.0.0.1:7003"},
		{Name: "member10", State: "stopped", Server: "https://127.0.0.1:7010"},
	})
	want := "NAME       STATE     PID    AGENT   SERVER\n" +
		"member1    running   4711   -       https://127.0.0.1:7001\n" +
		"member3    running   4712   4713    https://127.0.0.1:7003\n" +
		"member10   stopped   -      -       https://127.0.0.1:7010\n"
	if err != nil || out.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, &out, want)
	}
}

func TestPlaygroundDir(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	for given, want := range map[string]string{"/own": "/own", "": "/state/flagship/playground"} {
		if got, err := orPlaygroundDir(given); err != nil || got != want {
			t.Errorf("for %q: %s, %v; want %s", given, got, err, want)
		}
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	if _, err := orPlaygroundDir(""); err == nil || !strings.HasSuffix(err.Error(), "; set --data-dir") {
		t.Errorf("without a home directory: %v, want the flag that helps", err)
	}
}

// TestOnlyProgramsUseTheProcessOfAMember: it is no command for people.
func TestOnlyProgramsUseTheProcessOfAMember(t *testing.T) {
	_, out, _ := run()
	if strings.Contains(out, playground.MemberCommand) || strings.Contains(out, playground.AgentCommand) || !strings.Contains(out, "demo") {
		t.Errorf("the help is\n%s", out)
	}
}

// TestDrawingInPlaceIsForTerminals: escape sequences in a file or a pipe make it unreadable.
func TestDrawingInPlaceIsForTerminals(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if isTerminal(file) || isTerminal(&bytes.Buffer{}) {
		t.Error("a file or a buffer counts as a terminal")
	}
}
