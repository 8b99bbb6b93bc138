package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/flagship-k8s/flagship/"

// mayImport is the import table: which layers and packages a package may import besides api and its own folders. An entry for a
// package replaces that of its layer. A folder that is missing here fails the test, so that adding a layer is a decision that is
// written down.
var mayImport = map[string][]string{
	// No stage imports another, which is what makes hub and agent, push and pull the same code.
	"pipeline":       {"clients", "knowledge"},
	"clients":        {"knowledge"},
	"clients/member": {"clients/dial", "knowledge"},
	// Both features of services watch EndpointSlices of members and write Works with them.
	"clients/endpointslices": {"clients/member", "clients/hubclient", "knowledge"},
	// It follows the objects that members lose.
	"clients/finished": {"clients/member", "knowledge"},
	"knowledge":        {},
	// Rules are for the clusters that an affinity selects, as placements are.
	"knowledge/override": {"knowledge/affinity", "knowledge/bounds"},
	// It combines packages of its layer, for kinds that are not the same in every cluster.
	"knowledge/conversion": {"knowledge/capacity", "knowledge/interpret"},
	// An event handler that panicked is called again as an object is reconciled again that failed.
	"knowledge/controlloop": {"knowledge/backoff"},
	// What waits for a webhook does not count among the reconciles that compute; counters of reports have the bounds of all reports. The
	// numbers of all bounds are in one list.
	"knowledge/interpret": {"knowledge/controlloop", "knowledge/reports", "knowledge/bounds"},
	"knowledge/reports":   {"knowledge/bounds"},
	// What waits to be written is shared by namespaces.
	"knowledge/events": {"knowledge/bounds"},
	// Its steps are made of their reasons.
	"knowledge/explain": {"knowledge/backoff", "knowledge/bounds", "knowledge/policy", "knowledge/override", "knowledge/ownership"},
	// The claims of policies are no part of a revision.
	"knowledge/history": {"knowledge/policy"},
	// No feature imports another, so that each may be deleted.
	"features":           {"clients", "knowledge"},
	"host/apiserver":     {"clients/dial", "clients/tunnel", "knowledge"},
	"host/admission":     {"knowledge"},
	"host/memory":        {},
	"host/authorization": {},
	"host/agent":         {"host", "pipeline", "features", "clients", "knowledge"},
	"host/interpreter":   {"features", "knowledge"},
	"host/controlplane":  {"host", "pipeline", "features", "clients", "knowledge"},
	"host/backup":        {"host/apiserver", "knowledge"},
	// It runs the loops of the stages on a view in memory.
	"host/preview": {"host", "pipeline", "features", "clients", "knowledge"},
	"tools":        {"tools", "host", "pipeline", "features", "clients", "knowledge"},
}

// bannedNames say nothing about what is inside; a package or file with such a name collects unrelated code.
var bannedNames = regexp.MustCompile(`(?i)^(util|utils|common|helper|helpers|misc|shared|base|manager)$`)

const (
	maxFileLines     = 800
	maxFunctionLines = 100
	// maxPackageLines bounds a package without its tests.
	maxPackageLines = 2500
)

// source is one Go file.
type source struct {
	path string // slash-separated, relative to the repository
	file *ast.File
	fset *token.FileSet
}

func (s source) test() bool      { return strings.HasSuffix(s.path, "_test.go") }
func (s source) generated() bool { return strings.Contains(path.Base(s.path), "zz_generated") }

// pkg is the package's folder with its layer, such as pipeline/apply; "" for files outside internal.
func (s source) pkg() string {
	pkg, _ := packageOf(s.path)
	return pkg
}

// layer is the first folder under internal; "" for files outside internal.
func (s source) layer() string {
	layer, _, _ := strings.Cut(s.pkg(), "/")
	return layer
}

// packageOf returns the layer and the package of the path of a file or package under internal.
func packageOf(p string) (pkg string, ok bool) {
	parts := strings.Split(p, "/")
	if len(parts) < 3 || parts[0] != "internal" || strings.HasSuffix(parts[2], ".go") {
		return "", false
	}
	return parts[1] + "/" + parts[2], true
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	for _, root := range []string{"../api", "../cmd", "../internal", "../examples"} {
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") {
				return err
			}
			rel := strings.TrimPrefix(filepath.ToSlash(p), "../")
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
			if err != nil {
				return fmt.Errorf("parsing %s: %w", rel, err)
			}
			out = append(out, source{rel, f, fset})
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return out
}

