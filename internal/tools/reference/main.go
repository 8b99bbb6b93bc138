package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/programs/agent"
	"github.com/flagship-k8s/flagship/internal/tools/cli/programs/flagship"
	"github.com/flagship-k8s/flagship/internal/tools/cli/programs/server"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: reference pages|manual|completions DIR")
	}
	write, ok := map[string]func() (map[string][]byte, error){"pages": pages, "manual": manual, "completions": completions}[args[0]]
	if !ok {
		return fmt.Errorf("%q is none of pages, manual, completions", args[0])
	}
	files, err := write()
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(args[1], name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // documentation is for everyone
			return fmt.Errorf("creating the directory: %w", err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // as above
			return fmt.Errorf("writing a page: %w", err)
		}
	}
	return nil
}

func programs() []*cobra.Command {
	return []*cobra.Command{flagship.Root(cli.Streams{}), server.Root(cli.Streams{}), agent.Root(cli.Streams{})}
}

// pages are those of docs/reference.
func pages() (map[string][]byte, error) {
	files := map[string][]byte{"README.md": []byte(index), "commands.md": commandPage()}
	kinds, err := kindPages("api")
	if err != nil {
		return nil, err
	}
	if files["configuration.md"], err = configurationPage(); err != nil {
		return nil, err
	}
	for name, page := range kinds {
		files[name] = page
	}
	if files["conditions.md"], err = conditionPage("api"); err != nil {
		return nil, err
	}
	files["events.md"], err = eventPage("internal/knowledge/events")
	return files, err
}

const index = generated + `# Reference

Generated from the code by ` + "`make generate`" + `; the check before a commit fails while a page is not current.

- [commands.md](commands.md): every command with its flags
- [configuration.md](configuration.md): every setting of the server and the agent: flag, field of the file, variable, default
- [kinds](kinds/README.md): every field of the API
- [conditions.md](conditions.md): the types of conditions and their reasons
- [events.md](events.md): the reasons of events
- [../metrics.md](../metrics.md): the metrics; a test compares that page with the code

## Shell completion

` + "```sh" + `
source <(flagship completion bash)                                           # this shell
flagship completion bash > /usr/share/bash-completion/completions/flagship   # every shell
flagship completion zsh > "${fpath[1]}/_flagship"
flagship completion fish > ~/.config/fish/completions/flagship.fish
` + "```" + `

It completes commands, flags, and the names of clusters, for which it lists the Clusters of the control plane. Archives and packages of
a release have the files, and manual pages: ` + "`man flagship`, `man flagship-server-server`" + `.
`

// manual has the manual pages of all programs, section 1, in a folder for each. Their date is SOURCE_DATE_EPOCH.
func manual() (map[string][]byte, error) {
	files := map[string][]byte{}
	var add func(*cobra.Command) error
	add = func(c *cobra.Command) error {
		c.DisableAutoGenTag = true
		var page bytes.Buffer
		header := &doc.GenManHeader{Section: "1", Source: "Flagship", Manual: "Flagship"}
		if err := doc.GenMan(c, header, &page); err != nil {
			return fmt.Errorf("writing the manual page of %s: %w", c.CommandPath(), err)
		}
		files[c.Root().Name()+"/"+strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"] = page.Bytes()
		for _, sub := range shown(c) {
			if err := add(sub); err != nil {
				return err
			}
		}
		return nil
	}
	for _, program := range programs() {
		if err := add(program); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// completions has the file of each shell for each program, under the name that the shell requires.
func completions() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, program := range programs() {
		var bash, zsh, fish bytes.Buffer
		if err := program.GenBashCompletionV2(&bash, true); err != nil {
			return nil, fmt.Errorf("writing the completion for bash: %w", err)
		}
		if err := program.GenZshCompletion(&zsh); err != nil {
			return nil, fmt.Errorf("writing the completion for zsh: %w", err)
		}
		if err := program.GenFishCompletion(&fish, true); err != nil {
			return nil, fmt.Errorf("writing the completion for fish: %w", err)
		}
		name := program.Name()
		files["bash/"+name], files["zsh/_"+name], files["fish/"+name+".fish"] = bash.Bytes(), zsh.Bytes(), fish.Bytes()
	}
	return files, nil
}
