package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// lockPatience bounds the wait for the lock of the database: the lock of the data directory is held, so no other process has it for long.
const lockPatience = 10 * time.Second

// check returns a Failure if the data of an etcd is damaged so that etcd would panic in a goroutine of its own, or wait for ever. It reads
// what a start reads anyway: the header of every page of the database.
func check(ctx context.Context, dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		return err // a new etcd
	}
	newest := slices.Max(logs) // their names begin with a number of fixed length
	database := filepath.Join(dir, "member", "snap", "db")
	for _, file := range []string{newest, database} {
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &Failure{Dir: dir, What: filepath.Base(file) + " is missing"}
		case err != nil:
			return unwritable(dir, fmt.Errorf("reading the data of etcd: %w", err))
		case info.Size() == 0: // with an empty log etcd waits for a leader for ever; with an empty database it begins anew
			return &Failure{Dir: dir, What: filepath.Base(file) + " is empty"}
		}
	}
	if err := readPages(ctx, database); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return &Failure{Dir: dir, What: "the database: " + err.Error()}
	}
	return nil
}

// readPages reads the keys of a database, and with them every page that is not free. The library panics at a page that is damaged, and
// faults at one that refers to what is not there.
func readPages(ctx context.Context, file string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%v", reason)
		}
	}()
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockPatience})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			var last []byte
			return bucket.ForEach(func(key, _ []byte) error {
				if bytes.Compare(last, key) >= 0 {
					return fmt.Errorf("the keys of bucket %s are not in order", name)
				}
				last = key
				return nil
			})
		})
	})
}
