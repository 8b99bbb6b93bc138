package kubelet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	utilexec "k8s.io/utils/exec"
	"k8s.io/utils/ptr"
)

var (
	began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now   = began.Add(time.Hour)
)

func testContainer(state corev1.ContainerState) container {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-1"},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "other", Env: []corev1.EnvVar{{Name: "O"}}}, {Name: "main", Env: []corev1.EnvVar{
			{Name: "A", Value: "b"},
			{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "s"}}},
		}}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "nginx:1", State: state}}},
	}
	return container{&Server{cluster: "member1", clock: clocktesting.NewFakePassiveClock(now)}, pod, "main"}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestCommands(t *testing.T) {
	cases := map[string]struct {
		command         []string
		in              string
		tty             bool
		out, errOut     string
		code            int
		hostNetworkOnly bool
	}{
		"Echo":         {command: []string{"echo", "a", "b  c"}, out: "a b  c\n"},
		"Path":         {command: []string{"/bin/echo", "a"}, out: "a\n"},
		"Hostname":     {command: []string{"hostname"}, out: "web-1\n"},
		"HostNetwork":  {command: []string{"hostname"}, out: "node-1\n", hostNetworkOnly: true},
		"Date":         {command: []string{"date"}, out: "Fri Jan  2 04:04:05 UTC 2026\n"},
		"NoSecrets":    {command: []string{"env"}, out: "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nHOSTNAME=web-1\nA=b\n"},
		"Cat":          {command: []string{"cat"}, in: "x\ny", out: "x\ny"},
		"CatOfAFile":   {command: []string{"cat", "/etc/passwd"}, errOut: "this container is simulated: it runs no command\n", code: 127},
		"True":         {command: []string{"true"}},
		"False":        {command: []string{"false"}, code: 1},
		"Shell":        {command: []string{"sh", "-c", "echo  hi there"}, out: "hi there\n"},
		"ShellCode":    {command: []string{"sh", "-c", "false"}, code: 1},
		"ShellScript":  {command: []string{"sh", "-c", "echo a; id"}, errOut: "this container is simulated: it runs no command\n", code: 127},
		"ShellExpands": {command: []string{"sh", "-c", "echo $HOME"}, errOut: "this container is simulated: it runs no command\n", code: 127},
		"ShellInShell": {command: []string{"sh", "-c", "sh -c true"}, errOut: "this container is simulated: it runs no command\n", code: 127},
		"Interactive":  {command: []string{"bash"}, tty: true, out: "this container is simulated: it runs no command\r\n", code: 127},
		"Terminal":     {command: []string{"cat"}, tty: true, in: "abc\x04def", out: "abc"},
		"Unknown":      {command: []string{"rm", "-rf", "/"}, errOut: "this container is simulated: it runs no command\n", code: 127},
		"Nothing":      {code: 127},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := testContainer(corev1.ContainerState{})
			c.pod.Spec.HostNetwork = tc.hostNetworkOnly
			var out, errOut bytes.Buffer
			err := c.ExecInContainer(t.Context(), "", "", "", tc.command, strings.NewReader(tc.in), nopCloser{&out}, nopCloser{&errOut}, tc.tty, nil, 0)
			code := 0
			if exit, ok := errors.AsType[utilexec.ExitError](err); ok {
				code = exit.ExitStatus()
			} else if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.out, tc.errOut}, []string{out.String(), errOut.String()}); diff != "" || code != tc.code {
				t.Errorf("exit code %d, want %d; output (-want +got):\n%s", code, tc.code, diff)
			}
		})
	}
}

func TestLogs(t *testing.T) {
	ended := testContainer(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		StartedAt: metav1.Time{Time: began}, FinishedAt: metav1.Time{Time: began.Add(time.Minute)},
	}})
	const first, second, third = "container main of pod ns/web-1 started with image nginx:1\n",
		"this container is simulated: it runs no command and logs nothing else\n", "container main ended with exit code 0\n"
	cases := map[string]struct {
		o    corev1.PodLogOptions
		want string
	}{
		"All":          {want: first + second + third},
		"Tail":         {corev1.PodLogOptions{TailLines: ptr.To[int64](1)}, third},
		"TailOfMore":   {corev1.PodLogOptions{TailLines: ptr.To[int64](9)}, first + second + third},
		"SinceTime":    {corev1.PodLogOptions{SinceTime: &metav1.Time{Time: began.Add(time.Second)}}, third},
		"SinceSeconds": {corev1.PodLogOptions{SinceSeconds: ptr.To[int64](60)}, ""},
		"Timestamps":   {corev1.PodLogOptions{Timestamps: true, TailLines: ptr.To[int64](1)}, "2026-01-02T03:05:05.000000000Z " + third},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, selectLines(ended.log(), tc.o, now)); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
	if lines := testContainer(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}).log(); lines != nil {
		t.Errorf("a container that waits has logged %v", lines)
	}
}

func TestForwardedPort(t *testing.T) {
	f := forwarder{&Server{cluster: "member1"}, testContainer(corev1.ContainerState{}).pod}
	answer := func(request string) (string, error) {
		client, server := net.Pipe()
		failed := make(chan error, 1)
		go func() { failed <- f.PortForward(context.Background(), "", "", 80, server) }()
		if _, err := io.WriteString(client, request); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(client)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), <-failed
	}
	text, err := answer("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if err != nil || !strings.HasPrefix(text, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(text, "This pod is simulated.\ncluster: member1\nnamespace: ns\npod: web-1\nport: 80\n") {
		t.Errorf("got %q, %v", text, err)
	}
	if text, err = answer("\x00\x03\x00\x00\r\n\r\n"); !errors.Is(err, errNotHTTP) || text != "" {
		t.Errorf("another protocol got %q, %v", text, err)
	}
	if text, err = answer("GET / " + http.MethodGet + "\r\n\r\n"); !errors.Is(err, errNotHTTP) || text != "" {
		t.Errorf("a wrong request got %q, %v", text, err)
	}
}