// TestPackagesImportOnlyWhatTheTableAllows: packages exchange objects of the API and do not call each other.
func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			target := strings.Trim(imp.Path.Value, `"`)
			if !strings.HasPrefix(target, module) {
				continue
			}
			checkImport(t, s, strings.TrimPrefix(target, module))
		}
	}
}

func checkImport(t *testing.T, s source, target string) {
	t.Helper()
	toAPI := target == "api" || strings.HasPrefix(target, "api/")
	if strings.HasPrefix(s.path, "api/") {
		if !toAPI {
			t.Errorf("%s imports %s: api imports nothing under internal, so that other modules can import it alone", s.path, target)
		}
		return
	}
	if s.pkg() == "" || toAPI || s.test() && strings.HasPrefix(target, "internal/tools/fleettest") || strings.HasPrefix(target, "examples") {
		return
	}
	to, ok := packageOf(target)
	if !ok {
		t.Errorf("%s imports %s: packages are in the folders of a layer, and import those and api only", s.path, target)
		return
	}
	from := s.pkg()
	if from == to {
		return
	}
	if to == "tools/fleettest" {
		t.Errorf("%s imports fleettest: it is for tests and is linked into no product code", s.path)
		return
	}
	allowed, known := mayImport[from]
	if !known {
		allowed, known = mayImport[s.layer()]
	}
	if !known {
		t.Errorf("%s: %s is not in the import table: add it to house_test.go, internal/doc.go and docs/architecture.md", s.path, from)
		return
	}
	layer, _, _ := strings.Cut(to, "/")
	if s.test() && from != "tools/fleettest" && layer == "clients" {
		return
	}
	if !slices.Contains(allowed, to) && !slices.Contains(allowed, layer) {
		t.Errorf("%s imports %s: %s may import only api and %v; pass what it needs in as a function from host/controlplane", s.path, target, from, allowed)
	}
}

// TestEveryPackageIsDocumented: a package has exactly one doc comment; that of a stage or a feature says what it reads and writes.
func TestEveryPackageIsDocumented(t *testing.T) {
	docs := map[string][]string{}
	texts := map[string]string{}
	for _, s := range sources(t) {
		if s.test() || s.generated() {
			continue
		}
		dir := path.Dir(s.path)
		if _, ok := docs[dir]; !ok {
			docs[dir] = nil
		}
		if s.file.Doc != nil {
			docs[dir] = append(docs[dir], s.path)
			texts[dir] += s.file.Doc.Text()
		}
	}
	for dir, files := range docs {
		if len(files) != 1 {
			t.Errorf("%s: package has %d doc comments %v, want exactly one, in doc.go", dir, len(files), files)
		}
	}
	for dir, text := range texts {
		layer, _, _ := strings.Cut(strings.TrimPrefix(dir, "internal/"), "/")
		if pkg, ok := packageOf(dir); !ok || dir != "internal/"+pkg || !slices.Contains([]string{"pipeline", "features"}, layer) {
			continue
		}
		for _, word := range []string{"In:", "Out:", "Owns:", "Never:"} {
			if !strings.Contains(text, word) {
				t.Errorf("%s: package doc lacks %q: a package says what it reads, writes, owns and never does", dir, word)
			}
		}
	}
}

// TestNothingIsCalledUtil: a name describes the content.
func TestNothingIsCalledUtil(t *testing.T) {
	for _, s := range sources(t) {
		for _, part := range strings.Split(strings.TrimSuffix(s.path, ".go"), "/") {
			if bannedNames.MatchString(strings.TrimSuffix(part, "_test")) {
				t.Errorf("%s: %q says nothing about its content: name it by what it is", s.path, part)
			}
		}
		if bannedNames.MatchString(s.file.Name.Name) {
			t.Errorf("%s: package %s says nothing about its content", s.path, s.file.Name.Name)
		}
	}
}

