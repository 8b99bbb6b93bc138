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

// program is a compiled script and the function in it that answers.
type program struct {
	// origin names the customization, for errors.
	origin   string
	function string
	proto    *lua.FunctionProto
}

// compile checks and compiles a script. It does not run it.
func compile(origin, function, source string) (compiled *program, err error) {
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
	chunk, err := parse.Parse(strings.NewReader(source), function)
	if err != nil {
		return nil, plain(err)
	}
	if !defines(chunk, function) {
		return nil, fmt.Errorf("the script does not define the function %s", function)
	}
	(&rewriter{}).block(chunk)
	proto, err := lua.Compile(chunk, function)
	if err != nil {
		return nil, plain(err)
	}
	return &program{origin: origin, function: function, proto: proto}, nil
}

// plain puts the parser's message on one line.
func plain(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// defines tells whether a chunk makes a global of the name, at its top level.
func defines(chunk []ast.Stmt, name string) bool {
	for _, stmt := range chunk {
		switch s := stmt.(type) {
		case *ast.FuncDefStmt:
			if s.Name.Method == "" && isIdent(s.Name.Func, name) {
				return true
			}
		case *ast.AssignStmt:
			for _, target := range s.Lhs {
				if isIdent(target, name) {
					return true
				}
			}
		}
	}
	return false
}

func isIdent(expr ast.Expr, name string) bool {
	ident, ok := expr.(*ast.IdentExpr)
	return ok && ident.Value == name
}
