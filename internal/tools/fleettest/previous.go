package fleettest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// previousVar names the environment variable that holds the path of a binary of the previous version, instead of one that is built.
const previousVar = "FLAGSHIP_PREVIOUS_BINARY"

// previousFile names the commit of the previous version.
var previousFile = filepath.Join("test", "upgrade", "testdata", "previous")

// errNoHistory: the sources have no git history, or too little of it.
var errNoHistory = errors.New("the git history has no commit of the previous version")

// Previous returns the path of the flagship-server of the previous version, whose commit is in test/upgrade/testdata/previous. It is built
// from the git history once, by however many packages at the same time. Without that history, as in an archive of the sources or a shallow
// clone, the test is skipped. It fails if the variable CI is true and the clone is not shallow: the file names a commit that is not there.
func Previous(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the binary of the previous version")
	}
	if os.Getenv(previousVar) == "" {
		Nightly(t, "builds the previous version, which takes two processors some minutes")
	}
	path, err := previous()
	switch {
	case errors.Is(err, errNoHistory) && (os.Getenv("CI") != "true" || shallow()):
		t.Skipf("%v: clone the repository with its history", err)
	case err != nil:
		t.Fatalf("building the previous version: %v", err)
	}
	return path
}

// shallow returns whether the sources are a clone without the whole history.
func shallow() bool {
	root, err := moduleRoot()
	if err != nil {
		return false
	}
	out, err := exec.Command("git", "-C", root, "rev-parse", "--is-shallow-repository").Output()
	return err == nil && strings.TrimSpace(string(out)) == "true"
}

func previous() (string, error) {
	if path := os.Getenv(previousVar); path != "" {
		return filepath.Abs(path)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	commit, err := previousCommit(root)
	if err != nil {
		return "", err
	}
	return buildPrevious(root, commit)
}

// previousCommit returns the commit that a tree names, which is in its history.
func previousCommit(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, previousFile))
	if err != nil {
		return "", fmt.Errorf("finding the commit: %w", err)
	}
	commit := ""
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			commit = strings.TrimSpace(line)
		}
	}
	if out, err := exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s: %w: %s", errNoHistory, commit, err, bytes.TrimSpace(out))
	}
	return commit, nil
}

// buildPrevious builds a commit into bin/test/previous, unless a test before did. Its sources are in a temporary folder.
func buildPrevious(root, commit string) (_ string, err error) {
	dir := filepath.Join(root, "bin", "test", "previous")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making a place for it: %w", err)
	}
	unlock, err := lockBuild(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	binary := filepath.Join(dir, "flagship-server-"+commit+"-"+runtime.Version())
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	sources, err := os.MkdirTemp("", "flagship-previous-")
	if err != nil {
		return "", fmt.Errorf("making a place for its sources: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(sources)) }()
	if err := extract(root, commit, sources); err != nil {
		return "", err
	}
	// Its own Makefile sets the version of Kubernetes that it reports to clients. The lean binary has the agent, too, and builds sooner.
	build := exec.Command("make", "build", "COMMANDS=flagship-server", "VERSION=previous", "COMMIT="+commit)
	build.Dir = sources
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	if err := copyFile(binary, filepath.Join(sources, "bin", "flagship-server")); err != nil {
		return "", fmt.Errorf("keeping it: %w", err)
	}
	return binary, nil
}

// copyFile copies a program, perhaps to another file system. It has its name when it is complete.
func copyFile(to, from string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		return errors.Join(err, target.Close())
	}
	if err := target.Close(); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// extract writes the files of a commit to a folder that exists.
func extract(root, commit, to string) error {
	archive, err := exec.Command("git", "-C", root, "archive", "--format=tar", commit).Output()
	if err != nil {
		return fmt.Errorf("reading commit %s: %w", commit, err)
	}
	folder, err := os.OpenRoot(to)
	if err != nil {
		return fmt.Errorf("opening the place of its sources: %w", err)
	}
	defer func() { _ = folder.Close() }()
	for files := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive of commit %s: %w", commit, err)
		}
		switch header.Typeflag {
		case tar.TypeDir:
			err = folder.MkdirAll(filepath.Clean(header.Name), 0o755)
		case tar.TypeReg:
			var content []byte
			if content, err = io.ReadAll(files); err == nil {
				err = folder.WriteFile(header.Name, content, header.FileInfo().Mode().Perm())
			}
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", header.Name, err)
		}
	}
}

// Use has the next start run another binary.
func (p *Part) Use(binary string) { p.program.binary = binary }

// Use has the next start run another binary.
func (a *Agent) Use(binary string) { a.program.binary = binary }
