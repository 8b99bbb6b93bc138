package kubelet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// notFound is the exit code of a shell for a command that does not exist.
const notFound = 127

// exitCode is the error of a command that ends with a code.
func exitCode(code int) error {
	return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
}

// ExecInContainer answers a command. Nothing runs: the few commands that are known write text about the pod.
func (c container) ExecInContainer(_ context.Context, _, _, _ string, command []string, in io.Reader, out, errOut io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	t := terminal{in: in, out: discardIfNil(out), errOut: discardIfNil(errOut), newline: "\n", tty: tty}
	if tty {
		t.errOut, t.newline = t.out, "\r\n" // a terminal in raw mode
	}
	return c.run(command, t)
}

// AttachContainer writes the log and waits until the client closes standard input, or until the container ends.
func (c container) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, _ io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize) error {
	t := terminal{in: in, out: discardIfNil(out), newline: "\n", tty: tty}
	if tty {
		t.newline = "\r\n"
	}
	for _, l := range c.log() {
		t.print(l.text)
	}
	// The end of a connection without standard input shows only in its idle timeout.
	ctx, cancel := context.WithTimeout(ctx, streamIdle)
	defer cancel()
	if in != nil {
		// A read of a stream has no deadline: it ends when the caller closes the connection, after this method.
		go func() {
			defer cancel()
			t.copyInput(io.Discard)
		}()
	}
	c.waitForEnd(ctx)
	return nil
}

// terminal is the streams of a client.
type terminal struct {
	in          io.Reader // may be nil
	out, errOut io.Writer
	newline     string
	tty         bool
}

func discardIfNil(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

func (t terminal) print(text string) { _, _ = io.WriteString(t.out, text+t.newline) }

// copyInput copies standard input to its end. That of a terminal ends with Ctrl-C or Ctrl-D, which arrive as bytes.
func (t terminal) copyInput(to io.Writer) {
	if t.in == nil {
		return
	}
	buffer := make([]byte, 4096)
	for {
		n, err := t.in.Read(buffer)
		data := buffer[:n]
		end := -1
		if t.tty {
			end = strings.IndexAny(string(data), "\x03\x04")
		}
		if end >= 0 {
			data = data[:end]
		}
		if _, writeErr := to.Write(data); err != nil || writeErr != nil || end >= 0 {
			return
		}
	}
}

// run answers one of the commands that people try first.
func (c container) run(command []string, t terminal) error {
	if len(command) == 0 {
		return exitCode(notFound)
	}
	name, args := command[0], command[1:]
	switch name[strings.LastIndexByte(name, '/')+1:] {
	case "true":
		return nil
	case "false":
		return exitCode(1)
	case "echo":
		t.print(strings.Join(args, " "))
		return nil
	case "hostname":
		t.print(c.hostname())
		return nil
	case "date":
		t.print(c.clock.Now().UTC().Format(time.UnixDate))
		return nil
	case "env", "printenv":
		for _, variable := range c.environment() {
			t.print(variable)
		}
		return nil
	case "cat":
		if len(args) == 0 || slices.Equal(args, []string{"-"}) {
			t.copyInput(t.out)
			return nil
		}
	case "sh", "bash":
		if script, ok := simpleScript(args); ok {
			return c.run(script, t)
		}
	}
	_, _ = io.WriteString(t.errOut, "this container is simulated: it runs no command"+t.newline)
	return exitCode(notFound)
}

// simpleScript is the command of "sh -c" if it is plain words.
func simpleScript(args []string) ([]string, bool) {
	if len(args) != 2 || args[0] != "-c" || strings.ContainsAny(args[1], "|&;<>()$`\\\"'*?[]#~=%\n{}!") {
		return nil, false
	}
	words := strings.Fields(args[1])
	return words, len(words) > 0 && words[0] != "sh" && words[0] != "bash"
}

func (c container) hostname() string {
	switch {
	case c.pod.Spec.HostNetwork:
		return c.pod.Spec.NodeName
	case c.pod.Spec.Hostname != "":
		return c.pod.Spec.Hostname
	}
	return c.pod.Name
}

// environment is the variables with a literal value in the pod. Those from Secrets and ConfigMaps are not read here: a user with
// the right to exec need not have the right to read them.
func (c container) environment() []string {
	variables := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + c.hostname()}
	for _, spec := range slices.Concat(c.pod.Spec.InitContainers, c.pod.Spec.Containers) {
		if spec.Name != c.name {
			continue
		}
		for _, v := range spec.Env {
			if v.ValueFrom == nil {
				variables = append(variables, v.Name+"="+v.Value)
			}
		}
	}
	return variables
}
