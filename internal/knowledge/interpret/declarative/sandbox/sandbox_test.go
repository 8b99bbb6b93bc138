package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative/sandbox"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// run returns what a script's function f returns for an argument, as JSON.
func run(pool *sandbox.Pool, script string, argument any) (string, error) {
	program, err := sandbox.Compile(script)
	if err != nil {
		return "", err
	}
	var result any
	err = pool.Call(context.Background(), program, "f", 1, []any{argument}, func(values *sandbox.Values, results []lua.LValue) (err error) {
		result, err = values.Result(results[0], argument)
		return err
	})
	data, encodeErr := json.Marshal(result)
	if err == nil {
		err = encodeErr
	}
	return string(data), err
}

func TestCall(t *testing.T) {
	pool := sandbox.NewPool(map[string]sandbox.Library{"go": {"twice": func(vm *lua.LState) int {
		sandbox.Charge(vm, 10)
		vm.Push(2 * vm.CheckNumber(1))
		return 1
	}}})
	object := map[string]any{
		"text": "a", "number": int64(3), "fraction": 0.5, "flag": true, "none": nil, "list": []any{int64(1), map[string]any{}}, "empty": []any{},
	}
	for reason, test := range map[string]struct{ body, want string }{
		"values come back as they were":     {"return x", `{"empty":[],"flag":true,"fraction":0.5,"list":[1,{}],"number":3,"text":"a"}`},
		"an emptied list stays a list":      {"x.list[1], x.list[2] = nil, nil return x.list", `[]`},
		"functions in Go":                   {"return go.twice(x.number)", `6`},
		"functions in Go by require":        {"return require('go').twice(2)", `4`},
		"nothing returned is nil":           {"", `null`},
		"whole numbers are integers":        {"return {10 / 2, 2 ^ 40, -0.5}", `[5,1099511627776,-0.5]`},
		"an operand that is a list of one":  {"local function g() return 'a', 'b' end return g() .. g()", `"aa"`},
		"a list of values inside of a list": {"local function g() return 1, 2 end return {g(), g()}", `[1,1,2]`},
	} {
		if got, err := run(pool, "function f(x) "+test.body+" end", object); err != nil || got != test.want {
			t.Errorf("%s: %q returns %s, %v; want %s", reason, test.body, got, err, test.want)
		}
	}
}

func TestFailures(t *testing.T) {
	pool := sandbox.NewPool(nil)
	for script, want := range map[string]string{
		"function f() error('no') end":               "no",
		"function f() error({}) end":                 "table",
		"f = 5":                                      "f is not a function",
		"function f() return nil + 1 end":            "cannot perform add",
		"function f(":                                "at EOF",
		"f = '\x00'":                                 "zero byte",
		"goto nowhere":                               "no visible label",
		"function f() return {f} end":                "contains a function",
		"function f() return go.twice(1) end":        "index a non-table",
		"function f() error(('x'):rep(1e6)) end":     "xxx",
		"function f() return ('%d'):format('a') end": "number expected",
		"function f() return ('%d'):format() end":    "number expected",
		"function f() return ('%'):format(1) end":    "invalid format",
	} {
		_, err := run(pool, script, nil)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1100 {
			t.Errorf("%.60q: error %.200v, want a short one with %q", script, err, want)
		}
	}
}

func TestDefines(t *testing.T) {
	program, err := sandbox.Compile("function a() end b, c.d = function() end, 1 local function e() end function g.h() end function i:j() end")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": true, "b": true, "c": false, "d": false, "e": false, "g": false, "h": false, "i": false} {
		if program.Defines(name) != want {
			t.Errorf("Defines(%q) is %v", name, !want)
		}
	}
}

