package cli

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWhichControlPlane(t *testing.T) {
	touch := func(path ...string) string {
		file := filepath.Join(path...)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	state := t.TempDir()
	playground := touch(state, "flagship", "playground", "hub.kubeconfig")
	fromEnv := touch(t.TempDir(), "env")
	cases := map[string]struct {
		reason string
		access HubAccess
		env    string
		want   string
	}{
		"Flag":       {"what is said wins", HubAccess{kubeconfig: "said", DataDir: "dir"}, fromEnv, "said"},
		"DataDir":    {"so does a data directory", HubAccess{DataDir: "dir"}, fromEnv, filepath.Join("dir", "hub.kubeconfig")},
		"Env":        {"then comes KUBECONFIG", HubAccess{}, fromEnv, fromEnv},
		"EnvList":    {"which may be a list", HubAccess{}, "absent" + string(filepath.ListSeparator) + fromEnv, fromEnv},
		"EnvAbsent":  {"and is taken at its word", HubAccess{}, "absent", "absent"},
		"Playground": {"then what runs on this machine", HubAccess{}, "", playground},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", state)
			t.Setenv("KUBECONFIG", tc.env)
			if got, err := tc.access.path(); err != nil || got != tc.want {
				t.Errorf("%s: got %s, %v; want %s", tc.reason, got, err, tc.want)
			}
		})
	}
}

func TestTheControlPlaneAloneLimitsRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hub.kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://hub'}}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u}]\ncurrent-context: c\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := (&HubAccess{kubeconfig: file}).Config()
	if err != nil {
		t.Fatal(err)
	}
	if config.QPS >= 0 { // 0 is the default of the client, five in a second
		t.Errorf("the client limits itself to %v requests in a second", config.QPS)
	}
}
