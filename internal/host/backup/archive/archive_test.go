package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/flagship-k8s/flagship/internal/host/backup/archive"
)

func identity(t *testing.T) *age.X25519Identity {
	t.Helper()
	i, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func write(t *testing.T, to *age.X25519Identity) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, archive.Header{Time: time.Unix(1_800_000_000, 0).UTC(), Release: "v1", Prefix: "/registry", Revision: 7}, to.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	pages := [][]*mvccpb.KeyValue{
		{{Key: []byte("/registry/a"), Value: []byte("1")}, {Key: []byte("/registry/b"), Value: nil}},
		{{Key: []byte("/registry/c"), Value: []byte(strings.Repeat("x", 300_000))}},
	}
	for _, page := range pages {
		if err := w.Page(page); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.File("pki/ca.key", []byte("key")); err != nil {
		t.Fatal(err)
	}
	summary, err := w.Close()
	if want := (archive.Summary{Keys: 3, Bytes: 33 + 1 + 300_000, Files: 1}); err != nil || summary != want {
		t.Fatalf("the summary is %+v, %v; want %+v", summary, err, want)
	}
	return out.Bytes()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	own := identity(t)
	keys, files := map[string]int{}, map[string]string{}
	header, summary, err := archive.Read(bytes.NewReader(write(t, own)), archive.Visitor{
		Page: func(values []*mvccpb.KeyValue) error {
			for _, v := range values {
				keys[string(v.Key)] = len(v.Value)
			}
			return nil
		},
		File: func(path string, content []byte) error {
			files[path] = string(content)
			return nil
		},
	}, identity(t), own)
	if err != nil || header.Format != archive.Format || header.Revision != 7 || summary.Keys != 3 {
		t.Fatalf("got %+v, %+v, %v", header, summary, err)
	}
	if want := map[string]int{"/registry/a": 1, "/registry/b": 0, "/registry/c": 300_000}; !maps.Equal(keys, want) {
		t.Errorf("the keys are %v, want %v", keys, want)
	}
	if len(files) != 1 || files["pki/ca.key"] != "key" {
		t.Errorf("the files are %v", files)
	}
}

// TestAnyDamageIsAnError: a backup that is shorter, or has another byte, is never complete.
func TestAnyDamageIsAnError(t *testing.T) {
	own := identity(t)
	whole := write(t, own)
	for n := range whole {
		if n%(len(whole)/200+1) != 0 && n < len(whole)-40 {
			continue
		}
		if _, _, err := archive.Read(bytes.NewReader(whole[:n]), archive.Visitor{}, own); err == nil {
			t.Errorf("the first %d of %d bytes are read as a whole", n, len(whole))
		}
		damaged := slices.Clone(whole)
		damaged[n] ^= 1
		if _, _, err := archive.Read(bytes.NewReader(damaged), archive.Visitor{}, own); err == nil {
			t.Errorf("a change of byte %d is not detected", n)
		}
	}
}

func TestOthersDecryptNothing(t *testing.T) {
	if _, _, err := archive.Read(bytes.NewReader(write(t, identity(t))), archive.Visitor{}, identity(t)); !errors.Is(err, archive.ErrNotDecrypted) {
		t.Errorf("got %v", err)
	}
}

// TestEntriesThatAreRefused: whoever has the public key of a recipient can make an archive.
func TestEntriesThatAreRefused(t *testing.T) {
	const header, page = `{"format":1,"prefix":"/registry"}`, "\x0d\x0a\x0b/registry/a"
	for name, tc := range map[string]struct {
		entries [][2]string
		want    string
	}{
		"FileOutside":   {[][2]string{{"backup.json", header}, {"files/../../etc/passwd", "x"}}, "outside the data directory"},
		"FileAtRoot":    {[][2]string{{"backup.json", header}, {"files//etc/passwd", "x"}}, "outside the data directory"},
		"KeyOfOthers":   {[][2]string{{"backup.json", header}, {"store/1", "\x06\x0a\x04/foo"}}, "does not begin with /registry/"},
		"LaterFormat":   {[][2]string{{"backup.json", `{"format":2,"release":"v9"}`}}, "use the release that made it, v9"},
		"NoFormat":      {[][2]string{{"backup.json", `{}`}}, "format 0"},
		"NoHeader":      {[][2]string{{"store/1", page}}, "instead of backup.json"},
		"NoSummary":     {[][2]string{{"backup.json", header}, {"store/1", page}}, "incomplete"},
		"LessThanSaid":  {[][2]string{{"backup.json", header}, {"store/1", page}, {"summary.json", `{"keys":2,"bytes":11}`}}, "incomplete"},
		"Unknown":       {[][2]string{{"backup.json", header}, {"else", "x"}}, "unknown"},
		"NoPage":        {[][2]string{{"backup.json", header}, {"store/1", "\xff\xff"}}, "decoding store/1"},
		"NotProtobuf":   {[][2]string{{"backup.json", header}, {"store/1", "\x02\xff\xff"}}, "decoding store/1"},
		"SummaryNoJSON": {[][2]string{{"backup.json", header}, {"summary.json", "{"}}, "decoding summary.json"},
	} {
		t.Run(name, func(t *testing.T) {
			own := identity(t)
			var out bytes.Buffer
			encrypted, err := age.Encrypt(&out, own.Recipient())
			if err != nil {
				t.Fatal(err)
			}
			compressed := gzip.NewWriter(encrypted)
			w := tar.NewWriter(compressed)
			for _, e := range tc.entries {
				if err := w.WriteHeader(&tar.Header{Name: e[0], Size: int64(len(e[1])), Typeflag: tar.TypeReg}); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write([]byte(e[1])); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(w.Close(), compressed.Close(), encrypted.Close()); err != nil {
				t.Fatal(err)
			}
			_, _, err = archive.Read(&out, archive.Visitor{}, own)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want ...%s", err, tc.want)
			}
		})
	}
}
