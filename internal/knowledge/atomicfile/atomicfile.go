package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces a file in one step: a reader finds the old content or the new, with the given mode. A directory that does not exist
// is made for the owner of the process alone.
func Write(path string, content []byte, mode fs.FileMode) error {
	return place(path, content, mode, os.Rename)
}

// Create writes a file in one step unless it exists, so that several processes may create it at the same time.
func Create(path string, content []byte, mode fs.FileMode) error {
	err := place(path, content, mode, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// place writes the content to a file beside path and moves it there.
func place(path string, content []byte, mode fs.FileMode, move func(from, to string) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the directory of %s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // after a rename there is none
	_, err = file.Write(content)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = move(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
