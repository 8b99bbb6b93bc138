package health

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Loops is the list of control loops that /readyz has besides upstream's own checks. Upstream's
// list is closed before the server starts; loops come and go while it runs.
type Loops struct {
	mu      sync.RWMutex
	healthy map[string]func() error
}

// NewLoops returns an empty list.
func NewLoops() *Loops { return &Loops{healthy: map[string]func() error{}} }

// Add names a control loop. Healthy is called for every request and must not block.
func (l *Loops) Add(name string, healthy func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healthy[name] = healthy
}

// Handler answers /readyz with upstream's answer and the loops', and /readyz/LOOP for one of them.
func (l *Loops) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz":
			l.serveAll(w, r, next)
		case strings.HasPrefix(r.URL.Path, "/readyz/"):
			l.serveOne(w, r, next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (l *Loops) serveOne(w http.ResponseWriter, r *http.Request, next http.Handler) {
	l.mu.RLock()
	healthy, known := l.healthy[strings.TrimPrefix(r.URL.Path, "/readyz/")]
	l.mu.RUnlock()
	if !known {
		next.ServeHTTP(w, r)
		return
	}
	if err := healthy(); err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok"))
}

// serveAll has upstream answer in full, puts the loops' lines before its verdict and changes the
// verdict if a loop is not well.
func (l *Loops) serveAll(w http.ResponseWriter, r *http.Request, next http.Handler) {
	query := r.URL.Query()
	_, verbose := query["verbose"]
	lines, failed := l.report(query["exclude"])

	known := l.names()
	query["exclude"] = slices.DeleteFunc(slices.Clone(query["exclude"]), func(name string) bool {
		return slices.Contains(known, name)
	})
	inner := r.Clone(r.Context())
	inner.URL.RawQuery = query.Encode()
	answer := &answer{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(answer, inner)

	body, status := answer.body.String(), answer.status
	switch {
	case status == http.StatusOK && !verbose && !failed:
		body = "ok"
	case status == http.StatusOK && failed:
		status = http.StatusServiceUnavailable
		body = lines + "readyz check failed\n"
	default:
		body = beforeVerdict(body, lines)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func (l *Loops) names() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	names := make([]string, 0, len(l.healthy))
	for name := range l.healthy {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// report writes one line for each loop, in upstream's form.
func (l *Loops) report(excluded []string) (lines string, failed bool) {
	var out bytes.Buffer
	for _, name := range l.names() {
		l.mu.RLock()
		healthy := l.healthy[name]
		l.mu.RUnlock()
		if slices.Contains(excluded, name) {
			fmt.Fprintf(&out, "[+]%s excluded: ok\n", name)
			continue
		}
		if err := healthy(); err != nil {
			failed = true
			fmt.Fprintf(&out, "[-]%s failed: %v\n", name, err)
			continue
		}
		fmt.Fprintf(&out, "[+]%s ok\n", name)
	}
	return out.String(), failed
}

// beforeVerdict inserts lines before the last line of a verbose answer.
func beforeVerdict(body, lines string) string {
	trimmed := strings.TrimSuffix(body, "\n")
	at := strings.LastIndex(trimmed, "\n") + 1
	return body[:at] + lines + body[at:]
}

// answer keeps what a handler wrote.
type answer struct {
	header http.Header
	body   bytes.Buffer
	status int
}

func (a *answer) Header() http.Header            { return a.header }
func (a *answer) Write(data []byte) (int, error) { return a.body.Write(data) }
func (a *answer) WriteHeader(status int)         { a.status = status }
