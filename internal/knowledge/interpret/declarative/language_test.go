package declarative_test

import "testing"

// TestLanguage checks that guarding the language has not changed it.
func TestLanguage(t *testing.T) {
	tests := map[string]string{
		`"a" .. 1 .. "b" .. 2.5`:                                 `"a1b2.5"`,
		`("a" .. "b"):upper()`:                                   `"AB"`,
		`{1, 2, unpack({3, 4})}`:                                 `[1,2,3,4]`,
		`{(unpack({3, 4}))}`:                                     `[3]`,
		`{unpack({3, 4}), 5}`:                                    `[3,5]`,
		`{a = 1, ["b" .. "c"] = 2}`:                              `{"a":1,"bc":2}`,
		`{[1] = "a", [2] = "b"}`:                                 `["a","b"]`,
		`(function(...) return {n = select("#", ...), ...} end)`: ``,
		`(function(...) return {...} end)(1, 2)`:                 `[1,2]`,
		`(function() local t = {1, 2} t[1], t[2] = t[2], t[1] return t end)()`:                           `[2,1]`,
		`(function() local t = {} for i = 1, 3 do t[i] = i * i end return t end)()`:                      `[1,4,9]`,
		`(function() local t = {} t[#t + 1] = "a" t["k"] = nil return t end)()`:                          `["a"]`,
		`(function() local n = 0 local function f() n = n + 1 return {} end f()[n] = 1 return n end)()`:  `1`,
		`(function() local t = {a = {}} t.a["b" .. 1] = true return t end)()`:                            `{"a":{"b1":true}}`,
		`(function() local t = {3, 1, 2} table.sort(t) return t end)()`:                                  `[1,2,3]`,
		`(function() local t = {1, 2} table.insert(t, 1, 0) table.remove(t) return t end)()`:             `[0,1]`,
		`(function() repeat local x = "a" .. "b" until x .. "" == "ab" return true end)()`:               `true`,
		`(function() local s = "" for k, v in ipairs({"x", "y"}) do s = s .. k .. v end return s end)()`: `"1x2y"`,
		`(function() local ok, e = pcall(error, {code = 5}) return {ok, e.code} end)()`:                  `[false,5]`,
		`(function() local ok, e = pcall(function() return "a" .. {} end) return ok end)()`:              `false`,
		`table.concat({1, "b", 3}, "-", 2, 3)`:                                                           `"b-3"`,
		`table.concat({})`:                                                                               `""`,
		`tostring(12) .. tonumber("0x10")`:                                                               `"1216"`,
		`math.floor(2.7) + math.max(1, 5)`:                                                               `7`,
		`#"abc" + #{1, 2}`:                                                                               `5`,
		`type(os.time()) .. type(os.clock()) .. os.date("!%Y", 0)`:                                       `"numbernumber1970"`,
		`obj.status`:       `{"list":[],"map":{},"text":"hello"}`,
		`{obj.status.map}`: `[{}]`,
		`(function() string.twice = function(s) return s .. s end return string.twice("ab") end)()`: `"abab"`,
		`(function() _G.answer = 42 return answer end)()`:                                           `42`,
		`print("x")`:                   ``,
		`require("string").upper("a")`: `"A"`,

		`("hello"):find("l")`:                                                 `3`,
		`{("hello"):find("l+")}`:                                              `[3,4]`,
		`{("hello"):find("(h)(e)")}`:                                          `[1,2,"h","e"]`,
		`{("a.b"):find(".", 1, true)}`:                                        `[2,2]`,
		`{("hello"):find("l", -1)}`:                                           `{}`,
		`{("hello"):find("", 6)}`:                                             `[6,5]`,
		`{("hello"):find("", 9)}`:                                             `{}`,
		`{("key = value"):match("^(%w+)%s*=%s*(%w+)$")}`:                      `["key","value"]`,
		`("v1.2.3"):match("%d+%.%d+")`:                                        `"1.2"`,
		`("2024-01-02"):match("%d%d%d%d")`:                                    `"2024"`,
		`("  trim  "):match("^%s*(.-)%s*$")`:                                  `"trim"`,
		`("[[x]]"):match("%[(%b[])%]")`:                                       `"[x]"`,
		`("f(a(b)c)d"):match("%b()")`:                                         `"(a(b)c)"`,
		`("THE (quick) fox"):find("%f[%a]%a+%f[%A]", 5)`:                      `6`,
		`("abab"):match("(a)(b)%1%2")`:                                        `"a"`,
		`("a-b_c"):match("[%w_-]+")`:                                          `"a-b_c"`,
		`("x]y"):match("[]]")`:                                                `"]"`,
		`("x^y"):match("[x^]+")`:                                              `"x^"`,
		`("abc"):match("[^a]+")`:                                              `"bc"`,
		`("abc"):match("()b()")`:                                              `2`,
		`("ac"):match("ab?c")`:                                                `"ac"`,
		`("100%"):match("%%")`:                                                `"%"`,
		`("a$"):match("a$")`:                                                  ``,
		`("a$b"):match("a$b")`:                                                `"a$b"`,
		`("aXb"):match("%u")`:                                                 `"X"`,
		`("ff 0G"):match("%x+$")`:                                             ``,
		`("a,b,,c"):gsub(",", ";")`:                                           `"a;b;;c"`,
		`{("a,b,,c"):gsub(",", ";", 2)}`:                                      `["a;b;,c",2]`,
		`{("abc"):gsub("", "-")}`:                                             `["-a-b-c-",4]`,
		`{("abc"):gsub("%w", "%0%0")}`:                                        `["aabbcc",3]`,
		`{("hello world"):gsub("(%w+) (%w+)", "%2 %1")}`:                      `["world hello",1]`,
		`{("abc"):gsub("^a", "x")}`:                                           `["xbc",1]`,
		`{("abc"):gsub("^b", "x")}`:                                           `["abc",0]`,
		`{("$a $b"):gsub("%$(%w+)", {a = "1"})}`:                              `["1 $b",2]`,
		`{("abc"):gsub(".", function(c) if c == "b" then return "" end end)}`: `["ac",3]`,
		`(function() local t = {} for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do t[k] = v end return t end)()`: `{"a":"1","b":"2"}`,
		`(function() local t = {} for w in ("one two"):gmatch("%a+") do table.insert(t, w) end return t end)()`:   `["one","two"]`,
		`("%5.1f|%-4d|%04d|%x|%s|%q|%%|%c"):format(1.25, 7, 7, 255, "s", 'a"b', 65)`:                              `"  1.2|7   |0007|ff|s|\"a\\\"b\"|%|A"`,
		`("%d"):format("12")`:                   `"12"`,
		`("%s %s"):format(true, nil)`:           `"true nil"`,
		`("abc"):sub(2) .. ("abc"):sub(-2, -2)`: `"bcb"`,
		`("abc"):sub(3, 2)`:                     `""`,
		`("ab"):rep(3) .. ("x"):rep(0)`:         `"ababab"`,
		`("abc"):reverse():byte()`:              `99`,
		`string.char(72, 105)`:                  `"Hi"`,

		`kube.resourceAdd("1", "500m")`:                                     `"1500m"`,
		`kube.resourceAdd("1Gi", nil)`:                                      `"1Gi"`,
		`kube.getResourceQuantity("250m")`:                                  `0.25`,
		`kube.getResourceQuantity("2Gi")`:                                   `2147483648`,
		`kube.accuratePodRequirements({spec = {containers = {}}})`:          ``,
		`kube.getPodDependencies({spec = {serviceAccountName = "a"}}, "n")`: `[{"apiVersion":"v1","kind":"ServiceAccount","name":"a","namespace":"n"}]`,
	}
	for expression, want := range tests {
		t.Run(expression, func(t *testing.T) {
			got, err := evaluate(t, expression)
			if expression[len(expression)-4:] == "end)" {
				wantError(t, err, "contains a function")
				return
			}
			if err != nil || got != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
}

func TestArgumentsThatAreWrong(t *testing.T) {
	for _, expression := range []string{
		`"a" .. nil`, `("a"):rep()`, `("x"):find("[a")`, `("x"):find("%")`, `("a"):find("(a")`, `("a"):match("a)")`, `("x"):gsub("x", true)`,
		`("x"):match("%1")`, `("%y"):format(1)`, `kube.resourceAdd("much")`, `kube.resourceAdd({})`, `kube.getPodDependencies("x")`,
		`kube.accuratePodRequirements({spec = {containers = {{name = 5}}}})`, `table.concat({{}})`,
	} {
		t.Run(expression, func(t *testing.T) {
			if got, err := evaluate(t, expression); err == nil {
				t.Errorf("got %s, want an error", got)
			}
		})
	}
}
