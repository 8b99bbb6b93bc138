package machine

import (
	"fmt"
	"os"
	"syscall"
)

const (
	// firstStart is what an API server with its etcd writes at its first start: two files of etcd's write-ahead log, which etcd
	// allocates in full, and its database.
	firstStart = 200_000_000
	// laterStart leaves space for one further file of the log.
	laterStart = 64_000_000
)

// RequireSpace fails if the file system of a data directory has too little free space for servers with these directories in it.
func RequireSpace(dir string, servers []string, free func(dir string) (uint64, error)) error {
	have, err := free(dir)
	if err != nil {
		return fmt.Errorf("reading the free space of %s: %w", dir, err)
	}
	var need uint64
	for _, server := range servers {
		if _, err := os.Stat(server); err == nil {
			need += laterStart
		} else {
			need += firstStart
		}
	}
	if have < need {
		return fmt.Errorf("the disk of %s has %d MB free, and the control plane and its members need %d MB: free some space, or choose another --data-dir",
			dir, have/1_000_000, need/1_000_000)
	}
	return nil
}

// FreeSpace is how many bytes this user can write to the file system of a directory.
func FreeSpace(dir string) (uint64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return stat.Bavail * uint64(stat.Bsize), nil
}
