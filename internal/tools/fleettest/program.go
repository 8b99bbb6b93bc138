package fleettest

import (
	"os/exec"
	"testing"
)

// Connect returns a client of a cluster that is not of this package, by its kubeconfig.
func Connect(t testing.TB, name, kubeconfig string) *Cluster {
	t.Helper()
	c, err := connect(name, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// RunProgram runs a program until the test ends. If the test fails, the end of what it printed is shown.
func RunProgram(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	process, err := launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", name, tail([]byte(process.Output()), logLines))
		}
		process.Kill()
	})
	return process
}
