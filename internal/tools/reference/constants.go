package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// ofConditions matches the comments of constants that are types of conditions or their reasons.
var ofConditions = regexp.MustCompile(`(?i)^(condition types|conditions|types of conditions|reasons?\b)|\bconditions?\b|Reason(: | is | reports)`)

// conditionPage has the constants of api/ that are in files of conditions, by group.
func conditionPage(root string) ([]byte, error) {
	packages, err := parse(root)
	if err != nil {
		return nil, err
	}
	var page strings.Builder
	page.WriteString(generated + "# Conditions and their reasons\n\nMessages are for people and may change; types and reasons are API.\n")
	for _, p := range packages {
		heading := fmt.Sprintf("\n## %s/%s\n", p.group(), path.Base(p.dir))
		for _, file := range p.files {
			for _, block := range constants(file) {
				if !strings.Contains(block.names, "Condition") && !strings.Contains(block.names, "Reason") && !ofConditions.MatchString(block.doc) || strings.Contains(block.names, "Operator") {
					continue
				}
				page.WriteString(heading)
				heading = ""
				block.write(&page)
			}
		}
	}
	return []byte(page.String()), nil
}

// eventPage has the constants of the package of events.
func eventPage(dir string) ([]byte, error) {
	packages, err := parse(dir)
	if err != nil {
		return nil, err
	}
	var page strings.Builder
	page.WriteString(generated + "# Reasons of events\n\nThose that end in `Failed` are warnings. Events of success are only in memory, for an hour.\n")
	for _, p := range packages {
		for _, file := range p.files {
			for _, block := range constants(file) {
				if strings.HasPrefix(block.doc, "Reasons of events") {
					block.write(&page)
				}
			}
		}
	}
	return []byte(page.String()), nil
}

// block is one declaration of constants that are strings.
type block struct {
	doc, names string
	rows       [][2]string
}

func constants(file *ast.File) []block {
	var blocks []block
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		b := block{doc: strings.TrimSpace(gen.Doc.Text())}
		for _, spec := range gen.Specs {
			value := spec.(*ast.ValueSpec)
			if len(value.Values) != 1 || !ast.IsExported(value.Names[0].Name) {
				continue
			}
			literal, ok := value.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				continue // the compiler refuses it
			}
			b.names += value.Names[0].Name + " "
			// A comment begins with the name of the constant, which is not that of its value.
			b.rows = append(b.rows, [2]string{text, strings.ReplaceAll(value.Doc.Text(), value.Names[0].Name, text)})
		}
		if len(b.rows) > 0 {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func (b block) write(page *strings.Builder) {
	doc := b.doc
	if len(b.rows) == 1 && b.rows[0][1] == "" {
		b.rows[0][1], doc = strings.ReplaceAll(doc, strings.TrimSpace(b.names), b.rows[0][0]), ""
	}
	if doc != "" {
		fmt.Fprintf(page, "\n%s\n", cell(doc))
	}
	page.WriteString("\n| value | meaning |\n|---|---|\n")
	for _, row := range b.rows {
		fmt.Fprintf(page, "| `%s` | %s |\n", row[0], cell(row[1]))
	}
}
