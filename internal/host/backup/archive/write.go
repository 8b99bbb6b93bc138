package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"filippo.io/age"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protodelim"
)

// Format is the number of the format that Writer writes. A Reader refuses higher ones.
const Format = 1

const (
	headerName  = "backup.json"
	summaryName = "summary.json"
	storeDir    = "store"
	filesDir    = "files"
	// fileMode is that of all entries: only the owner reads keys.
	fileMode = 0o600
)

// Header describes a backup.
type Header struct {
	// Format is the number of the format.
	Format int `json:"format"`
	// Time is when the backup began.
	Time time.Time `json:"time"`
	// Release is the version of the program that made it.
	Release string `json:"release"`
	// Prefix is what all keys begin with. Stored values may be bound to their keys, so it cannot be changed by a restore.
	Prefix string `json:"prefix"`
	// Revision is the revision of etcd at which all keys were read.
	Revision int64 `json:"revision"`
}

// Summary is what a backup has.
type Summary struct {
	// Keys and Bytes are the number of keys and the bytes of keys and values.
	Keys  int64 `json:"keys"`
	Bytes int64 `json:"bytes"`
	// Files is the number of files.
	Files int `json:"files"`
}

// Writer writes one backup.
type Writer struct {
	encrypted  io.WriteCloser
	compressed *gzip.Writer
	tar        *tar.Writer
	header     Header
	summary    Summary
	pages      int
}

// NewWriter begins a backup that the recipients can decrypt. The Format of the header is set.
func NewWriter(to io.Writer, header Header, recipients ...age.Recipient) (*Writer, error) {
	encrypted, err := age.Encrypt(to, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypting the backup: %w", err)
	}
	header.Format = Format
	compressed := gzip.NewWriter(encrypted)
	w := &Writer{encrypted: encrypted, compressed: compressed, tar: tar.NewWriter(compressed), header: header}
	return w, w.document(headerName, header)
}

// Page writes keys and their values.
func (w *Writer) Page(values []*mvccpb.KeyValue) error {
	var content bytes.Buffer
	for _, value := range values {
		if _, err := protodelim.MarshalTo(&content, value); err != nil {
			return fmt.Errorf("encoding key %s: %w", value.Key, err)
		}
		w.summary.Keys++
		w.summary.Bytes += int64(len(value.Key) + len(value.Value))
	}
	w.pages++
	return w.entry(fmt.Sprintf("%s/%08d", storeDir, w.pages), content.Bytes())
}

// File writes a file. The name is its path in the data directory, with slashes.
func (w *Writer) File(name string, content []byte) error {
	w.summary.Files++
	return w.entry(path.Join(filesDir, name), content)
}

// Close completes the backup. It does not close what the backup is written to.
func (w *Writer) Close() (Summary, error) {
	if err := w.document(summaryName, w.summary); err != nil {
		return Summary{}, err
	}
	if err := errors.Join(w.tar.Close(), w.compressed.Close(), w.encrypted.Close()); err != nil {
		return Summary{}, fmt.Errorf("completing the backup: %w", err)
	}
	return w.summary, nil
}

func (w *Writer) document(name string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	return w.entry(name, content)
}

func (w *Writer) entry(name string, content []byte) error {
	header := &tar.Header{Name: name, Mode: fileMode, Size: int64(len(content)), ModTime: w.header.Time, Typeflag: tar.TypeReg}
	if err := w.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if _, err := w.tar.Write(content); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
