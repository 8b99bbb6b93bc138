package preview

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// readAll reads the objects of files, of the files in folders, and of the standard input, which is "-".
func readAll(s cli.Streams, paths []string, recursive bool) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, path := range paths {
		files, err := filesOf(path, recursive)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			content, err := read(s, file)
			if err != nil {
				return nil, err
			}
			objects, err := parse(content)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, objects...)
		}
	}
	return all, nil
}

func read(s cli.Streams, file string) ([]byte, error) {
	if file == "-" {
		content, err := io.ReadAll(s.In)
		if err != nil {
			return nil, fmt.Errorf("reading the standard input: %w", err)
		}
		return content, nil
	}
	return os.ReadFile(file) // its error has the name
}

// filesOf lists the files that a path means, as kubectl does.
func filesOf(path string, recursive bool) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(file string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != path && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no .yaml, .yml or .json file", path)
	}
	return files, nil
}

// parse reads the documents of a file. The items of a List count as documents.
func parse(content []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var objects []*unstructured.Unstructured
	for {
		var raw runtime.RawExtension
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading YAML: %w", err)
		}
		raw.Raw = bytes.TrimSpace(raw.Raw)
		if len(raw.Raw) == 0 || bytes.Equal(raw.Raw, []byte("null")) {
			continue
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(raw.Raw); err != nil {
			return nil, fmt.Errorf("reading a manifest: %w", err)
		}
		if !obj.IsList() {
			objects = append(objects, obj)
			continue
		}
		err = obj.EachListItem(func(item runtime.Object) error {
			objects = append(objects, item.(*unstructured.Unstructured))
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading a list: %w", err)
		}
	}
}