// TestAttacks runs scripts that are cheap by their instructions. Each ends with an error, before its time if that error is named: then
// the time is long enough for a slow machine.
func TestAttacks(t *testing.T) {
	repeat := strings.Repeat
	patient, quick := sandbox.NewPool(nil), sandbox.NewPool(nil)
	patient.Timeout = time.Minute
	for name, test := range map[string]struct{ script, want string }{
		"a script that is too long":     {repeat(" ", 256<<10+1), "longer than"},
		"deep operators":                {"return " + repeat("#", 250_000) + "'x'", "nested too deep"},
		"deep tables":                   {"return " + repeat("{", 120_000) + repeat("}", 120_000), "nested too deep"},
		"deep calls":                    {"return " + repeat("f(", 80_000) + repeat(")", 80_000), "nested too deep"},
		"deep indexes":                  {"return a" + repeat(".a", 100_000), "nested too deep"},
		"deep concatenation":            {"return " + repeat("'a'..", 50_000) + "'b'", "nested too deep"},
		"deep functions":                {repeat("local g = function() ", 5_000) + repeat(" end", 5_000), "nested too deep"},
		"a branch of many":              {"if a then " + repeat("elseif a then ", 10_000) + " end", "nested too deep"},
		"a pattern of many repetitions": {"function f() return (''):find(('a?'):rep(5e5)) end", "too complex"},
		"a pattern of many captures":    {"function f() return (''):find(('()'):rep(5e5)) end", "too many captures"},
		"a doubling pattern":            {"function f() return (('a'):rep(30)):match(('a?'):rep(30) .. ('a'):rep(30) .. 'b') end", "the script"},
		"one string in many places":     {"function f() local s, t = ('x'):rep(1e6), {} for i = 1, 1e5 do t[i] = s end return t end", "bytes of text"},
		"one string as many keys":       {"function f() local t = {} for i = 1, 300 do t[('x'):rep(1e5) .. i] = 1 end t.z = 'z' return t end", "bytes of text"},
		"one string in many verbs":      {"function f() local s = ('x'):rep(1e6) return ('%s%s%s'):format(s, s, s) end", "bytes"},
		"wide verbs":                    {"function f() return (('%99d'):rep(1e5)):format(unpack({}, 1, 1e4)) end", ""},
		"many characters of a string":   {"function f() return (('x'):rep(1e6)):byte(1, -1) end", "overflow"},
		"a growing replacement":         {"function f() return (('x'):rep(1e5)):gsub('x', function() return ('y'):rep(1e5) end) end", "bytes"},
		"a sort without an order":       {"function f() local t = {} for i = 1, 3e5 do t[i] = i end table.sort(t, function() return true end) end", "the script"},
		"a coroutine":                   {"function f() return coroutine.wrap(f)() end", "index a non-table"},
		"recursion through a handler":   {"function f() return pcall(f) and xpcall(f, f) end while true do f() end", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pool := patient
			if test.want == "" {
				pool = quick
			}
			_, err := run(pool, test.script, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || test.want != "" && errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got error %.200v, want one with %q", err, test.want)
			}
		})
	}
}

func TestQuantitiesOutOfRange(t *testing.T) {
	for text, ok := range map[string]bool{
		"1": true, "0.5": true, "100m": true, "2Gi": true, "1E": true, "1e3": true, "-1.5e-9": true,
		"1e2147483647": false, "1E-9999999": false, "1e+9999": false, strings.Repeat("9", 1e6): false, "0." + strings.Repeat("0", 200) + "1": false,
	} {
		if _, err := sandbox.Quantity(text); (err == nil) != ok {
			t.Errorf("Quantity(%.40q) returns the error %v", text, err)
		}
	}
}

// FuzzSandbox runs any script. It compiles or not, and the call ends.
func FuzzSandbox(f *testing.F) {
	for _, seed := range []string{
		"function f(x) return x end", "f = function(...) return {...} end", "function f(x) x[1], x.a = x.a .. x[1], {[x] = x, ...} return x end",
		"function f(x) for k, v in pairs(x) do x[k] = ('%5.2s'):format(v) end return x end", "goto a ::a:: function f() end",
		"function f() return (('ab'):rep(9)):gsub('(a)(%w)', '%2%1') end", "function f() while true do end end", "repeat local f = 1 until f",
	} {
		f.Add(seed)
	}
	pool := sandbox.NewPool(nil)
	f.Fuzz(func(t *testing.T, script string) {
		bounded.Run(t, func() {
			_, _ = run(pool, script, map[string]any{"a": "b", "list": []any{int64(1)}}) // an error is as good as a result
		})
	})
}