// TestFilesAndFunctionsStayReadable limits the sizes of files and functions.
func TestFilesAndFunctionsStayReadable(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		if n := s.fset.Position(s.file.End()).Line; n > maxFileLines {
			t.Errorf("%s has %d lines, limit %d: split it by noun", s.path, n, maxFileLines)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.test() {
				continue
			}
			if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, limit %d: name its steps", s.path, f.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

// TestPackagesStaySmall limits the size of packages. The packages of api are as large as their wire format.
func TestPackagesStaySmall(t *testing.T) {
	lines := map[string]int{}
	for _, s := range sources(t) {
		if !s.test() && !s.generated() && strings.HasPrefix(s.path, "internal/") && s.pkg() != "tools/fleettest" { // for tests only
			lines[path.Dir(s.path)] += s.fset.Position(s.file.End()).Line
		}
	}
	for dir, n := range lines {
		if n > maxPackageLines {
			t.Errorf("%s has %d lines without tests, limit %d: split it into packages of its folder, by noun", dir, n, maxPackageLines)
		}
	}
}

// TestNoHiddenState: no init() registries, no invented contexts, no wall clock in packages whose behaviour depends on time.
func TestNoHiddenState(t *testing.T) {
	timed := []string{"pipeline", "clients", "knowledge", "features"}
	for _, s := range sources(t) {
		if s.test() || s.generated() {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function: two hubs must be able to live in one process, so construct what you need", s.path)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch name := calleeOf(call); {
			case name == "context.TODO":
				t.Errorf("%s:%d calls context.TODO: without a caller's context nothing can be cancelled", s.path, s.fset.Position(n.Pos()).Line)
			case name == "context.Background" && slices.Contains(timed, s.layer()):
				t.Errorf("%s:%d calls context.Background: take the caller's context", s.path, s.fset.Position(n.Pos()).Line)
			case name == "time.Now" && slices.Contains(timed, s.layer()):
				t.Errorf("%s:%d calls time.Now: take a clock, so that tests need not sleep", s.path, s.fset.Position(n.Pos()).Line)
			}
			return true
		})
	}
}

// TestTestsDoNotSleep: a test that waits for time to pass is slow on a fast machine and fails on a slow one.
func TestTestsDoNotSleep(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test() && s.pkg() != "tools/fleettest" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && calleeOf(call) == "time.Sleep" {
				t.Errorf("%s:%d sleeps: wait on the state, or inject the clock", s.path, s.fset.Position(n.Pos()).Line)
			}
			return true
		})
	}
}

func calleeOf(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return pkg.Name + "." + sel.Sel.Name
}

// TestCommandsWriteToTheirStreams: all that a command prints passes the one place that escapes it. Streams of the process are opened there, and
// raw ones are for what a process in a container writes, and for the screen of the demo.
func TestCommandsWriteToTheirStreams(t *testing.T) {
	raw := []string{"internal/tools/cli/members/exec.go", "internal/tools/cli/trial/demo.go"}
	for _, s := range sources(t) {
		if s.test() || !strings.HasPrefix(s.path, "internal/tools/cli/") && !strings.HasPrefix(s.path, "cmd/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			at := func() string { return fmt.Sprintf("%s:%d", s.path, s.fset.Position(n.Pos()).Line) }
			switch n := n.(type) {
			case *ast.CallExpr:
				name := calleeOf(n)
				if id, ok := n.Fun.(*ast.Ident); ok {
					name = id.Name
				}
				switch name {
				case "fmt.Print", "fmt.Printf", "fmt.Println", "print", "println", "log.Print", "log.Printf", "log.Println", "log.Fatal", "log.Fatalf", "os.NewFile":
					t.Errorf("%s calls %s: write to the Streams of the command, which escape it", at(), name)
				}
			case *ast.SelectorExpr:
				of, _ := n.X.(*ast.Ident)
				switch {
				case of != nil && of.Name == "os" && (n.Sel.Name == "Stdout" || n.Sel.Name == "Stderr") && s.path != "internal/tools/cli/root.go":
					t.Errorf("%s uses os.%s: write to the Streams of the command, which escape it", at(), n.Sel.Name)
				case n.Sel.Name == "Raw" && of != nil && of.Name == "s" && !slices.Contains(raw, s.path):
					t.Errorf("%s takes raw streams: what members and tenants write could control the terminal", at())
				}
			}
			return true
		})
	}
}

