package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The kinds of packages. Unit and fleet are all packages with tests, each once.
const (
	// kindAny is every package, also those without tests.
	kindAny = "any"
	// kindUnit starts no server and links no API server.
	kindUnit = "unit"
	// kindFleet starts control planes and members, or has an API server in its process.
	kindFleet = "fleet"
	// kindRace is what the race detector runs: the packages that do not link an API server, which would take a quarter of an
	// hour to build, without their tests that start processes.
	kindRace = "race"
	kindAll  = "all"
)

const (
	module        = "github.com/flagship-k8s/flagship"
	fleetPackage  = module + "/internal/tools/fleettest"
	serverPackage = "k8s.io/kubernetes/pkg/controlplane"
)

// unsuited are packages that the race detector is not run on: the checks of the sources start no goroutine, and the log of etcd is one
// variable of the process, which two etcds in one test both write.
var unsuited = []string{module + "/internal", module + "/internal/host/apiserver/etcd"}

// testPackage is a package.
type testPackage struct {
	// path is the import path, dir the directory.
	path, dir string
	// deps are the import paths that the test binary links, or the package if it has no tests.
	deps   []string
	tested bool
}

func (p testPackage) links(path string) bool { return slices.Contains(p.deps, path) }

func (p testPackage) is(kind string) bool {
	fleet := p.links(fleetPackage) || p.links(serverPackage)
	if kind != kindAny && !p.tested {
		return false
	}
	switch kind {
	case kindUnit:
		return !fleet
	case kindFleet:
		return fleet
	case kindRace:
		return !p.links(serverPackage) && !strings.HasPrefix(p.path, module+"/test/") && !slices.Contains(unsuited, p.path)
	}
	return true
}

func ofKind(packages []testPackage, kind string) []testPackage {
	return slices.DeleteFunc(slices.Clone(packages), func(p testPackage) bool { return !p.is(kind) })
}

// listed is what is read of the output of go list. A test binary has the import path of its package with the suffix .test.
type listed struct {
	ImportPath, ForTest, Dir string
	Deps                     []string
}

// find lists the packages that match the patterns, in the order of their paths.
func find(ctx context.Context, patterns []string) ([]testPackage, error) {
	out, err := output(ctx, "go", append([]string{"list", "-test", "-json=ImportPath,ForTest,Dir,Deps"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	var found []testPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading the output of go list: %w", err)
		}
		path, binary := strings.CutSuffix(l.ImportPath, ".test")
		switch {
		case binary: // after the package itself
			found[at[path]].tested, found[at[path]].deps = true, plain(l.Deps)
		case l.ForTest == "":
			at[path] = len(found)
			found = append(found, testPackage{path: path, dir: l.Dir, deps: l.Deps})
		}
	}
	return found, nil
}

// plain removes the mark of a package that is compiled anew for a test: "a/b [a/b.test]".
func plain(paths []string) []string {
	for i, p := range paths {
		paths[i], _, _ = strings.Cut(p, " ")
	}
	return paths
}

// selected are the packages that --changed or --reached leaves.
func selected(ctx context.Context, packages []testPackage, o options) ([]testPackage, error) {
	commit := o.changed + o.reached
	switch {
	case commit == "":
		return packages, nil
	case o.changed != "" && o.reached != "":
		return nil, errors.New("--changed and --reached exclude each other: give one of them")
	}
	files, err := changedFiles(ctx, commit)
	if err != nil {
		return nil, err
	}
	root, err := output(ctx, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	return reachedBy(packages, strings.TrimSpace(string(root)), files, o.reached != ""), nil
}

// changedFiles are the files that differ from a commit, those that git does not have yet among them.
func changedFiles(ctx context.Context, commit string) ([]string, error) {
	differ, err := output(ctx, "git", "diff", "--name-only", commit)
	if err != nil {
		return nil, err
	}
	added, err := output(ctx, "git", "ls-files", "--others", "--exclude-standard", "--full-name")
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(differ) + "\n" + string(added)), nil
}

// reachedBy are the packages with a changed file in their directory, or in one below that has no Go package, such as testdata; with
// dependants also those that link such a package. go.mod reaches all.
func reachedBy(packages []testPackage, root string, files []string, dependants bool) []testPackage {
	if slices.Contains(files, "go.mod") {
		return packages
	}
	changed := map[string]bool{}
	for _, file := range files {
		if dir := packageDir(file); dir != "" {
			changed[dir] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(packages), func(p testPackage) bool {
		dir, err := filepath.Rel(root, p.dir)
		if err == nil && changed[filepath.ToSlash(dir)] {
			return false
		}
		return !dependants || !slices.ContainsFunc(p.deps, func(dep string) bool { return changed[strings.TrimPrefix(dep, module+"/")] })
	})
}

// packageDir is the directory of the package that a file belongs to, empty for a file that no package reads.
func packageDir(file string) string {
	dir, _, within := strings.Cut(file, "/testdata/")
	switch {
	case within:
		return dir
	case filepath.Ext(file) == ".md" || strings.HasPrefix(file, ".") || !strings.Contains(file, "/"):
		return ""
	}
	return filepath.ToSlash(filepath.Dir(file))
}

// output runs a command and returns what it prints; its error has what it prints to the standard error.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("running %s %s: %w", name, args[0], err)
	}
	return out, nil
}
