// Package examples carries the manifests of this folder in the binary, so that they can be tried without the sources.
package examples

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed nginx/*.yaml
var files embed.FS

// Nginx are the manifests of the demo in the order of their file names, one object each.
func Nginx() ([][]byte, error) {
	names, err := fs.Glob(files, "nginx/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing examples: %w", err)
	}
	manifests := make([][]byte, 0, len(names))
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading example: %w", err)
		}
		manifests = append(manifests, text)
	}
	return manifests, nil
}
