package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestKinds(t *testing.T) {
	for name, c := range map[string]struct {
		p    testPackage
		want []string
	}{
		"starts nothing":       {testPackage{path: module + "/api/work", tested: true}, []string{kindUnit, kindRace, kindAll, kindAny}},
		"starts processes":     {testPackage{path: module + "/internal/a", deps: []string{fleetPackage}, tested: true}, []string{kindFleet, kindRace, kindAll, kindAny}},
		"links the API server": {testPackage{path: module + "/internal/b", deps: []string{serverPackage}, tested: true}, []string{kindFleet, kindAll, kindAny}},
		"tests of behaviour":   {testPackage{path: module + "/test/c", deps: []string{fleetPackage}, tested: true}, []string{kindFleet, kindAll, kindAny}},
		"has no tests":         {testPackage{path: module + "/internal/d"}, []string{kindAny}},
		"reads the sources":    {testPackage{path: module + "/internal", tested: true}, []string{kindUnit, kindAll, kindAny}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{kindUnit, kindFleet, kindRace, kindAll, kindAny} {
				if got := len(ofKind([]testPackage{c.p}, kind)) == 1; got != slices.Contains(c.want, kind) {
					t.Errorf("of kind %s: %t", kind, got)
				}
			}
		})
	}
}

func TestReachedBy(t *testing.T) {
	packages := []testPackage{
		{path: module + "/api/work", dir: "/r/api/work", deps: []string{module + "/api/work"}},
		{path: module + "/internal/a", dir: "/r/internal/a", deps: []string{module + "/internal/a", module + "/api/work"}},
		{path: module + "/internal/b", dir: "/r/internal/b", deps: []string{module + "/internal/b"}},
	}
	for name, c := range map[string]struct {
		files      []string
		dependants bool
		want       string
	}{
		"its file":                     {[]string{"internal/b/b.go"}, false, "b"},
		"its test data":                {[]string{"internal/b/testdata/x/y.yaml"}, false, "b"},
		"a dependency, not reached":    {[]string{"api/work/types.go"}, false, "work"},
		"a dependency, reached":        {[]string{"api/work/types.go"}, true, "work a"},
		"a page, a hidden file":        {[]string{"docs/a.md", ".ci/run", "Makefile"}, true, ""},
		"the modules":                  {[]string{"go.mod"}, false, "work a b"},
		"a file of a directory beside": {[]string{"internal/bb/b.go"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range reachedBy(packages, "/r", c.files, c.dependants) {
				got = append(got, p.path[strings.LastIndex(p.path, "/")+1:])
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("reached: %v, want %s", got, c.want)
			}
		})
	}
}

const events = `{"Action":"start","Package":"a"}
{"Action":"output","Package":"a","Test":"TestSkipped","Output":"=== RUN   TestSkipped\n"}
{"Action":"output","Package":"a","Test":"TestSkipped","Output":"    a_test.go:3: needs a fleet\n"}
{"Action":"output","Package":"a","Test":"TestSkipped","Output":"--- SKIP: TestSkipped (0.00s)\n"}
{"Action":"skip","Package":"a","Test":"TestSkipped","Elapsed":0}
{"Action":"output","Package":"a","Test":"TestFine","Output":"a line of a test that passes\n"}
{"Action":"pass","Package":"a","Test":"TestFine","Elapsed":3.5}
{"Action":"pass","Package":"a","Elapsed":3.6}
not an event
{"Action":"output","Package":"b","Test":"TestFails/part","Output":"    b_test.go:1: it is wrong\n"}
{"Action":"fail","Package":"b","Test":"TestFails/part","Elapsed":1}
{"Action":"fail","Package":"b","Test":"TestFails","Elapsed":1}
{"Action":"output","Package":"b","Test":"TestPanics","Output":"panic: here\n"}
{"Action":"fail","Package":"b","Elapsed":2}
`

func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	r.used("a", 7*time.Second)
	if err := r.print(9 * time.Second); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ok  \ta\t3.600s\n", "FAIL\tb\t2.000s\n", "not an event\n", "b_test.go:1: it is wrong\n", "panic: here\n",
		"     3.6      7.0  a\n", "     3.5  a TestFine\n", "       1  needs a fleet: TestSkipped\n",
		"3 tests of 2 packages in 9s, 7s of processor time, 1 skipped, 2 failures\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "a test that passes") {
		t.Error("the report has what a test printed that passed")
	}
	if !r.failed() {
		t.Error("no test failed")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
