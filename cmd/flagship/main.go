// Command flagship is a multi-cluster Kubernetes control plane in one binary, with a playground to try it and a bench to measure it.
package main

import (
	"os"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/programs/flagship"
)

func main() { os.Exit(cli.Main(flagship.Root)) }
