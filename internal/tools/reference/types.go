package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var groupMarker = regexp.MustCompile(`(?m)^\+groupName=(\S+)`)

// parsed is the source of one package.
type parsed struct {
	dir   string
	files []*ast.File
}

// parse reads the packages below a folder, without tests and generated files.
func parse(root string) ([]parsed, error) {
	var packages []parsed
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() == "testdata" {
			return err
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		p := parsed{dir: filepath.ToSlash(dir)}
		for _, entry := range entries {
			name := entry.Name()
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments)
			if err != nil {
				return err
			}
			p.files = append(p.files, file)
		}
		if len(p.files) > 0 {
			packages = append(packages, p)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the source below %s: %w", root, err)
	}
	return packages, nil
}

// group is the API group of a package, "" if it has none.
func (p parsed) group() string {
	for _, file := range p.files {
		for _, comment := range file.Comments {
			if found := groupMarker.FindStringSubmatch(comment.Text()); found != nil {
				return found[1]
			}
		}
	}
	return ""
}

// structure is a type with fields of JSON.
type structure struct {
	name, doc string
	kind      bool
	fields    []*ast.Field
}

func (p parsed) structures() []structure {
	var all []structure
	for _, file := range p.files {
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				s, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType)
				name := spec.(*ast.TypeSpec).Name.Name
				if !ok || !ast.IsExported(name) || strings.HasSuffix(name, "List") {
					continue
				}
				text := gen.Doc.Text()
				fields := slices.DeleteFunc(slices.Clone(s.Fields.List), func(f *ast.Field) bool { return f.Tag == nil })
				if len(fields) > 0 {
					all = append(all, structure{name, text, strings.Contains(text, "+kubebuilder:object:root=true"), fields})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b structure) int {
		if a.kind != b.kind {
			if a.kind {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return all
}

// kindPages has a page for each version of an API group, and their list.
func kindPages(root string) (map[string][]byte, error) {
	packages, err := parse(root)
	if err != nil {
		return nil, err
	}
	pages, index := map[string][]byte{}, generated+"# Kinds\n\n| group and version | kinds |\n|---|---|\n"
	for _, p := range packages {
		group, version := p.group(), path.Base(p.dir)
		if group == "" {
			continue
		}
		structures, known := p.structures(), map[string]bool{}
		var kinds []string
		for _, s := range structures {
			known[s.name] = true
			if s.kind {
				kinds = append(kinds, s.name)
			}
		}
		var page strings.Builder
		fmt.Fprintf(&page, "%s# %s/%s\n", generated, group, version)
		for _, s := range structures {
			fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", s.name, cell(meaning(s.doc)))
			for _, field := range s.fields {
				fieldRow(&page, field, known)
			}
		}
		name := group + "_" + version + ".md"
		pages["kinds/"+name] = []byte(page.String())
		index += fmt.Sprintf("| [%s/%s](%s) | %s |\n", group, version, name, strings.Join(kinds, ", "))
	}
	pages["kinds/README.md"] = []byte(index)
	return pages, nil
}

func fieldRow(page *strings.Builder, field *ast.Field, known map[string]bool) {
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return // the compiler refuses it
	}
	name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	typ := typeText(types.ExprString(field.Type), known)
	switch {
	case name == "-" || strings.HasSuffix(types.ExprString(field.Type), ".TypeMeta"):
		return
	case name == "" && strings.Contains(options, "inline"):
		fmt.Fprintf(page, "| | %s | its fields are here |\n", typ)
		return
	}
	text := meaning(field.Doc.Text())
	if strings.Contains(field.Doc.Text(), "+required") || strings.Contains(field.Doc.Text(), "+kubebuilder:validation:Required") {
		text = "Required. " + text
	}
	fmt.Fprintf(page, "| `%s` | %s | %s |\n", name, typ, cell(text))
}

// typeText writes a type of Go as one of the API: without pointers, with links to the types of the page.
func typeText(typ string, known map[string]bool) string {
	typ = strings.ReplaceAll(typ, "*", "")
	prefix := ""
	for {
		if rest, ok := strings.CutPrefix(typ, "[]"); ok && rest != "byte" {
			prefix, typ = prefix+"list of ", rest
		} else if rest, ok := strings.CutPrefix(typ, "map[string]"); ok {
			prefix, typ = prefix+"map of ", rest
		} else {
			break
		}
	}
	if known[typ] {
		return prefix + "[" + typ + "](#" + strings.ToLower(typ) + ")"
	}
	return prefix + "`" + typ + "`"
}

// meaning is a comment without the markers of generators.
func meaning(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "+") {
			kept = append(kept, line)
		}
	}
	return strings.TrimSpace(strings.Join(kept, ""))
}
