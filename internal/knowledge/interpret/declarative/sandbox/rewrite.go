package sandbox

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/yuin/gopher-lua/ast"
)

// Names of the functions that replace operators whose cost the virtual machine does not count. No script can spell them.
const (
	concatFunction = "\x00concat"
	fillFunction   = "\x00fill"
	keyFunction    = "\x00key"
	hoisted        = "\x00hoisted"
)

// maxNesting is how deep a script's syntax tree may be, since the compiler calls itself for each level.
const maxNesting = 1000

var errNesting = errors.New("the script is nested too deep")

// rewriter replaces, all over a chunk, concatenations, table constructors that take in a list of values, and writes to computed
// keys by calls of functions that count what these use. gopher-lua has no hook for them.
type rewriter struct {
	locals int
}

// walk replaces the expressions and statements below a value, the innermost first.
func (r *rewriter) walk(v reflect.Value, depth int) error {
	if depth > maxNesting {
		return errNesting
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if err := r.walk(v.Elem(), depth+1); err != nil {
			return err
		}
		switch node := v.Interface().(type) {
		case *ast.StringConcatOpExpr:
			v.Set(reflect.ValueOf(r.concat(node)))
		case *ast.TableExpr:
			v.Set(reflect.ValueOf(r.table(node)))
		case *ast.AssignStmt:
			v.Set(reflect.ValueOf(r.assign(node)))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return r.walk(v.Elem(), depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := r.walk(v.Field(i), depth); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := r.walk(v.Index(i), depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// assign guards the computed keys on the left. Table and key are evaluated into locals first, so that guarding does not evaluate
// them twice.
func (r *rewriter) assign(s *ast.AssignStmt) ast.Stmt {
	var before []ast.Stmt
	for i, target := range s.Lhs {
		attr, ok := target.(*ast.AttrGetExpr)
		if !ok || isName(attr.Key) {
			continue
		}
		r.locals++
		table, key := fmt.Sprintf("%st%d", hoisted, r.locals), fmt.Sprintf("%sk%d", hoisted, r.locals)
		before = append(before, at(s, &ast.LocalAssignStmt{
			Names: []string{table, key}, Exprs: []ast.Expr{single(attr.Object), single(attr.Key)},
		}))
		s.Lhs[i] = at(s, &ast.AttrGetExpr{Object: ident(s, table), Key: call(s, keyFunction, ident(s, table), ident(s, key))})
	}
	if before == nil {
		return s
	}
	return at(s, &ast.DoBlockStmt{Stmts: append(before, s)})
}

func isName(key ast.Expr) bool {
	_, name := key.(*ast.StringExpr)
	return name
}

// concat turns a .. b .. c into one call: the operator groups to the right, so that b .. c is a call already.
func (r *rewriter) concat(e *ast.StringConcatOpExpr) ast.Expr {
	if rest, ok := e.Rhs.(*ast.FuncCallExpr); ok {
		if function, ok := rest.Func.(*ast.IdentExpr); ok && function.Value == concatFunction {
			return call(e, concatFunction, append([]ast.Expr{single(e.Lhs)}, rest.Args...)...)
		}
	}
	return call(e, concatFunction, single(e.Lhs), single(e.Rhs))
}

// table guards computed keys and turns {a, b, f()} into fill({a, b}, 3, f()).
func (r *rewriter) table(e *ast.TableExpr) ast.Expr {
	positions := 0
	for i, field := range e.Fields {
		switch {
		case field.Key == nil:
			positions++
			if i < len(e.Fields)-1 {
				field.Value = single(field.Value)
			}
		case !isName(field.Key):
			field.Key = call(e, keyFunction, at(e, &ast.NilExpr{}), single(field.Key))
		}
	}
	last := len(e.Fields) - 1
	if last < 0 || e.Fields[last].Key != nil || !multiple(e.Fields[last].Value) {
		return e
	}
	values := e.Fields[last].Value
	e.Fields = e.Fields[:last]
	return call(e, fillFunction, e, at(e, &ast.NumberExpr{Value: fmt.Sprint(positions)}), values)
}

// multiple is true if an expression may have any number of values.
func multiple(expr ast.Expr) bool {
	switch e := expr.(type) {
	case *ast.Comma3Expr:
		return !e.AdjustRet
	case *ast.FuncCallExpr:
		return !e.AdjustRet
	}
	return false
}

// single limits an expression to its first value.
func single(expr ast.Expr) ast.Expr {
	switch e := expr.(type) {
	case *ast.Comma3Expr:
		e.AdjustRet = true
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	}
	return expr
}

func call(where ast.PositionHolder, name string, args ...ast.Expr) ast.Expr {
	return at(where, &ast.FuncCallExpr{Func: ident(where, name), Args: args})
}

func ident(where ast.PositionHolder, name string) ast.Expr {
	return at(where, &ast.IdentExpr{Value: name})
}

// at gives a new node the position of another.
func at[N ast.PositionHolder](where ast.PositionHolder, node N) N {
	node.SetLine(where.Line())
	node.SetLastLine(where.LastLine())
	return node
}
