package etcd_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
)

func TestTheEtcdOfADataDirectory(t *testing.T) {
	there := etcd.External{Endpoints: []string{"https://there:2379"}, CAFile: "/ca.crt"}
	elsewhere := etcd.External{Endpoints: []string{"https://elsewhere:2379"}}
	with := func(e etcd.External, prefix string) etcd.External { e.Prefix = prefix; return e }
	for name, tc := range map[string]struct {
		saved *etcd.External
		flags etcd.External
		want  *etcd.External
		err   string
	}{
		"embedded":             {},
		"by flags":             {flags: with(there, "/fleet"), want: new(with(there, "/fleet"))},
		"by the file":          {saved: new(with(there, "standby/one/")), want: new(with(there, "/standby/one"))},
		"the default prefix":   {saved: &there, flags: with(elsewhere, "registry"), want: new(with(elsewhere, "/registry"))},
		"other addresses":      {saved: new(with(there, "/one")), flags: elsewhere, want: new(with(elsewhere, "/one"))},
		"the same prefix":      {saved: new(with(there, "/one")), flags: with(elsewhere, "/one/"), want: new(with(elsewhere, "/one"))},
		"another prefix":       {saved: new(with(there, "/one")), flags: with(there, "/registry"), err: "begin with /one"},
		"another prefix alone": {saved: new(with(there, "/one")), flags: etcd.External{Prefix: "/registry"}, err: "leave --etcd-prefix out"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.saved != nil {
				if err := tc.saved.Save(dir); err != nil {
					t.Fatal(err)
				}
			}
			got, err := etcd.Choose(dir, tc.flags)
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("got %v, want an error with %q", err, tc.err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestSettingsOfEtcdThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"{", "{}"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, etcd.SettingsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := etcd.Choose(dir, etcd.External{}); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}
