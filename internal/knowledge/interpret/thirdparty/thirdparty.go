package thirdparty

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
)

//go:embed prelude.lua
var prelude string

//go:embed kinds
var files embed.FS

// New returns the layer of the shipped scripts.
func New() (interpret.Layer, error) {
	customizations, err := Customizations()
	if err != nil {
		return nil, err
	}
	store := declarative.New()
	store.Set(customizations)
	return store, nil
}

// Customizations returns the shipped scripts in the form in which a user would write them. Every function of a file gets the
// whole file as its script.
func Customizations() ([]*configv1alpha1.ResourceInterpreterCustomization, error) {
	var list []*configv1alpha1.ResourceInterpreterCustomization
	err := fs.WalkDir(files, "kinds", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		customization, err := customize(name, string(data))
		if err != nil {
			return err
		}
		list = append(list, customization)
		return nil
	})
	return list, err
}

// customize makes a customization of a file.
func customize(name, source string) (*configv1alpha1.ResourceInterpreterCustomization, error) {
	parts := strings.Split(strings.TrimSuffix(name, ".lua"), "/")
	if len(parts) != 4 || path.Ext(name) != ".lua" {
		return nil, fmt.Errorf("%s is not at <group>/<version>/<Kind>.lua", name)
	}
	gvk := schema.GroupVersionKind{Group: parts[1], Version: parts[2], Kind: parts[3]}
	customization := &configv1alpha1.ResourceInterpreterCustomization{
		ObjectMeta: metav1.ObjectMeta{Name: "shipped/" + strings.Join(parts[1:], "/")},
	}
	customization.Spec.Target.APIVersion, customization.Spec.Target.Kind = gvk.ToAPIVersionAndKind()
	rules := map[string]any{}
	for _, function := range declarative.Functions() {
		if strings.Contains("\n"+source, "\nfunction "+function.Name+"(") {
			rules[function.Field] = map[string]any{"luaScript": prelude + "\n" + source}
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(rules, &customization.Spec.Customizations); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return customization, nil
}
