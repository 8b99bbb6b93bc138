// Command flagship-server is the control plane for images: the commands that run and operate it, without playground, bench and
// simulated members.
package main

import (
	"os"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/programs/server"
)

func main() { os.Exit(cli.Main(server.Root)) }
