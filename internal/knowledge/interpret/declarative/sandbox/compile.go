package sandbox

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// maxSource is how long a script may be, in bytes.
const maxSource = 256 << 10

// Program is a compiled script.
type Program struct {
	proto *lua.FunctionProto
	// defines has the names of the globals that the script makes at its top level.
	defines map[string]bool
}

// Defines is true if the script makes a global of the name, by defining a function or by assignment.
func (p *Program) Defines(function string) bool { return p.defines[function] }

// Compile compiles a script without running it.
func Compile(source string) (program *Program, err error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("the script is longer than %d bytes", maxSource)
	}
	if strings.ContainsRune(source, 0) {
		return nil, errors.New("the script contains a zero byte")
	}
	defer func() {
		if caught := recover(); caught != nil { // gopher-lua panics where a script has too many constants or registers
			err = fmt.Errorf("the script cannot be compiled: %v", caught)
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(source), "script")
	if err != nil {
		return nil, onOneLine(err)
	}
	program = &Program{defines: definitions(chunk)}
	if err := (&rewriter{}).walk(reflect.ValueOf(chunk), 0); err != nil {
		return nil, err
	}
	if program.proto, err = lua.Compile(chunk, "script"); err != nil {
		return nil, onOneLine(err)
	}
	return program, nil
}

func onOneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

func definitions(chunk []ast.Stmt) map[string]bool {
	names := map[string]bool{}
	add := func(expr ast.Expr) {
		if ident, ok := expr.(*ast.IdentExpr); ok {
			names[ident.Value] = true
		}
	}
	for _, stmt := range chunk {
		switch s := stmt.(type) {
		case *ast.FuncDefStmt:
			if s.Name.Method == "" {
				add(s.Name.Func)
			}
		case *ast.AssignStmt:
			for _, target := range s.Lhs {
				add(target)
			}
		}
	}
	return names
}
