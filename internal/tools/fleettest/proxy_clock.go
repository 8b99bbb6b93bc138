package fleettest

import (
	"bufio"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// ClockAhead has the member seem to have a clock that is ahead by some time, or behind: the proxy changes all times in its answers, from the
// next request on.
func (p *Proxy) ClockAhead(ahead time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead = ahead
}

func (p *Proxy) shift() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ahead
}

// withoutProtobuf returns the encodings that a client accepts without the one in which times are no text.
func withoutProtobuf(accept string) string {
	var kept []string
	for part := range strings.SplitSeq(accept, ",") {
		if part != "" && !strings.Contains(part, "protobuf") {
			kept = append(kept, part)
		}
	}
	if kept == nil {
		return "application/json"
	}
	return strings.Join(kept, ",")
}

// shiftTimes adds to the times in an answer, its date included. Their text stays as long as it is.
func shiftTimes(resp *http.Response, ahead time.Duration) {
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		resp.Header.Set("Date", date.Add(ahead).UTC().Format(http.TimeFormat))
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		resp.Body = &shiftedBody{Closer: resp.Body, lines: bufio.NewReader(resp.Body), ahead: ahead}
	}
}

// shiftedBody is an answer in JSON, or a stream of lines of JSON, with other times.
type shiftedBody struct {
	io.Closer
	lines *bufio.Reader
	ahead time.Duration
	rest  []byte // of the line that is read
	err   error
}

var times = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)

// Read implements io.Reader.
func (b *shiftedBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		var line []byte
		line, b.err = b.lines.ReadBytes('\n')
		b.rest = times.ReplaceAllFunc(line, func(text []byte) []byte {
			layout := `"2006-01-02T15:04:05Z"`
			if fraction := len(text) - len(layout); fraction > 0 {
				layout = `"2006-01-02T15:04:05.` + strings.Repeat("0", fraction-1) + `Z"`
			}
			at, err := time.Parse(layout, string(text))
			if err != nil {
				return text
			}
			return []byte(at.Add(b.ahead).Format(layout))
		})
		if len(b.rest) == 0 {
			return 0, b.err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
