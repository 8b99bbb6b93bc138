// Command golangci-lint is golangci-lint with the linter for Kubernetes APIs built in, which it takes as a plugin only.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"
	_ "sigs.k8s.io/kube-api-linter"
)

func main() {
	if err := commands.Execute(commands.BuildInfo{GoVersion: runtime.Version(), Version: "v2.15.0", Commit: "go.mod"}); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(exitcodes.Failure)
	}
}