// TestErrorsAreWrappedOrHandled: an error that is logged and returned is reported twice.
func TestErrorsAreWrappedOrHandled(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			block, ok := n.(*ast.BlockStmt)
			if !ok {
				return true
			}
			for i := 0; i+1 < len(block.List); i++ {
				if logsError(block.List[i]) && returnsError(block.List[i+1]) {
					t.Errorf("%s:%d logs an error and returns it: wrap it or handle it", s.path, s.fset.Position(block.List[i].Pos()).Line)
				}
			}
			return true
		})
	}
}

func logsError(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Error" || len(call.Args) == 0 {
		return false
	}
	arg, ok := call.Args[0].(*ast.Ident)
	return ok && arg.Name == "err"
}

func returnsError(s ast.Stmt) bool {
	r, ok := s.(*ast.ReturnStmt)
	if !ok {
		return false
	}
	for _, v := range r.Results {
		if id, ok := v.(*ast.Ident); ok && id.Name == "err" {
			return true
		}
	}
	return false
}

// registration is a metric as the code registers it.
type registration struct {
	name, help string
	// kind is counter, gauge or histogram; empty if the place does not show it. The test of the pipeline compares what is served.
	kind string
	// labels are nil if the place does not show them.
	labels []string
}

// registrations are the metrics in the source: the Opts of the library, and descriptions.
func registrations(t *testing.T) []registration {
	var all []registration
	for _, s := range sources(t) {
		if s.test() || s.generated() {
			continue
		}
		labels := map[ast.Node][]string{} // of the Opts that are the first argument of a call
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 {
				if name, is := textOf(call.Args[0]); is && metricName.MatchString(name) && len(call.Args) > 1 { // NewDesc, or what calls it
					help, _ := textOf(call.Args[1])
					all = append(all, registration{name: name, help: help})
					if len(call.Args) > 2 {
						all[len(all)-1].labels = textsOf(call.Args[2])
					}
				}
				if labels[call.Args[0]] = []string{}; len(call.Args) > 1 {
					labels[call.Args[0]] = textsOf(call.Args[1])
				}
			}
			opts, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			r := registration{labels: labels[opts]}
			if selector, is := opts.Type.(*ast.SelectorExpr); is {
				r.kind = strings.ToLower(strings.TrimSuffix(selector.Sel.Name, "Opts"))
			}
			for _, element := range opts.Elts {
				if pair, is := element.(*ast.KeyValueExpr); is {
					switch text, _ := textOf(pair.Value); fmt.Sprint(pair.Key) {
					case "Name":
						r.name = text
					case "Help":
						r.help = text
					}
				}
			}
			if metricName.MatchString(r.name) {
				all = append(all, r)
			}
			return true
		})
	}
	return all
}

// textOf is the value of a string that is written as literals.
func textOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := textOf(e.X)
		right, also := textOf(e.Y)
		return left + right, ok && also
	}
	return "", false
}

// textsOf are the elements of a list of strings that is written as literals; nil if it is not.
func textsOf(e ast.Expr) []string {
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	texts := []string{}
	for _, element := range list.Elts {
		text, ok := textOf(element)
		if !ok {
			return nil
		}
		texts = append(texts, text)
	}
	return texts
}

// TestEveryMetricIsDocumented compares the metrics that the code registers with docs/metrics.md: names, types, labels, and the numbers and
// flags in their help.
func TestEveryMetricIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ kind, labels, meaning string }
	documented, registered := map[string]row{}, map[string]bool{}
	for _, found := range metricRow.FindAllStringSubmatch(string(page), -1) {
		documented[found[1]] = row{found[2], found[3], found[4]}
	}
	for _, r := range registrations(t) {
		registered[r.name] = true
		d, ok := documented[r.name]
		if !ok {
			t.Errorf("docs/metrics.md lacks a row for %s", r.name)
			continue
		}
		if r.kind != "" && r.kind != d.kind {
			t.Errorf("docs/metrics.md has %s as a %s, and it is a %s", r.name, d.kind, r.kind)
		}
		var labels []string
		for _, label := range metricLabel.FindAllStringSubmatch(d.labels, -1) {
			labels = append(labels, label[1])
		}
		if slices.Sort(labels); r.labels != nil && !slices.Equal(labels, slices.Sorted(slices.Values(r.labels))) {
			t.Errorf("docs/metrics.md has %s with the labels %v, and it has %v", r.name, labels, r.labels)
		}
		if !strings.HasSuffix(r.help, ".") || strings.ToUpper(r.help[:1]) != r.help[:1] {
			t.Errorf("the help of %s is no sentence: %q", r.name, r.help)
		}
		for _, fact := range metricFact.FindAllString(r.help, -1) {
			if fact != "1970" && !strings.Contains(d.meaning, fact) { // where seconds are counted from is in the name: timestamp_seconds
				t.Errorf("the help of %s has %s, and docs/metrics.md does not: %q", r.name, fact, r.help)
			}
		}
	}
	for name := range documented {
		if !registered[name] {
			t.Errorf("docs/metrics.md has a row for %s, which nothing registers", name)
		}
	}
	if len(registered) < 50 {
		t.Errorf("only %d metrics were found in the source", len(registered))
	}
}

