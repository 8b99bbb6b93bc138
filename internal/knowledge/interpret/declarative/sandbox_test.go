package declarative_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestTheSandboxIsClosed(t *testing.T) {
	names := []string{
		"io", "debug", "package", "coroutine", "channel", "dofile", "loadfile", "load", "loadstring", "module", "newproxy",
		"collectgarbage", "getfenv", "setfenv", "getmetatable", "setmetatable", "rawset",
		"os.execute", "os.exit", "os.getenv", "os.setenv", "os.remove", "os.rename", "os.tmpname", "os.setlocale",
		"string.dump", "math.randomseed", "_printregs",
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if got, err := evaluate(t, "{gone = "+name+" == nil}"); err != nil || got != `{"gone":true}` {
				t.Errorf("%s is there: %s, %v", name, got, err)
			}
		})
	}
	for _, name := range []string{"io", "debug", "os.path", "_G", "/etc/passwd"} {
		t.Run("require "+name, func(t *testing.T) {
			_, err := evaluate(t, "require('"+name+"')")
			wantError(t, err, "there is no module")
		})
	}
}

func TestWhatScriptsHave(t *testing.T) {
	for _, name := range strings.Fields(`assert error ipairs next pairs pcall print rawequal rawget require select tonumber
		tostring type unpack xpcall _G _VERSION string.byte string.char string.find string.format string.gmatch string.gsub
		string.len string.lower string.match string.rep string.reverse string.sub string.upper table.concat table.getn
		table.insert table.maxn table.remove table.sort math.abs math.ceil math.floor math.huge math.max math.min math.pi
		math.pow math.random math.sqrt os.clock os.date os.difftime os.time kube.resourceAdd kube.getResourceQuantity
		kube.accuratePodRequirements kube.getPodDependencies`) {
		if got, err := evaluate(t, "{there = "+name+" ~= nil}"); err != nil || got != `{"there":true}` {
			t.Errorf("%s is missing: %s, %v", name, got, err)
		}
	}
}

