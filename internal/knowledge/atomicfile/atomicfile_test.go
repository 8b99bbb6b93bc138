package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

func TestWriteReplacesAndCreateDoesNot(t *testing.T) {
	for name, tc := range map[string]struct {
		write func(path string, content []byte, mode os.FileMode) error
		want  string
	}{
		"Write":  {atomicfile.Write, "second"},
		"Create": {atomicfile.Create, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "missing")
			path := filepath.Join(dir, "file")
			for _, content := range []string{"first", "second"} {
				if err := tc.write(path, []byte(content), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			content, err := os.ReadFile(path)
			if err != nil || string(content) != tc.want {
				t.Errorf("the file has %q (%v), want %q", content, err, tc.want)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("the file is %v (%v), want mode 0640", info, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("the directory has %v (%v), want the file alone", left, err)
			}
		})
	}
}

func TestAFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "taken"), nil, 0o600); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the directory has %v (%v), want what was there", left, err)
	}
}
