package builtin

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

const (
	// lull is how much later than others the collector hears of objects in resource.k8s.io/v1alpha2.
	lull = 300 * time.Millisecond
	// heard is how many pieces of news may wait that long; more wait in the connection.
	heard = 256
)

// unhurried makes the collector hear of objects in resource.k8s.io/v1alpha2 a little later. Clients of that version read
// back what became of a deletion with a policy, or of an owner they named; a collector in the same process is
// otherwise done before they can.
type unhurried struct{ next http.RoundTripper }

// RoundTrip sends the request at once; what is late is the answer to a watch.
func (u unhurried) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := u.next.RoundTrip(request)
	watch := request.URL.Query().Get("watch")
	if err == nil && (watch == "true" || watch == "1") &&
		strings.HasPrefix(request.URL.Path, "/apis/"+resourcev1alpha2.GroupVersion.String()+"/") {
		response.Body = delay(response.Body, lull)
	}
	return response, err
}

// piece is something that was read.
type piece struct {
	data []byte
	err  error
	at   time.Time
}

// late hands on what it reads after a while, as fast as it came.
type late struct {
	source  io.ReadCloser
	by      time.Duration
	pieces  chan piece
	current piece
	once    sync.Once
	closed  chan struct{}
}

func delay(source io.ReadCloser, by time.Duration) *late {
	l := &late{source: source, by: by, pieces: make(chan piece, heard), closed: make(chan struct{})}
	go l.listen()
	return l
}

// listen reads until the source ends, which it does at the latest when it is closed.
func (l *late) listen() {
	buffer := make([]byte, 32*1024)
	for {
		n, err := l.source.Read(buffer)
		select {
		case l.pieces <- piece{append([]byte(nil), buffer[:n]...), err, time.Now()}:
		case <-l.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read returns what was read long enough ago.
func (l *late) Read(into []byte) (int, error) {
	for len(l.current.data) == 0 {
		if l.current.err != nil {
			return 0, l.current.err
		}
		select {
		case l.current = <-l.pieces:
		case <-l.closed:
			return 0, io.ErrClosedPipe
		}
		timer := time.NewTimer(time.Until(l.current.at.Add(l.by)))
		select {
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(into, l.current.data)
	l.current.data = l.current.data[n:]
	return n, nil
}

// Close ends the source and whoever waits for it.
func (l *late) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.source.Close()
}
