// Package goreleaser tests the images that .goreleaser.yaml describes, with goreleaser itself and a registry in this process.
package goreleaser

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

// maxSize bounds the programs in the images, in bytes: an agent whose build lacks its tags has 72 MB.
var maxSize = map[string]int64{"flagship-server": 170e6, "flagship-agent": 60e6}

// TestImages makes the images for this platform as a release does, and publishes them to a registry in this process. The base image is another
// one, since that of a release is in a registry.
func TestImages(t *testing.T) {
	ldflags := os.Getenv("LDFLAGS")
	if ldflags == "" {
		t.Fatal("LDFLAGS is not set: make test-images sets it")
	}
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	base := host + "/static:nonroot"
	push(t, base, baseImage(t))

	config := configuration(t, host, base)
	command := exec.CommandContext(t.Context(), "bin/goreleaser", "release", "--config", config, "--clean", "--timeout", "40m", "--skip=validate,announce,before")
	command.Dir = root
	command.Env = append(os.Environ(), "GORELEASER_CURRENT_TAG=v0.0.1", "GITHUB_TOKEN=none",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=remote.origin.url", "GIT_CONFIG_VALUE_0=https://github.com/flagship-k8s/flagship") // a clone may have none
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for program := range maxSize {
		t.Run(program, func(t *testing.T) { expectImage(t, host+"/"+program+":0.0.1", program) })
	}
}

// configuration is that of a release with nothing but the images, for one platform, and another base and another registry.
func configuration(t *testing.T, host, base string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"before", "archives", "nfpms", "sboms", "krews", "checksum"} {
		delete(config, other)
	}
	config["dist"], config["release"], config["checksum"] = filepath.Join(t.TempDir(), "dist"), map[string]any{"disable": true}, map[string]any{"disable": true}
	for _, build := range config["builds"].([]any) {
		build := build.(map[string]any)
		build["targets"], build["skip"] = []string{"linux_amd64"}, true // ko builds them itself
	}
	for _, image := range config["kos"].([]any) {
		image := image.(map[string]any)
		if got := image["base_image"]; got != "gcr.io/distroless/static-debian12:nonroot" {
			t.Errorf("the base image is %s", got)
		}
		image["base_image"], image["platforms"] = base, []string{"linux/amd64"}
		image["repositories"] = []string{strings.Replace(image["repositories"].([]any)[0].(string), "ghcr.io/flagship-k8s", host, 1)}
	}
	changed, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "goreleaser.yaml")
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// baseImage is as distroless/static: a user without rights, authorities of TLS, and no program.
func baseImage(t *testing.T) v1.Image {
	t.Helper()
	var content bytes.Buffer
	files := tar.NewWriter(&content)
	for name, text := range map[string]string{"etc/passwd": "nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n", "etc/ssl/certs/ca-certificates.crt": ""} {
		if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(files, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers", DiffIDs: diffIDs(t, image)}, Config: v1.Config{User: "65532"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func diffIDs(t *testing.T, image v1.Image) []v1.Hash {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config.RootFS.DiffIDs
}

func push(t *testing.T, to string, image v1.Image) {
	t.Helper()
	reference, err := name.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, image); err != nil {
		t.Fatal(err)
	}
}

// expectImage expects a static program as the only addition to the base image, no rights, and the time of the commit.
func expectImage(t *testing.T, at, program string) {
	reference, err := name.ParseReference(at)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(reference)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("its user is %q", config.Config.User)
	}
	if got := strings.Join(config.Config.Entrypoint, " "); got != "/ko-app/"+program {
		t.Errorf("its entry point is %q", got)
	}
	commit := exec.CommandContext(t.Context(), "git", "log", "-1", "--format=%cI %H")
	committed, err := commit.Output()
	if err != nil {
		t.Fatal(err)
	}
	date, hash, _ := strings.Cut(strings.TrimSpace(string(committed)), " ")
	if want, err := time.Parse(time.RFC3339, date); err != nil || !config.Created.Equal(want) {
		t.Errorf("it was created at %s, want %s, %v", config.Created, want, err)
	}
	if labels := config.Config.Labels; labels["org.opencontainers.image.revision"] != hash || labels["org.opencontainers.image.version"] != "0.0.1" {
		t.Errorf("its labels are %v", labels)
	}
	files := tar.NewReader(mutate.Extract(image))
	found := false
	for {
		header, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch path := strings.TrimPrefix(header.Name, "/"); {
		case path == "ko-app/"+program:
			found = true
			expectProgram(t, files, header, maxSize[program])
		case header.Typeflag == tar.TypeDir, strings.HasPrefix(path, "etc/"), strings.HasPrefix(path, "var/run/ko"):
		default:
			t.Errorf("it has %s", header.Name)
		}
	}
	if !found {
		t.Error("it has no program")
	}
}

// expectProgram expects a program that every user may run and none may change, which needs no other file.
func expectProgram(t *testing.T, content io.Reader, header *tar.Header, max int64) {
	t.Helper()
	if header.Mode&0o555 != 0o555 || header.Mode&0o222 != 0 || header.Size > max {
		t.Errorf("the program has mode %o and %d MB, want less than %d", header.Mode, header.Size/1e6, max/1e6)
	}
	text, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 || program.Section(".interp") != nil {
		t.Errorf("the program needs %v, %v: it is not static", libraries, err)
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(checkout)) {
		t.Errorf("the program has the path %s", checkout)
	}
}
