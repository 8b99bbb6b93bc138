package kubelet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/utils/ptr"
)

// line is one of a log.
type line struct {
	at   time.Time
	text string
}

// timestamp is the format of the times of log lines.
const timestamp = "2006-01-02T15:04:05.000000000Z07:00"

// status is that of the container; nil if it has none yet.
func (c container) status() *corev1.ContainerStatus {
	for _, all := range [][]corev1.ContainerStatus{c.pod.Status.ContainerStatuses, c.pod.Status.InitContainerStatuses} {
		for i := range all {
			if all[i].Name == c.name {
				return &all[i]
			}
		}
	}
	return nil
}

// log is all that the container has logged: its start, and its end if it has ended.
func (c container) log() []line {
	status := c.status()
	if status == nil {
		return nil
	}
	var began, ended time.Time
	switch state := status.State; {
	case state.Running != nil:
		began = state.Running.StartedAt.Time
	case state.Terminated != nil:
		began, ended = state.Terminated.StartedAt.Time, state.Terminated.FinishedAt.Time
	default:
		return nil
	}
	lines := []line{
		{began, fmt.Sprintf("container %s of pod %s/%s started with image %s", c.name, c.pod.Namespace, c.pod.Name, status.Image)},
		{began, "this container is simulated: it runs no command and logs nothing else"},
	}
	if state := status.State.Terminated; state != nil {
		lines = append(lines, line{ended, fmt.Sprintf("container %s ended with exit code %d", c.name, state.ExitCode)})
	}
	return lines
}

func serveLogs(c container, w http.ResponseWriter, r *http.Request) {
	var o corev1.PodLogOptions
	if err := legacyscheme.ParameterCodec.DecodeParameters(r.URL.Query(), corev1.SchemeGroupVersion, &o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	lines := c.log()
	switch {
	case o.Previous:
		http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found: simulated containers do not restart", c.name, c.pod.Name), http.StatusBadRequest)
		return
	case lines == nil:
		http.Error(w, fmt.Sprintf("container %q in pod %q is waiting to start", c.name, c.pod.Name), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	text := selectLines(lines, o, c.clock.Now())
	if limit := ptr.Deref(o.LimitBytes, int64(len(text))); limit < int64(len(text)) {
		text = text[:limit]
	}
	if _, err := io.WriteString(w, text); err != nil || !o.Follow {
		return
	}
	_ = http.NewResponseController(w).Flush()
	if ended := c.waitForEnd(r.Context()); ended != nil {
		o.TailLines = nil
		_, _ = io.WriteString(w, selectLines(ended.log()[min(len(lines), len(ended.log())):], o, c.clock.Now()))
	}
}

// selectLines is the text of the lines that the options select.
func selectLines(lines []line, o corev1.PodLogOptions, now time.Time) string {
	if o.TailLines != nil {
		lines = lines[max(0, len(lines)-int(*o.TailLines)):]
	}
	var since time.Time
	switch {
	case o.SinceTime != nil:
		since = o.SinceTime.Time
	case o.SinceSeconds != nil:
		since = now.Add(-time.Duration(*o.SinceSeconds) * time.Second)
	}
	var text strings.Builder
	for _, l := range lines {
		if l.at.Before(since) {
			continue
		}
		if o.Timestamps {
			text.WriteString(l.at.UTC().Format(timestamp) + " ")
		}
		text.WriteString(l.text + "\n")
	}
	return text.String()
}

// waitForEnd returns the container when it has ended, or nil when its pod is gone or the context ends.
func (c container) waitForEnd(ctx context.Context) *container {
	only := fields.OneTermEqualSelector("metadata.name", c.pod.Name)
	lw := cache.NewListWatchFromClient(c.pods.CoreV1().RESTClient(), "pods", c.pod.Namespace, only)
	var ended *container
	gone := func(store cache.Store) (bool, error) { return len(store.List()) == 0, nil }
	_, err := watchtools.UntilWithSync(ctx, lw, &corev1.Pod{}, gone, func(e watch.Event) (bool, error) {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || e.Type == watch.Deleted || pod.UID != c.pod.UID {
			return ok, nil
		}
		now := container{c.Server, pod, c.name}
		if status := now.status(); status != nil && status.State.Terminated != nil {
			ended = &now
		}
		return ended != nil, nil
	})
	if err != nil {
		return nil // the client has gone, or the member ends
	}
	return ended
}
