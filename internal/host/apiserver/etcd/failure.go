package etcd

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
)

// Failure is why the embedded etcd cannot go on. Nothing can be stored or read after it, so the process has to end.
type Failure struct {
	// Dir is the directory of the data.
	Dir string
	// What is what etcd reported, in its words; Cause is the error that it had, if there was one.
	What  string
	Cause error
}

// Error is one line: what happened, and what to do.
func (f *Failure) Error() string {
	what := f.What
	if f.Cause != nil {
		what += ": " + f.Cause.Error()
	}
	what = strings.Join(strings.Fields(what), " ")
	switch {
	case f.full():
		return fmt.Sprintf("the file system of %s is full (%s). Nothing that was stored is lost: free space there and start again", f.Dir, what)
	case f.ExitStatus() == datadir.ExitUnwritable:
		return fmt.Sprintf("%s cannot be written (%s). Nothing that was stored is lost: make its file system writable and start again", f.Dir, what)
	}
	return fmt.Sprintf("the data in %s cannot be used (%s). If the next start fails, too, restore a backup with 'flagship restore from': see docs/storage.md", f.Dir, what)
}

// Unwrap returns the error that etcd had.
func (f *Failure) Unwrap() error { return f.Cause }

// ExitStatus is the exit code of the process that ends because of it.
func (f *Failure) ExitStatus() int {
	if f.full() || errors.Is(f.Cause, syscall.EIO) || errors.Is(f.Cause, syscall.EROFS) || errors.Is(f.Cause, syscall.EACCES) {
		return datadir.ExitUnwritable
	}
	return datadir.ExitDamaged
}

func (f *Failure) full() bool {
	return errors.Is(f.Cause, syscall.ENOSPC) || errors.Is(f.Cause, syscall.EDQUOT)
}

// unwritable makes the error of a start a Failure if the reason is the file system of a directory.
func unwritable(dir string, err error) error {
	if failure := (&Failure{Dir: dir, What: "starting", Cause: err}); failure.ExitStatus() == datadir.ExitUnwritable {
		return failure
	}
	return err
}

// Full makes the error of a server a Failure if the file system of its data directory is full: etcd is not the only one that writes there.
func Full(dir string, err error) error {
	if _, known := errors.AsType[*Failure](err); known {
		return err
	}
	if failure := (&Failure{Dir: dir, What: "starting", Cause: err}); failure.full() {
		return failure
	}
	return err
}

// failures receives why an etcd cannot go on.
type failures struct {
	dir  string
	once sync.Once
	// failed is closed after err was set to the first failure: what follows is its consequence.
	failed chan struct{}
	err    error
}

func newFailures(dir string) *failures { return &failures{dir: dir, failed: make(chan struct{})} }

// unlessFailed runs what ends an etcd. Once that etcd has failed it does not wait: a goroutine that could not write holds the locks of the
// database, so that neither etcd nor what uses it ends.
func (f *failures) unlessFailed(end func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end()
	}()
	select {
	case <-ended:
	case <-f.failed:
	}
}

// attach has the logger of an etcd report here.
func (f *failures) attach(cfg *embed.Config) error {
	if err := cfg.Validate(); err != nil { // which makes the logger
		return err
	}
	// Of a log that cannot be written nothing is printed: a full disk has a line of its own.
	logger := cfg.GetLogger().WithOptions(zap.WithFatalHook(f), zap.WithPanicHook(f), zap.ErrorOutput(zapcore.AddSync(io.Discard)))
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	return nil
}

var _ zapcore.CheckWriteHook = &failures{}

// OnWrite implements zapcore.CheckWriteHook. etcd writes an entry of level panic or fatal to its log where it cannot go on, and the process
// would end with no other trace of it. This never returns: the goroutine holds locks of etcd, and nothing may be stored after a write that
// failed.
func (f *failures) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	failure := &Failure{Dir: f.dir, What: entry.Message}
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok {
			failure.Cause = err
		}
	}
	f.report(failure)
	select {}
}

// report keeps the first failure.
func (f *failures) report(failure error) {
	f.once.Do(func() {
		f.err = failure
		close(f.failed)
	})
}
