package playground

import (
	"fmt"
	"os"
	"sync"
)

// maxLogBytes is when a log file starts anew; one predecessor is kept beside it with the suffix ".1".
const maxLogBytes = 16 << 20

// logFile is an append-only file of bounded size. Writing never fails for the writer: a full disk must not stop a hub.
type logFile struct {
	path string
	max  int64
	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(path string, limit int64) (*logFile, error) {
	l := &logFile{path: path, max: limit}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("opening log file: %w", err)
	}
	return l, nil
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write appends p, moving the file aside first if it would grow past its limit.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size+int64(len(p)) > l.max {
		_ = l.file.Close()
		l.file = nil
		_ = os.Rename(l.path, l.path+".1")
	}
	if l.file == nil && l.open() != nil {
		return len(p), nil
	}
	n, _ := l.file.Write(p)
	l.size += int64(n)
	return len(p), nil
}

// Close closes the file; a later Write opens it again.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
