package server

import (
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func TestServerListensOnLoopbackByDefault(t *testing.T) {
	c := newServerCommand(cli.Streams{})
	if got := c.Flag("bind-address").DefValue; got != "127.0.0.1" {
		t.Errorf("the default of --bind-address is %s", got)
	}
}

func TestPrintListening(t *testing.T) {
	for address, tc := range map[string]struct {
		listens string
		hint    bool
	}{
		"127.0.0.1": {"127.0.0.1:6443", true},
		"::1":       {"[::1]:6443", true},
		"0.0.0.0":   {"0.0.0.0:6443", false},
		"10.0.0.1":  {"10.0.0.1:6443", false},
	} {
		t.Run(address, func(t *testing.T) {
			var out strings.Builder
			printListening(&out, address, 6443)
			if !strings.Contains(out.String(), "listens on "+tc.listens+"\n") || strings.Contains(out.String(), "--bind-address") != tc.hint {
				t.Errorf("got %q", out.String())
			}
		})
	}
}

func TestSkippedNamespacesMatchByTheWholeName(t *testing.T) {
	patterns, err := namespacePatterns([]string{"a|b", "infra-.*"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": true, "b": true, "ab": false, "xb": false, "infra-dns": true, "my-infra-dns": false} {
		if got := patterns[0].MatchString(name) || patterns[1].MatchString(name); got != want {
			t.Errorf("%s is skipped: %v, want %v", name, got, want)
		}
	}
	if _, err := namespacePatterns([]string{"("}); err == nil {
		t.Error("a pattern that is no regular expression is accepted")
	}
}
