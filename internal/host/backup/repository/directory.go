package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Directory is a directory of this machine as a Repository. Write makes it if it is missing.
type Directory string

var _ Repository = Directory("")

// Write implements Repository.
func (d Directory) Write(_ context.Context, name string, content func(io.Writer) error) (int64, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return 0, fmt.Errorf("making the directory of backups: %w", err)
	}
	file, err := os.CreateTemp(string(d), ".flagship-*")
	if err != nil {
		return 0, fmt.Errorf("making a file: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // its other name stays
	err = content(file)
	if err == nil {
		err = file.Sync()
	}
	var size int64
	if info, statErr := file.Stat(); statErr == nil {
		size = info.Size()
	} else {
		err = errors.Join(err, statErr)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	// A link, unlike a rename, replaces no other file.
	err = os.Link(file.Name(), d.Location(name))
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%s: %w", d.Location(name), ErrExists)
	}
	if err := errors.Join(err, d.sync()); err != nil {
		return 0, fmt.Errorf("naming the file: %w", err)
	}
	return size, nil
}

// List implements Repository.
func (d Directory) List(context.Context) ([]File, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, fmt.Errorf("reading the directory: %w", err)
	}
	var found []File
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted since
		}
		if err != nil {
			return nil, fmt.Errorf("reading the directory: %w", err)
		}
		found = append(found, File{Name: entry.Name(), Bytes: info.Size()})
	}
	return found, nil
}

// Open implements Repository.
func (d Directory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	file, err := os.Open(d.Location(name))
	if err != nil {
		return nil, fmt.Errorf("opening the file: %w", err)
	}
	return file, nil
}

// Delete implements Repository.
func (d Directory) Delete(_ context.Context, name string) error { return os.Remove(d.Location(name)) }

// Location implements Repository.
func (d Directory) Location(name string) string { return filepath.Join(string(d), name) }

func (d Directory) sync() error {
	file, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
