package bounds

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxRecordDepth is how deep messages within messages are counted. Those of Kubernetes are less deep, but for schemas, which are JSON.
const maxRecordDepth = 32

// Values returns a TooMuchError for a document with more values than a limit has: of JSON its elements and fields, of protobuf its fields. It
// is for documents that are in memory and not decoded yet.
func Values(document []byte, limit Limit) error {
	trimmed := bytes.TrimLeft(document, " \t\r\n")
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		m := Meter{limit: limit, begun: true, json: true}
		m.count(document)
		return m.failed
	}
	const prefix = "k8s\x00"
	if n := fields(bytes.TrimPrefix(document, []byte(prefix)), limit.Values, 0); n > limit.Values {
		return tooMuch("%s has more than %d values", limit.What, limit.Values)
	}
	return nil
}

// fields counts the fields of a message and of those in it, up to a bound, -1 for what is no message. A text that could be a message counts
// as one.
func fields(message []byte, most int64, depth int) (n int64) {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 || number < 1 {
			return -1
		}
		message = message[size:]
		n++
		if kind == protowire.BytesType {
			inner, size := protowire.ConsumeBytes(message)
			if size < 0 {
				return -1
			}
			message = message[size:]
			if depth < maxRecordDepth && n <= most {
				n += max(0, fields(inner, most-n, depth+1))
			}
		} else {
			size = protowire.ConsumeFieldValue(number, kind, message)
			if size < 0 {
				return -1
			}
			message = message[size:]
		}
		if n > most {
			return n
		}
	}
	return n
}
