package doctor_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor/checks"
)

func run(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	build := func(s cli.Streams) *cobra.Command {
		return cli.Root(s, &cobra.Command{Use: "flagship"}, []*cobra.Command{doctor.NewCommand(s)})
	}
	code = cli.Run(build, append([]string{"doctor"}, args...), cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// A control plane that does not answer is a result and no error.
func TestNoControlPlane(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u}]\n" +
		"clusters: [{name: c, cluster: {server: \"" + server.URL + "\"}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run("--kubeconfig", kubeconfig)
	if code != 2 || errs != "" || !strings.HasPrefix(out, "failure    control-plane     the control plane does not answer: ") {
		t.Errorf("code %d, errors %q, output\n%s", code, errs, out)
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range []string{"now", "--timeout 0s", "--output wide"} {
		if code, out, errs := run(strings.Fields(args)...); code != 2 || out != "" || errs == "" {
			t.Errorf("%s: code %d, output %q, errors %q", args, code, out, errs)
		}
	}
}

func TestTheTableFitsATerminal(t *testing.T) {
	got := doctor.Text([]checks.Result{
		{Check: "members", Status: checks.OK, Found: "2, all ready"},
		{Check: "orphaned-objects", Status: checks.Warning, Found: "m1: " + strings.Repeat("word ", 30) + "\x1b[2J", Next: "do this"},
		{Check: "orphaned-objects", Status: checks.Unchecked, Found: "m2: forbidden"},
	})
	const want = `ok         members           2, all ready
warning    orphaned-objects  m1: word word word word word word word word word word word word word word word
                             word word word word word word word word word word word word word word word ?[2J
                             next: do this
unchecked                    m2: forbidden
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
