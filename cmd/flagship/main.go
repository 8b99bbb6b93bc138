// Command flagship is a multi-cluster Kubernetes control plane in one binary.
package main

import (
	"os"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