var (
	metricName  = regexp.MustCompile(`^flagship_[a-z_]+$`)
	metricRow   = regexp.MustCompile("(?m)^\\| `(flagship_[a-z_]+)` \\| (\\w+)(?:: ([^|]*))? \\| (.*) \\|$")
	metricLabel = regexp.MustCompile("`([a-z_]+)`")
	// metricFact is a number or a flag.
	metricFact = regexp.MustCompile(`--[a-z][a-z-]+[a-z]|\b[0-9][0-9,]*\b`)
)

// retiredWords are words that readers of client-go, controller-runtime or Karmada do not know, with those to use instead. An entry is
// as specific as its other meanings require: echo is also a command.
var retiredWords = []struct{ pattern, instead string }{
	{`rooms?|roomy|roomier|roomiest`, "package, or capacity"},
	{`shores?`, "control plane, or member"},
	{`house`, "repository"},
	{`ledgers?`, "record, or cache"},
	{`lanes?`, "work queue"},
	{`rivals?`, "other"},
	{`buried|foundlings?|bereft|out of sight`, "deleted, without owner, or unreachable"},
	{`whereabouts|custody|wallet|tidings`, "clusters, owner, credentials, or events"},
	{`rouses?|roused|stirs?|stirred|enlist(s|ed)?|discharged?`, "enqueue, add, or remove"},
	{`sweeps?|swept`, "list, or visit"},
	{`(an|the|its|our|own) echo(es)?|hush|celebrates?|furnish(es|ed)?|inhabited`, "event of our own write, or a plain verb"},
	{`somebody|anybody|nobody`, "user, client, manager, or no object"},
	{`tells|told`, "report, return, publish, or distinguish"},
	{`asks|looks at|looked at`, "request, read, or reconcile"},
	{`knows|knew|hears|heard|learns|learnt|notices|noticed`, "have, serve, support, receive, observe, or detect"},
	{`remembers?|remembered|remembering|forgets|forgot|forgotten`, "store, cache, keep, clear, or drop"},
	{`insists?|insisted|pretends?|believes?|believed|promised?|promises`, "require, repeat, contain, or reserve"},
	{`turn(s|ed)? up|gives up|gave up|given up|unmakes?`, "appear, release, end, or delete"},
	{`(plane|member|cluster|server|agent|controller|scheduler|work|policy|binding|template) (wants|wanted|sees|saw)`, "apply, require, request, or receive"},
}

// TestPlainWords refuses retired words in code, comments, names and pages. Identifiers are split into their words.
func TestPlainWords(t *testing.T) {
	all := make([]string, len(retiredWords))
	for i, word := range retiredWords {
		all[i] = word.pattern
	}
	retired, identifiers := regexp.MustCompile(`\b(`+strings.Join(all, "|")+`)\b`), regexp.MustCompile(`([a-z0-9])([A-Z])`)
	check := func(at, line string) {
		for _, found := range retired.FindAllString(strings.ToLower(identifiers.ReplaceAllString(line, "$1 $2")), -1) {
			for _, word := range retiredWords {
				if regexp.MustCompile(`^(` + word.pattern + `)$`).MatchString(found) {
					t.Errorf("%s: %q is retired: use %s", at, found, word.instead)
				}
			}
		}
	}
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(p), "../")
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == ".git":
			return filepath.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" && path.Ext(name) != ".md" || name == "internal/house_test.go":
			return nil
		}
		check(name, strings.ReplaceAll(name, "_", " "))
		content, err := os.ReadFile(p)
		for i, line := range strings.Split(string(content), "\n") {
			check(fmt.Sprintf("%s:%d", name, i+1), line)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
