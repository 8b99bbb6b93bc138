package repository_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/flagship-k8s/flagship/internal/host/backup/repository"
)

// serve runs an object storage, and sets the environment to its credentials.
func serve(t *testing.T) repository.S3 {
	t.Helper()
	return start(t, storage(t))
}

// storage is an object storage with the bucket "backups".
func storage(t *testing.T) http.Handler {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	return gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
}

// start runs a server of the S3 API, and sets the environment to credentials for it.
func start(t *testing.T, api http.Handler) repository.S3 {
	t.Helper()
	server := httptest.NewTLSServer(api)
	t.Cleanup(server.Close)
	credentials(t, "key", "secret")
	authority := filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return repository.S3{Endpoint: server.URL, Region: "us-east-1", CAFile: authority}
}

// credentials are the only ones that the test's process finds.
func credentials(t *testing.T, key, secret string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "", "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"),
		"AWS_ACCESS_KEY": "", "AWS_SECRET_KEY": "", "AWS_PROFILE": "", "HOME": t.TempDir(),
	} {
		t.Setenv(name, value)
	}
}

// both runs a test on a directory and on a bucket.
func both(t *testing.T, test func(t *testing.T, r repository.Repository)) {
	t.Run("directory", func(t *testing.T) { test(t, repository.Directory(filepath.Join(t.TempDir(), "made"))) })
	for _, location := range []string{"s3://backups", "s3://backups/production/", "s3://backups/a/b"} {
		t.Run(location, func(t *testing.T) {
			s3 := serve(t)
			r, err := repository.Open(location, s3)
			if err != nil {
				t.Fatal(err)
			}
			test(t, r)
		})
	}
}

func write(t *testing.T, r repository.Repository, name, content string) {
	t.Helper()
	size, err := r.Write(t.Context(), name, func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	})
	if err != nil || size != int64(len(content)) {
		t.Fatalf("writing %s: %d bytes, %v", name, size, err)
	}
}

func names(t *testing.T, r repository.Repository) map[string]int64 {
	t.Helper()
	files, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, file := range files {
		found[file.Name] = file.Bytes
	}
	return found
}

func TestRepository(t *testing.T) {
	both(t, func(t *testing.T, r repository.Repository) {
		large := strings.Repeat("0123456789abcdef", 20<<20/16) // two parts
		write(t, r, "large", large)
		write(t, r, "small", "content")
		if got, want := names(t, r), map[string]int64{"large": int64(len(large)), "small": 7}; !maps.Equal(got, want) {
			t.Errorf("it has %v, want %v", got, want)
		}
		for name, want := range map[string]string{"large": large, "small": "content"} {
			file, err := r.Open(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(file)
			if err := errors.Join(err, file.Close()); err != nil || !bytes.Equal(got, []byte(want)) {
				t.Errorf("%s has %d bytes, want %d: %v", name, len(got), len(want), err)
			}
		}
		if err := r.Delete(t.Context(), "small"); err != nil {
			t.Error(err)
		}
		if got := slices.Collect(maps.Keys(names(t, r))); !slices.Equal(got, []string{"large"}) {
			t.Errorf("after the deletion it has %v", got)
		}
		if _, err := r.Open(t.Context(), "small"); err == nil {
			t.Error("what was deleted is opened")
		}
	})
}

func TestAFileIsWholeOrNotThere(t *testing.T) {
	both(t, func(t *testing.T, r repository.Repository) {
		write(t, r, "first", "content")
		for _, cause := range []error{errors.New("the disk is broken"), io.EOF, io.ErrUnexpectedEOF, context.Canceled} {
			_, err := r.Write(t.Context(), "second", func(w io.Writer) error {
				if _, err := w.Write(make([]byte, 20<<20)); err != nil {
					return err
				}
				return cause
			})
			if !errors.Is(err, cause) {
				t.Errorf("the error is %v, want %v", err, cause)
			}
		}
		if got := names(t, r); len(got) != 1 {
			t.Errorf("it has %v", got)
		}
	})
}

func TestANameIsTakenOnce(t *testing.T) {
	both(t, func(t *testing.T, r repository.Repository) {
		write(t, r, "first", "content")
		_, err := r.Write(t.Context(), "first", func(w io.Writer) error {
			_, err := io.WriteString(w, "other")
			return err
		})
		if !errors.Is(err, repository.ErrExists) {
			t.Errorf("the error is %v", err)
		}
		if got := names(t, r)["first"]; got != 7 {
			t.Errorf("the file has %d bytes", got)
		}
	})
}

func TestOpenFile(t *testing.T) {
	s3 := serve(t)
	r, err := repository.Open("s3://backups/production", s3)
	if err != nil {
		t.Fatal(err)
	}
	write(t, r, "name", "in the bucket")
	path := filepath.Join(t.TempDir(), "name")
	if err := os.WriteFile(path, []byte("in the directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	for location, want := range map[string]string{path: "in the directory", r.Location("name"): "in the bucket", "s3://backups/production/name": "in the bucket"} {
		file, err := repository.OpenFile(t.Context(), location, s3)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(file)
		if err := errors.Join(err, file.Close()); err != nil || string(got) != want {
			t.Errorf("%s has %q: %v", location, got, err)
		}
	}
	for _, location := range []string{path + "x", "s3://", "s3://backups", "s3://backups/", "s3:///name", "s3://backups/production/other"} {
		if _, err := repository.OpenFile(t.Context(), location, s3); err == nil {
			t.Errorf("%q is opened", location)
		}
	}
}

func TestWhatIsWrongWithABucket(t *testing.T) {
	s3 := serve(t)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`)
	}))
	t.Cleanup(refusing.Close)
	for _, c := range []struct {
		name, location string
		s3             repository.S3
		want           string
	}{
		{"no bucket", "s3://", s3, "names no bucket"},
		{"another bucket", "s3://other", s3, "NoSuchBucket"},
		{"no rights", "s3://backups", repository.S3{Endpoint: refusing.URL, Region: "us-east-1"}, "AccessDenied"},
		{"an endpoint without a scheme", "s3://backups", repository.S3{Endpoint: "localhost:9000"}, "use https://"},
		{"an endpoint with a path", "s3://backups", repository.S3{Endpoint: "https://host/backups"}, "use https://"},
	} {
		r, err := repository.Open(c.location, c.s3)
		if err == nil {
			_, err = r.List(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q in it", c.name, err, c.want)
		}
	}
}

// TestCredentialsThatOnlyWrite are enough for a backup.
func TestCredentialsThatOnlyWrite(t *testing.T) {
	api := storage(t)
	s3 := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut && r.Method != http.MethodPost {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		api.ServeHTTP(w, r)
	}))
	r, err := repository.Open("s3://backups", s3)
	if err != nil {
		t.Fatal(err)
	}
	write(t, r, "name", "content")
	if _, err := r.List(t.Context()); err == nil {
		t.Error("the files are listed without the right to")
	}
}
