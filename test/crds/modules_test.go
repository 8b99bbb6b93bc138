package crds

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// set is the definitions in one folder of a module.
type set struct {
	name, module, folder string
	// want is how many definitions there are.
	want int
}

// sets are posted in this order. The experimental channel of the Gateway API replaces the standard one.
var sets = []set{
	{"cert-manager", "github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds", 6},
	{"gateway-api", "sigs.k8s.io/gateway-api@v1.4.0", "config/crd/standard", 6},
	{"gateway-api-experimental", "sigs.k8s.io/gateway-api@v1.4.0", "config/crd/experimental", 12},
	{"cluster-api", "sigs.k8s.io/cluster-api@v1.14.2", "core/config/crd/bases", 13},
	{"prometheus-operator", "github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd-full", 10},
	{"karpenter", "sigs.k8s.io/karpenter@v1.8.0", "pkg/apis/crds", 3},
}

// download returns the folder of the set in the module cache.
func (s set) download(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", s.module)
	command.Dir = t.TempDir() // outside any module
	command.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "GOWORK=off")
	output, err := command.Output()
	var answer struct{ Dir, Error string }
	if parse := json.Unmarshal(output, &answer); parse != nil || answer.Dir == "" {
		t.Fatalf("downloading %s: %v %s", s.module, err, answer.Error)
	}
	return filepath.Join(answer.Dir, filepath.FromSlash(s.folder))
}

// read returns the definitions of the set, by name.
func (s set) read(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.download(t), "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---") {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal([]byte(document), definition); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if definition.Kind == "CustomResourceDefinition" {
				definition.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
				definitions = append(definitions, definition)
			}
		}
	}
	slices.SortFunc(definitions, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	if len(definitions) != s.want {
		t.Fatalf("%s has %d definitions, want %d", s.name, len(definitions), s.want)
	}
	return definitions
}
