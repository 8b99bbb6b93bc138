package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
)

// Repository keeps files. A file is in it whole, or not at all.
type Repository interface {
	// Write makes a file of what the function writes, and returns its size. A file of that name is not replaced. If the function
	// fails, there is no file.
	Write(ctx context.Context, name string, content func(io.Writer) error) (bytes int64, err error)
	// List returns the files, without those of directories below, in no order.
	List(ctx context.Context) ([]File, error)
	// Open returns the content of a file, which the caller closes.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Delete deletes a file.
	Delete(ctx context.Context, name string) error
	// Location returns where a file is, as OpenFile takes it.
	Location(name string) string
}

// File is a file of a repository.
type File struct {
	Name  string
	Bytes int64
}

// ErrExists is returned by Write for a name that is taken.
var ErrExists = errors.New("a file of this name exists already")

const scheme = "s3://"

// Open returns the repository of a location, which is a path, or s3://BUCKET or s3://BUCKET/PREFIX.
func Open(location string, s3 S3) (Repository, error) {
	rest, isBucket := strings.CutPrefix(location, scheme)
	if !isBucket {
		return Directory(location), nil
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	if bucket == "" {
		return nil, fmt.Errorf("%q names no bucket: use s3://BUCKET or s3://BUCKET/PREFIX", location)
	}
	return newBucket(bucket, strings.Trim(prefix, "/"), s3)
}

// OpenFile returns the content of the file at a location, which is a path or s3://BUCKET/NAME. The caller closes it.
func OpenFile(ctx context.Context, location string, s3 S3) (io.ReadCloser, error) {
	rest, isBucket := strings.CutPrefix(location, scheme)
	if !isBucket {
		return Directory(filepath.Dir(location)).Open(ctx, filepath.Base(location))
	}
	in, name := path.Split(rest)
	if in == "" || name == "" {
		return nil, fmt.Errorf("%q names no file: use s3://BUCKET/NAME", location)
	}
	repository, err := Open(scheme+in, s3)
	if err != nil {
		return nil, err
	}
	return repository.Open(ctx, name)
}
