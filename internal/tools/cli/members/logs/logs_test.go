package logs

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLinesOfSeveralLogsStayWhole(t *testing.T) {
	var out bytes.Buffer
	l := &lines{out: &out}
	a, b := l.prefixed("[a] "), l.prefixed("[b] ")
	for _, w := range []struct {
		to   io.Writer
		text string
	}{{a, "one\n"}, {b, "two\n"}, {a, ""}, {a, "no end"}} {
		if n, err := io.WriteString(w.to, w.text); err != nil || n != len(w.text) {
			t.Fatal(n, err)
		}
	}
	if want := "[a] one\n[b] two\n[a] no end\n"; out.String() != want {
		t.Errorf("it is %q, want %q", out.String(), want)
	}
}

// TestRuns: a container that waits has no log yet, and one that is started again has another one.
func TestRuns(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "7"}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	running, ended := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: ended}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: waiting}, {Name: "proxy", State: running, RestartCount: 2}}
	want := []instance{{"7", "init", 0}, {"7", "proxy", 2}}
	if diff := cmp.Diff(want, runs(pod), cmp.AllowUnexported(instance{})); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}
