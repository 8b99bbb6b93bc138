package child

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// bindToParent has the kernel kill the child when the thread that starts it ends.
func bindToParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// atRest reports whether every thread of a process has stopped. A stop signal is on its way for a moment after it was sent,
// and a thread on another processor can answer a request in that time.
func atRest(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return true // it has ended
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread has ended
		}
		// The state follows the command's name, which is in parentheses and may hold any character.
		rest := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(rest) > 0 && rest[0] != 'T' && rest[0] != 'Z' && rest[0] != 'X' {
			return false
		}
	}
	return true
}
