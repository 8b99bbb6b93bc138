package machine

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestRequireSpace(t *testing.T) {
	dir := t.TempDir() // exists, as the directory of a server that ran before
	first := filepath.Join(dir, "new")
	cases := map[string]struct {
		servers []string
		free    uint64
		err     error
		want    string
	}{
		"Enough":     {servers: []string{first, first, first}, free: 600_000_000},
		"TooLittle":  {servers: []string{first, first, first}, free: 599_999_999, want: dir + " has 599 MB free, and the control plane and its members need 600 MB"},
		"SecondTime": {servers: []string{dir, dir}, free: 128_000_000},
		"FullDisk":   {servers: []string{dir, dir}, free: 0, want: "has 0 MB free, and the control plane and its members need 128 MB"},
		"Unreadable": {free: 1, err: errors.New("gone"), want: "reading the free space of " + dir + ": gone"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := RequireSpace(dir, tc.servers, func(string) (uint64, error) { return tc.free, tc.err })
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestFreeSpace(t *testing.T) {
	if free, err := FreeSpace(t.TempDir()); err != nil || free == 0 {
		t.Errorf("%d bytes free, %v", free, err)
	}
	if _, err := FreeSpace(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that does not exist has free space")
	}
}
