package apiserver_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestFewInotifyInstances counts those of this process, which has one server. A user has 128 by default, and a playground several servers.
func TestFewInotifyInstances(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has inotify")
	}
	const most = 3 // the configuration of authentication, the client of extension API servers, the signer of certificates
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	instances := 0
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == "anon_inode:inotify" {
			instances++
		}
	}
	if len(files) == 0 || instances == 0 || instances > most {
		t.Errorf("%d of %d open files are inotify instances, want 1 to %d", instances, len(files), most)
	}
}
