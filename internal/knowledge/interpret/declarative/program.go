package declarative

import (
	"errors"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// maxSource is how long a script may be, in bytes.
const maxSource = 256 << 10

// unit is a compiled script.
type unit struct {
	proto *lua.FunctionProto
	// defines holds the names of the functions that the script makes.
	defines map[string]bool
}

// program is a script and the function in it that answers.
type program struct {
	// origin names the customization, for errors.
	origin   string
	function string
	proto    *lua.FunctionProto
}

// compiler compiles scripts, each text once. It is meant for one goroutine.
type compiler map[string]*unit

// program checks and compiles a script. It does not run it.
func (c compiler) program(origin string, r rule) (*program, error) {
	u := c[r.source]
	if u == nil {
		compiled, err := compile(r.source)
		if err != nil {
			return nil, err
		}
		c[r.source] = compiled
		u = compiled
	}
	if !u.defines[r.function] {
		return nil, fmt.Errorf("the script does not define the function %s", r.function)
	}
	return &program{origin: origin, function: r.function, proto: u.proto}, nil
}

func compile(source string) (compiled *unit, err error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("the script is longer than %d bytes", maxSource)
	}
	if strings.ContainsRune(source, 0) {
		return nil, errors.New("the script contains a zero byte")
	}
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("the script cannot be compiled: %v", caught)
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(source), "script")
	if err != nil {
		return nil, plain(err)
	}
	functions := definitions(chunk)
	(&rewriter{}).block(chunk)
	proto, err := lua.Compile(chunk, "script")
	if err != nil {
		return nil, plain(err)
	}
	return &unit{proto: proto, defines: functions}, nil
}

// plain puts the parser's message on one line.
func plain(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// definitions lists the globals that a chunk makes at its top level by defining
// a function or by assignment.
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
