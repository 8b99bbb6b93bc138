package cli

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/knowledge/version"
)

func TestVersion(t *testing.T) {
	run := func(args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if code := Run(newVersionCommand, args, Streams{strings.NewReader(""), &out, &errOut}); code != 0 {
			t.Fatalf("version %v ends with %d: %s", args, code, &errOut)
		}
		return out.String()
	}
	var info version.Info
	if err := json.Unmarshal([]byte(run("-o", "json")), &info); err != nil {
		t.Fatal(err)
	}
	if info.Go != runtime.Version() || info.Platform != runtime.GOOS+"/"+runtime.GOARCH || info.Kubernetes == "" || info.Version == "" || info.Commit == "" {
		t.Errorf("got %+v", info)
	}
	if table := run(); !strings.HasPrefix(table, "VERSION") || !strings.Contains(table, info.Go) {
		t.Errorf("the table is\n%s", table)
	}
}
