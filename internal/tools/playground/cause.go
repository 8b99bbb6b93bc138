package playground

import (
	"bytes"
	"regexp"
)

// causeLine is a line of a log with the reason for the end of its process: what the Go runtime prints above a stack trace, and
// entries of level panic or fatal of zap, in JSON and as text, and of klog.
var causeLine = regexp.MustCompile(`^(panic: |fatal error: )|"level":"(panic|fatal)"|^\S+\t(PANIC|FATAL|panic|fatal)\t|^F\d{4} \d\d:`)

// Causes are the first lines of a log that have the reason for the end of its process, without those of earlier processes: a
// stack trace of any length follows them. There are none if the process did not panic.
func Causes(log []byte) []string {
	const most, width = 3, 400
	log = log[max(0, bytes.LastIndex(log, []byte(startMark))):]
	var causes []string
	for line := range bytes.Lines(log) {
		line = bytes.TrimSpace(line)
		if causeLine.Match(line) && len(causes) < most {
			causes = append(causes, string(line[:min(len(line), width)]))
		}
	}
	return causes
}
