package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protodelim"
)

// maxEntry bounds one entry, in bytes. A page of the store has up to 8 MiB and one value more, and a value has up to 1.5 MiB.
const maxEntry = 64 << 20

// ErrIncomplete is returned for a backup that ends early or has less than its summary.
var ErrIncomplete = errors.New("the backup is incomplete: use another one")

// ErrNotDecrypted is returned if the backup is for other recipients, or was changed.
var ErrNotDecrypted = errors.New("the backup cannot be decrypted: check the passphrase or identity")

// Visitor takes what a backup has, in the order of the archive. Nil functions take nothing.
type Visitor struct {
	// Header is called first.
	Header func(Header) error
	// Page is called with keys and their values.
	Page func([]*mvccpb.KeyValue) error
	// File is called with the path of a file below the data directory, with the separators of this system, and its content.
	File func(path string, content []byte) error
}

// Read reads a whole backup. What the visitor was given is complete only if there is no error.
func Read(from io.Reader, visit Visitor, identities ...age.Identity) (Header, Summary, error) {
	decrypted, err := age.Decrypt(from, identities...)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return Header{}, Summary{}, ErrNotDecrypted
	}
	if err != nil {
		return Header{}, Summary{}, fmt.Errorf("decrypting the backup, if it is one: %w", err)
	}
	compressed, err := gzip.NewReader(decrypted)
	if err != nil {
		return Header{}, Summary{}, fmt.Errorf("decompressing the backup: %w", early(err))
	}
	r := &reader{tar: tar.NewReader(compressed), visit: visit}
	if err := r.all(); err != nil {
		return r.header, r.counted, err
	}
	// The end of the encrypted stream is read, too, so that a shortened one is an error.
	switch _, err := io.CopyN(io.Discard, compressed, maxEntry); {
	case err == nil:
		return r.header, r.counted, errors.New("the backup goes on after its summary")
	case !errors.Is(err, io.EOF):
		return r.header, r.counted, fmt.Errorf("reading the end of the backup: %w", early(err))
	}
	return r.header, r.counted, nil
}

type reader struct {
	tar     *tar.Reader
	visit   Visitor
	header  Header
	counted Summary
	// stated is the summary of the archive.
	stated *Summary
}

func (r *reader) all() error {
	for {
		entry, err := r.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the backup: %w", early(err))
		}
		if entry.Typeflag != tar.TypeReg || entry.Size > maxEntry {
			return fmt.Errorf("entry %q of the backup is no file, or larger than %d MiB", entry.Name, maxEntry>>20)
		}
		content, err := io.ReadAll(r.tar)
		if err != nil {
			return fmt.Errorf("reading %s of the backup: %w", entry.Name, early(err))
		}
		if err := r.entry(entry.Name, content); err != nil {
			return err
		}
	}
	if r.stated == nil || *r.stated != r.counted {
		return ErrIncomplete
	}
	return nil
}

func (r *reader) entry(name string, content []byte) error {
	folder, below, _ := strings.Cut(name, "/")
	switch {
	case r.header.Format == 0 && name != headerName:
		return fmt.Errorf("the backup begins with %q instead of %s", name, headerName)
	case name == headerName:
		return r.begin(content)
	case name == summaryName:
		r.stated = &Summary{}
		return decode(name, content, r.stated)
	case folder == storeDir:
		return r.page(name, content)
	case folder == filesDir:
		return r.file(below, content)
	}
	return fmt.Errorf("entry %q of the backup is unknown", name)
}

func (r *reader) begin(content []byte) error {
	if err := decode(headerName, content, &r.header); err != nil {
		return err
	}
	if r.header.Format < 1 || r.header.Format > Format {
		return fmt.Errorf("the backup has format %d, and this program reads format %d: use the release that made it, %s",
			r.header.Format, Format, r.header.Release)
	}
	if r.visit.Header == nil {
		return nil
	}
	return r.visit.Header(r.header)
}

func (r *reader) page(name string, content []byte) error {
	var values []*mvccpb.KeyValue
	for from := bytes.NewReader(content); from.Len() > 0; {
		value := &mvccpb.KeyValue{}
		if err := protodelim.UnmarshalFrom(from, value); err != nil {
			return fmt.Errorf("decoding %s of the backup: %w", name, err)
		}
		if !strings.HasPrefix(string(value.Key), r.header.Prefix+"/") {
			return fmt.Errorf("key %q of the backup does not begin with %s/", value.Key, r.header.Prefix)
		}
		values = append(values, value)
		r.counted.Keys++
		r.counted.Bytes += int64(len(value.Key) + len(value.Value))
	}
	if r.visit.Page == nil {
		return nil
	}
	return r.visit.Page(values)
}

func (r *reader) file(name string, content []byte) error {
	local, err := filepath.Localize(name)
	if err != nil || local == "." {
		return fmt.Errorf("file %q of the backup is outside the data directory", name)
	}
	r.counted.Files++
	if r.visit.File == nil {
		return nil
	}
	return r.visit.File(local, content)
}

func decode(name string, content []byte, into any) error {
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("decoding %s of the backup: %w", name, err)
	}
	return nil
}

// early makes the end of the stream where more is expected an incomplete backup.
func early(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return ErrIncomplete
	}
	return err
}
