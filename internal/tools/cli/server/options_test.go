package server_test

import (
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/tools/cli/server"
)

func TestOptionsOf(t *testing.T) {
	o, err := server.OptionsOf([]string{"brake-minimum=10", "--cluster-failure-threshold=5s", "skipped-propagating-namespaces=a,b"})
	if err != nil || o.Tunable.Brake.Minimum != 10 || o.Tunable.FailureThreshold.Seconds() != 5 || len(o.SkippedNamespaces) != 2 || o.Server.BindAddress != "" {
		t.Errorf("options are %+v, %v", o, err)
	}
	for setting, want := range map[string]string{
		"data-dir=x": "the playground decides it", "etcd-servers=x": "the playground decides it", "brake-minimun=1": "no such flag",
		"brake-minimum=x": "invalid", "brake-minimum": "NAME=VALUE", "no-execute-taint-eviction-purge-mode=Never": "must be Gracefully or Directly",
	} {
		if _, err := server.OptionsOf([]string{setting}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
	}
}
