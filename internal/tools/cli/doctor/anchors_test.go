package doctor_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinksLeadToSections: what code names as the next step is a section of the page.
func TestLinksLeadToSections(t *testing.T) {
	const root = "../../../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(page), -1) {
		sections[strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}
	links := 0
	check := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`docs/troubleshooting\.md#([a-z-]+)`).FindAllStringSubmatch(string(text), -1) {
			if links++; !sections[link[1]] {
				t.Errorf("%s names docs/troubleshooting.md#%s, and the page has no such section", path, link[1])
			}
		}
	}
	for _, dir := range []string{"internal", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasSuffix(path, "_test.go") {
				check(path)
			}
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	for _, link := range regexp.MustCompile(`\(#([a-z-]+)\)`).FindAllStringSubmatch(string(page), -1) {
		if !sections[link[1]] {
			t.Errorf("the page links to #%s, which it has not", link[1])
		}
	}
	if links < 5 {
		t.Errorf("found %d links", links)
	}
}
