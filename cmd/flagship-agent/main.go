// Command flagship-agent is the agent of a cluster in Pull mode for images. It links no API server, so that it needs a third of the memory
// that the same command of flagship does.
package main

import (
	"os"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/programs/agent"
)

func main() { os.Exit(cli.Main(agent.Root)) }
