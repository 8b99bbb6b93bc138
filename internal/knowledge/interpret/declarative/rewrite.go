package declarative

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// Names of the functions that stand for operators whose cost the virtual machine
// does not count. No script can spell them.
const (
	concatFunction = "\x00concat"
	fillFunction   = "\x00fill"
	keyFunction    = "\x00key"
	hoisted        = "\x00hoisted"
)

// rewriter replaces, all over a chunk, concatenations, table constructors that
// take in a list of values, and writes to computed keys by calls of functions
// that count what these use.
type rewriter struct {
	locals int
}

func (r *rewriter) block(stmts []ast.Stmt) {
	for i, stmt := range stmts {
		stmts[i] = r.stmt(stmt)
	}
}

func (r *rewriter) stmt(stmt ast.Stmt) ast.Stmt {
	switch s := stmt.(type) {
	case *ast.AssignStmt:
		return r.assign(s)
	case *ast.LocalAssignStmt:
		r.exprs(s.Exprs)
	case *ast.FuncCallStmt:
		s.Expr = r.expr(s.Expr)
	case *ast.DoBlockStmt:
		r.block(s.Stmts)
	case *ast.WhileStmt:
		s.Condition = r.expr(s.Condition)
		r.block(s.Stmts)
	case *ast.RepeatStmt:
		s.Condition = r.expr(s.Condition)
		r.block(s.Stmts)
	case *ast.IfStmt:
		s.Condition = r.expr(s.Condition)
		r.block(s.Then)
		r.block(s.Else)
	case *ast.NumberForStmt:
		s.Init, s.Limit, s.Step = r.expr(s.Init), r.expr(s.Limit), r.expr(s.Step)
		r.block(s.Stmts)
	case *ast.GenericForStmt:
		r.exprs(s.Exprs)
		r.block(s.Stmts)
	case *ast.FuncDefStmt:
		r.block(s.Func.Stmts)
	case *ast.ReturnStmt:
		r.exprs(s.Exprs)
	case *ast.BreakStmt, *ast.LabelStmt, *ast.GotoStmt:
	default:
		panic(fmt.Sprintf("statement %T is not known", stmt))
	}
	return stmt
}

// assign guards the computed keys on the left. Table and key are evaluated into
// locals first, so that guarding does not evaluate them twice.
func (r *rewriter) assign(s *ast.AssignStmt) ast.Stmt {
	r.exprs(s.Rhs)
	var before []ast.Stmt
	for i, target := range s.Lhs {
		attr, ok := target.(*ast.AttrGetExpr)
		if !ok {
			continue
		}
		attr.Object = r.expr(attr.Object)
		if _, constant := attr.Key.(*ast.StringExpr); constant {
			continue
		}
		attr.Key = r.expr(attr.Key)
		r.locals++
		table, key := fmt.Sprintf("%st%d", hoisted, r.locals), fmt.Sprintf("%sk%d", hoisted, r.locals)
		local := &ast.LocalAssignStmt{Names: []string{table, key}, Exprs: []ast.Expr{single(attr.Object), single(attr.Key)}}
		at(local, s)
		before = append(before, local)
		guarded := &ast.AttrGetExpr{Object: ident(table, s), Key: call(s, keyFunction, ident(table, s), ident(key, s))}
		at(guarded, s)
		s.Lhs[i] = guarded
	}
	if before == nil {
		return s
	}
	block := &ast.DoBlockStmt{Stmts: append(before, s)}
	at(block, s)
	return block
}

func (r *rewriter) exprs(list []ast.Expr) {
	for i, e := range list {
		list[i] = r.expr(e)
	}
}

func (r *rewriter) expr(expr ast.Expr) ast.Expr {
	switch e := expr.(type) {
	case nil:
		return nil
	case *ast.StringConcatOpExpr:
		return r.concat(e)
	case *ast.TableExpr:
		return r.table(e)
	case *ast.AttrGetExpr:
		e.Object, e.Key = r.expr(e.Object), r.expr(e.Key)
	case *ast.FuncCallExpr:
		e.Func, e.Receiver = r.expr(e.Func), r.expr(e.Receiver)
		r.exprs(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.FunctionExpr:
		r.block(e.Stmts)
	case *ast.TrueExpr, *ast.FalseExpr, *ast.NilExpr, *ast.NumberExpr, *ast.StringExpr, *ast.Comma3Expr, *ast.IdentExpr:
	default:
		panic(fmt.Sprintf("expression %T is not known", expr))
	}
	return expr
}

// concat turns a .. b .. c into one call, since the operator groups to the right.
func (r *rewriter) concat(e *ast.StringConcatOpExpr) ast.Expr {
	var operands []ast.Expr
	var rest ast.Expr = e
	for {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		operands = append(operands, single(r.expr(next.Lhs)))
		rest = next.Rhs
	}
	operands = append(operands, single(r.expr(rest)))
	return call(e, concatFunction, operands...)
}

// table guards computed keys and turns {a, b, f()} into fill({a, b}, 3, f()).
func (r *rewriter) table(e *ast.TableExpr) ast.Expr {
	positions := 0
	for i, field := range e.Fields {
		field.Value = r.expr(field.Value)
		if field.Key == nil {
			positions++
			if i < len(e.Fields)-1 {
				field.Value = single(field.Value)
			}
			continue
		}
		if _, constant := field.Key.(*ast.StringExpr); !constant {
			field.Key = call(e, keyFunction, &ast.NilExpr{}, single(r.expr(field.Key)))
		}
	}
	if len(e.Fields) == 0 {
		return e
	}
	last := e.Fields[len(e.Fields)-1]
	if last.Key != nil || !multiple(last.Value) {
		return e
	}
	e.Fields = e.Fields[:len(e.Fields)-1]
	number := &ast.NumberExpr{Value: fmt.Sprint(positions)}
	at(number, e)
	return call(e, fillFunction, e, number, last.Value)
}

// multiple tells whether an expression may have any number of values.
func multiple(expr ast.Expr) bool {
	switch e := expr.(type) {
	case *ast.Comma3Expr:
		return !e.AdjustRet
	case *ast.FuncCallExpr:
		return !e.AdjustRet
	default:
		return false
	}
}

// single cuts an expression down to its first value.
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
	result := &ast.FuncCallExpr{Func: ident(name, where), Args: args}
	at(result, where)
	for _, arg := range args {
		if arg.Line() == 0 {
			at(arg, where)
		}
	}
	return result
}

func ident(name string, where ast.PositionHolder) ast.Expr {
	result := &ast.IdentExpr{Value: name}
	at(result, where)
	return result
}

func at(node, where ast.PositionHolder) {
	node.SetLine(where.Line())
	node.SetLastLine(where.LastLine())
}
