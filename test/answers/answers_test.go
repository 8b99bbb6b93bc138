package answers_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAnswers runs every script on one fleet. A line `flagship ARGS` passes if the command succeeds and prints what docs/answers.md has for
// it; `! flagship ARGS` if it fails and prints that. A line `until N flagship ARGS` is Ctrl-C after N lines. It takes 70 s beside other tests,
// for commands one after the other.
func TestAnswers(t *testing.T) {
	page := openPage(t)
	fleet := troubled(t)
	binary, err := fleettest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"script", "repair"} { // one after the other: the second changes what the first is about
		t.Run(dir, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir:                filepath.Join("testdata", dir),
				RequireUniqueNames: true,
				Setup: func(env *testscript.Env) error {
					env.Setenv("KUBECONFIG", filepath.Join(fleet.Dir, "hub.kubeconfig"))
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"flagship": func(ts *testscript.TestScript, fails bool, args []string) { page.compare(ts, binary, fails, args) },
					"until":    func(ts *testscript.TestScript, _ bool, args []string) { page.interrupt(ts, binary, args) },
				},
			})
		})
	}
	page.close(t)
	t.Run("Doctor", func(t *testing.T) { doctor(t, fleet, binary) })
	t.Run("SupportBundle", func(t *testing.T) { supportBundle(t, fleet, binary) })
}

// page is docs/answers.md, which has each command with its output in a block of its own.
type page struct {
	path    string
	rewrite bool

	mu   sync.Mutex
	text string
	seen map[string]bool
}

func openPage(t *testing.T) *page {
	t.Helper()
	p := &page{path: filepath.Join("..", "..", "docs", "answers.md"), rewrite: os.Getenv("UPDATE_DOCS") != "", seen: map[string]bool{}}
	text, err := os.ReadFile(p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.text = string(text)
	return p
}

// block matches a command with its output.
var block = regexp.MustCompile("(?m)^```console\n\\$ ([^\n]*)\n((?:[^`\n][^\n]*\n|\n)*)```$")

// compare runs a command, and compares what it prints with its block.
func (p *page) compare(ts *testscript.TestScript, binary string, fails bool, args []string) {
	var out bytes.Buffer
	cmd := command(ts, binary, args)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exit.Exited()) {
		ts.Fatalf("%v", err)
	}
	if (err != nil) != fails {
		ts.Fatalf("flagship %v ended with code %d and printed\n%s", args, cmd.ProcessState.ExitCode(), out.String())
	}
	p.find(ts, args, out.String())
}

// interrupt runs a command that goes on until Ctrl-C, and compares its first lines with its block.
func (p *page) interrupt(ts *testscript.TestScript, binary string, args []string) {
	lines, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("%v", err)
	}
	args = args[2:] // the second is flagship
	var out strings.Builder
	cmd := command(ts, binary, args)
	printed, err := cmd.StdoutPipe()
	if err != nil {
		ts.Fatalf("%v", err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		ts.Fatalf("%v", err)
	}
	scanner := bufio.NewScanner(printed)
	for i := 0; i < lines && scanner.Scan(); i++ {
		out.WriteString(scanner.Text() + "\n")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		ts.Fatalf("flagship %v ended before Ctrl-C, having printed\n%s", args, out.String())
	}
	_, _ = io.Copy(io.Discard, printed)
	_ = cmd.Wait() // the interruption is its error
	p.find(ts, args, out.String())
}

func command(ts *testscript.TestScript, binary string, args []string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+ts.Getenv("KUBECONFIG"))
	return cmd
}

// find compares what a command printed with its block.
func (p *page) find(ts *testscript.TestScript, args []string, out string) {
	command := "flagship " + strings.Join(args, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[command] = true
	found := false
	p.text = block.ReplaceAllStringFunc(p.text, func(old string) string {
		parts := block.FindStringSubmatch(old)
		if parts[1] != command {
			return old
		}
		found = true
		if got, want := steady(out), steady(parts[2]); got != want && !p.rewrite {
			ts.Logf("UPDATE_DOCS=1 go test ./test/answers writes docs/answers.md")
			ts.Fatalf("%s printed\n%s\nwithout what differs from run to run\n%s\nand docs/answers.md has\n%s", command, out, got, want)
		}
		if !p.rewrite {
			return old
		}
		return fmt.Sprintf("```console\n$ %s\n%s```", command, out)
	})
	if !found {
		ts.Fatalf("docs/answers.md has no block for %q", command)
	}
}

// close fails if a block belongs to no script, and writes the page if it was updated.
func (p *page) close(t *testing.T) {
	t.Helper()
	for _, parts := range block.FindAllStringSubmatch(p.text, -1) {
		if !p.seen[parts[1]] {
			t.Errorf("docs/answers.md has a block for %q, which no script runs", parts[1])
		}
	}
	if !p.rewrite || t.Failed() {
		return
	}
	if err := os.WriteFile(p.path, []byte(p.text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// steady is an output without what differs from run to run: times, ages, the random parts of names, the widths of columns, where lines are
// wrapped, and the order of objects that were created in the same second.
func steady(text string) string {
	for _, r := range []struct{ pattern, with string }{
		{`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ?`, "TIME"},
		{`\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}\b`, "TIME"},
		{`(?m)^\d\d:\d\d:\d\d\b`, "TIME"},
		{`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b|\b\d+m\b`, "AGE"},
		{` \(x\d+ over AGE\)`, ""},
		{`\b([a-z0-9]+)-[a-z0-9]{8,10}-[a-z0-9]{5}\b`, "$1-POD"},
		{`\bkube-api-access-[a-z0-9]{5}\b`, "TOKEN"},
		{`\b10(\.\d+){3}\b`, "POD-ADDRESS"},
		{`\b\d+(Mi|%)`, "AMOUNT"}, // what the simulated pods use
		{`\bflagship-[0-9a-f]{8}\b`, "MANAGER"},
		{`\bsha256:[0-9a-f]{64}\b`, "SUM"},
		{`https://127\.0\.0\.1:\d+`, "ADDRESS"},
		{`127\.0\.0\.1:\d+`, "ADDRESS"},
		{`\n {20,}`, " "},
		{`[ \t]+`, " "},
		{`template \((flagship|answers\.test),`, "template (MANAGER,"}, // the later of two writes in one second
		{` \n`, "\n"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
