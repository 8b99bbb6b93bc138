package encryption

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
)

const legacy = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func TestParseKeys(t *testing.T) {
	tests := map[string]struct {
		reason string
		text   string
		want   string // the names, in order; empty: refused
	}{
		"Earlier":    {"the file of an earlier version is a key without a name", legacy, "generated"},
		"Rotating":   {"the first key is the one that encrypts", "key-20260101t000000z " + legacy + "\ngenerated " + legacy + "\n", "key-20260101t000000z generated"},
		"Empty":      {"a server without a key would store nothing", "\n", ""},
		"Short":      {"a damaged key is refused", "generated c2hvcnQ=", ""},
		"Twice":      {"two keys of one name cannot be distinguished", "a " + legacy + "\na " + legacy, ""},
		"ColonName":  {"a colon ends the name in what is stored", "a:b " + legacy, ""},
		"ThreeWords": {"what is not understood is refused", "a b " + legacy, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			keys, err := ParseKeys([]byte(tc.text))
			if (err != nil) != (tc.want == "") {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			var names []string
			for _, key := range keys {
				names = append(names, key.Name)
			}
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
			if err != nil {
				return
			}
			again, err := ParseKeys(keys.Text())
			if err != nil || !bytes.Equal(again.Text(), keys.Text()) {
				t.Errorf("what was written cannot be read: %v", err)
			}
		})
	}
}

func TestNewestKey(t *testing.T) {
	first := Keys{{Name: firstName}}
	early, err := NewKey(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	late, err := NewKey(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range []Keys{{late}, {first[0], late}, {late, first[0]}, {early, late}, {late, early, first[0]}} {
		if got := keys[keys.newest()].Name; got != late.Name {
			t.Errorf("of %v the newest is %s", keys, got)
		}
	}
}

// transformer is what an API server with these keys reads and writes Works with.
func transformer(t *testing.T, keys Keys, plain bool) value.Transformer {
	t.Helper()
	text, err := Configuration(keys, plain)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	config, err := encryptionconfig.LoadEncryptionConfig(ctx, file, true, "")
	if err != nil {
		t.Fatalf("the API server refuses the configuration: %v", err)
	}
	for _, resource := range Resources() {
		if config.Transformers[resource.GroupResource()] == nil {
			t.Errorf("%s is not encrypted", resource.GroupResource())
		}
	}
	return config.Transformers[Resources()[1].GroupResource()]
}

// TestWhatIsStoredCanBeReadInEveryStep follows one value through a rotation, from a version that did not encrypt it.
func TestWhatIsStoredCanBeReadInEveryStep(t *testing.T) {
	old, err := ParseKeys([]byte(legacy))
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := NewKey(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name  string
		keys  Keys
		plain bool
		stale bool // whether what the step before wrote has to be written anew
	}{
		{"plain", old, true, false},
		{"encrypted", old, false, true},
		{"add", Keys{old[0], fresh}, false, false},
		{"use", Keys{fresh, old[0]}, false, true},
		{"remove", Keys{fresh}, false, false},
		{"plain again", Keys{fresh}, true, true},
	}
	const text = "the manifest of a Secret"
	stored, at := []byte(text), value.DefaultContext("/registry/key")
	for _, step := range steps {
		now := transformer(t, step.keys, step.plain)
		read, stale, err := now.TransformFromStorage(t.Context(), stored, at)
		if err != nil || string(read) != text {
			t.Fatalf("%s: read %q, %v", step.name, read, err)
		}
		if stale != step.stale {
			t.Errorf("%s: stale is %v, want %v", step.name, stale, step.stale)
		}
		if stored, err = now.TransformToStorage(t.Context(), read, at); err != nil {
			t.Fatal(err)
		}
		if plain := bytes.Contains(stored, []byte(text)); plain != step.plain {
			t.Errorf("%s: stored as %q", step.name, stored)
		}
	}
}

func TestHasLoaded(t *testing.T) {
	metrics := []byte("# HELP x\nother{hash=\"sha256:1\"} 1\n" + loadedMetric + `apiserver_id_hash="",hash="sha256:2"} 1` + "\n")
	if hasLoaded(metrics, "sha256:1") || !hasLoaded(metrics, "sha256:2") || hasLoaded(nil, "sha256:2") {
		t.Error("the wrong configuration counts as loaded")
	}
}

// BenchmarkWork is what encryption adds to a write and a read of a Work of four kilobytes.
func BenchmarkWork(b *testing.B) {
	keys, err := ParseKeys([]byte(legacy))
	if err != nil {
		b.Fatal(err)
	}
	text, err := Configuration(keys, false)
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		b.Fatal(err)
	}
	config, err := encryptionconfig.LoadEncryptionConfig(b.Context(), file, true, "")
	if err != nil {
		b.Fatal(err)
	}
	work := config.Transformers[Resources()[1].GroupResource()]
	plain, at := make([]byte, 4<<10), value.DefaultContext("/registry/key")
	stored, err := work.TransformToStorage(b.Context(), plain, at)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			_, _ = work.TransformToStorage(b.Context(), plain, at)
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			_, _, _ = work.TransformFromStorage(b.Context(), stored, at)
		}
	})
}
