package memory

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	// limitShare is how much of what the cgroup gives the process is its own limit, in percent. The rest is for what the runtime does not
	// count: the binary, which is mapped from its file, and buffers of the kernel.
	limitShare = 90
	// shortShare is how much of its limit, in percent, a process has live when it is short of memory. Garbage is collected at the limit at the
	// latest, so that with more that is live it is collected all the time.
	shortShare = 75
	// noLimit is what a cgroup of version 1 has without a limit, and more than any machine has.
	noLimit = 1 << 60
)

// short is whether the process is short of memory. There is one for the process, as there is one limit.
var short atomic.Bool

// Short returns whether so much of the memory that the process may have is live that nothing is kept, and nothing expensive is begun, that can
// do without. It is false without a limit.
func Short() bool { return short.Load() }

// setLimit sets the limit of the process by that of its cgroup, unless GOMEMLIMIT has set one. It returns the limit, math.MaxInt64 for none.
func setLimit(root fs.FS) int64 {
	if given := cgroupLimit(root); given < noLimit && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(given / 100 * limitShare)
	}
	return debug.SetMemoryLimit(-1)
}

// cgroupLimit is how much memory the cgroup of this process, and those around it, give it, in bytes: of version 2, or of version 1.
func cgroupLimit(root fs.FS) int64 {
	limit := int64(math.MaxInt64)
	own, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return limit // no Linux
	}
	for line := range strings.Lines(string(own)) {
		// hierarchy:controllers:path; version 2 has the hierarchy 0 and no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if parts[0] != "0" || parts[1] != "" {
			if parts[1] != "memory" {
				continue
			}
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// In a container the path may be that of the host, of which nothing is there, and what is mounted the cgroup of the container.
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			text, err := fs.ReadFile(root, path.Join(mount, dir, file))
			if value, notNumber := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && notNumber == nil {
				limit = min(limit, value)
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit
}
