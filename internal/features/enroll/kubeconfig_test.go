package enroll

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
)

const goodKubeconfig = `
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: c, cluster: {server: "https://10.0.0.1:6443", proxy-url: "http://proxy:3128", certificate-authority-data: Y2E=}}
- {name: named, cluster: {server: "https://10.0.0.2", tls-server-name: other}}
users: [{name: u, user: {token: t}}]
contexts:
- {name: one, context: {cluster: c, user: u}}
- {name: named, context: {cluster: named, user: u}}
- {name: broken, context: {cluster: absent, user: u}}
`

func TestLoadAccess(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", goodKubeconfig)
	access, err := membership.LoadAccess(good, "")
	if err != nil {
		t.Fatal(err)
	}
	if access.Config.Host != "https://10.0.0.1:6443" || string(access.Config.CAData) != "ca" || access.ProxyURL != "http://proxy:3128" {
		t.Errorf("got host %s, CA %s, proxy %s", access.Config.Host, access.Config.CAData, access.ProxyURL)
	}

	cases := map[string]struct{ path, context, want string }{
		"Missing":        {filepath.Join(dir, "none"), "", "does not exist"},
		"Garbage":        {write("garbage", "\x00\x01{{{:\n\tno"), "", "is no kubeconfig"},
		"Text":           {write("text", "hello world\n"), "", "is no kubeconfig"},
		"Empty":          {write("empty", ""), "", "has no contexts"},
		"OtherKind":      {write("other", "apiVersion: v1\nkind: Pod\n"), "", "is no kubeconfig"},
		"Directory":      {dir, "", "is no kubeconfig"},
		"NoSuchContext":  {good, "two", `no context "two"; it has: broken, named, one`},
		"NoCurrent":      {write("nocurrent", strings.Replace(goodKubeconfig, "current-context: one", "", 1)), "", "no current context"},
		"BrokenContext":  {good, "broken", `context "broken"`},
		"TLSServerName":  {good, "named", "tls-server-name"},
		"MissingCAFile":  {write("ca", strings.Replace(goodKubeconfig, "certificate-authority-data: Y2E=", "certificate-authority: /nowhere/ca.crt", 1)), "", "/nowhere/ca.crt"},
		"UnreadableData": {write("base64", strings.Replace(goodKubeconfig, "Y2E=", "%%%", 1)), "", "is no kubeconfig"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := membership.LoadAccess(tc.path, tc.context)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the message has several lines: %q", err)
			}
			if !strings.Contains(err.Error(), tc.path) {
				t.Errorf("%q does not name the file", err)
			}
		})
	}
}