func TestCallsAreIsolated(t *testing.T) {
	i := interpreter("ReflectStatus", `
function ReflectStatus(obj)
  local seen = {leaked == nil, string.leaked == nil, table.leaked == nil, kube.leaked == nil, ("x").leaked == nil, ("abc"):upper() == "ABC"}
  leaked, string.leaked, table.leaked, kube.leaked = 1, 1, 1, 1
  string.upper = function() return "hijacked" end
  for _, ok in ipairs(seen) do if not ok then error("leak") end end
  return seen
end`)
	for range 3 {
		if _, err := i.Reflect(context.Background(), thing(t, "{}")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLimits(t *testing.T) {
	const (
		steps  = "the script"
		length = "bytes"
	)
	tests := map[string]struct{ body, want string }{
		"endless loop":                 {"while true do end", steps},
		"endless loop behind pcall":    {"while true do pcall(function() while true do end end) end", steps},
		"endless loop in a handler":    {"xpcall(error, function() while true do end end) while true do end", steps},
		"endless goto":                 {"::again:: goto again", steps},
		"endless recursion":            {"local function f() return 1 + f() end f()", "overflow"},
		"endless tail calls":           {"local function f() return f() end f()", steps},
		"doubled string":               {"local s = 'x' while true do s = s .. s end", length},
		"doubled string by format":     {"local s = 'x' while true do s = ('%s%s'):format(s, s) end", length},
		"doubled string by concat":     {"local s = 'x' while true do s = table.concat({s, s}) end", length},
		"doubled string by gsub":       {"local s = 'xx' while true do s = s:gsub('x', s) end", length},
		"doubled string by function":   {"local s = 'xx' while true do s = s:gsub('x', function() return s end) end", length},
		"doubled string by captures":   {"local s = 'xx' while true do s = s:gsub('^.*$', '%0%0') end", steps},
		"long repetition":              {"return ('x'):rep(1e9)", length},
		"long repetition of much":      {"local s = ('x'):rep(1e6) return s:rep(1e15)", length},
		"long format":                  {"return ('%999999999d'):format(1)", "invalid format"},
		"long separator":               {"local s = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = 'a' end return table.concat(t, s)", length},
		"many long strings":            {"local t, s = {}, ('x'):rep(1e6) for i = 1, 1e6 do t[i] = s:upper() end", steps},
		"many long pieces":             {"local t, s = {}, ('x'):rep(1e6) for i = 1, 1e6 do t[i] = s:sub(2) end", steps},
		"far away place":               {"local t = {} t[6e7] = 1", steps},
		"far away place of a field":    {"local o = {t = {}} o.t[6e7] = 1", steps},
		"far away place in a function": {"local function f() return {} end f()[6e7] = 1", steps},
		"far away place when made":     {"local t = {[6e7] = 1}", steps},
		"far away place of one of two": {"local t, a = {} a, t[6e7] = 1, 1", steps},
		"far away insertion":           {"table.insert({}, 6e7, 1)", "out of bounds"},
		"many places":                  {"local t = {} for i = 1, 1e6 do t[i] = {} t[i][10000] = 1 end", steps},
		"many argument lists":          {"local function f(...) local t = {} for i = 1, 1e9 do t[i] = {...} end end f(unpack({}, 1, 5000))", steps},
		"too many arguments":           {"return unpack({}, 1, 1e8)", "overflow"},
		"slow pattern":                 {"return (('a'):rep(3000)):find('.-.-.-.-.-b')", steps},
		"slow pattern in gsub":         {"return (('a'):rep(3000)):gsub('.-.-.-.-.-b', '')", steps},
		"slow pattern in gmatch":       {"for x in (('a'):rep(3000)):gmatch('.-.-.-.-.-b') do end", steps},
		"slow pattern in match":        {"return (('a'):rep(30)):match(('a?'):rep(30) .. ('a'):rep(30) .. 'b')", steps},
		"result with itself inside":    {"local t = {} t.t = t return t", "deep"},
		"result that unfolds":          {"local t = {} for i = 1, 40 do t = {t, t} end return t", "200000 values"},
		"result with a function":       {"return {f = print}", "contains a function"},
		"result without a number":      {"return 0/0", "number that is none"},
		"result of both kinds":         {"return {1, a = 2}", "both names and numbers"},
		"result with a place at zero":  {"return {[0] = 1}", "no places of a list"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, "function ReflectStatus(obj) "+tc.body+" end")
			wantError(t, err, tc.want)
		})
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := interpreter("ReflectStatus", "function ReflectStatus(obj) while true do end end").Reflect(ctx, thing(t, "{}"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestAFailedCallLeavesNothingBehind(t *testing.T) {
	i := interpreter("ReflectStatus", `
function ReflectStatus(obj)
  if obj.spec.loop then while true do end end
  if obj.spec.fail then error("no") end
  return obj.spec
end`)
	for range 5 {
		for _, text := range []string{"{spec: {loop: true}}", "{spec: {fail: true}}"} {
			if _, err := i.Reflect(context.Background(), thing(t, text)); err == nil {
				t.Fatal("no error")
			}
		}
		if got, err := i.Reflect(context.Background(), thing(t, "{spec: {a: 1}}")); err != nil || string(got.Raw) != `{"a":1}` {
			t.Fatalf("got %v, %v", got, err)
		}
	}
}

func TestManyCallsAtATime(t *testing.T) {
	i := interpreter("ReflectStatus", `
function ReflectStatus(obj)
  count = (count or 0) + 1
  return {count = count, text = ("x"):rep(obj.spec.n)}
end`)
	var wg sync.WaitGroup
	for n := range 16 {
		obj := thing(t, "{spec: {}}")
		obj.Object["spec"].(map[string]any)["n"] = int64(n)
		want := `{"count":1,"text":"` + strings.Repeat("x", n) + `"}`
		wg.Go(func() {
			for range 50 {
				if got, err := i.Reflect(context.Background(), obj); err != nil || string(got.Raw) != want {
					t.Errorf("got %v, %v; want %s", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}
