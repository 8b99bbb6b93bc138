package skew_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy has the API server of the member write a line for each request.
const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived","ResponseStarted"],"rules":[{"level":"Metadata"}]}`

// audit is the file with a line for each request that the API server of the member has answered.
type audit struct{ path string }

// position is how many lines there are now.
func (a audit) position(t *testing.T) int { t.Helper(); return len(a.since(t, 0)) }

// since returns the requests of the control plane after a position. All other users are administrators of the member.
func (a audit) since(t *testing.T, position int) []auditv1.Event {
	t.Helper()
	file, err := os.Open(a.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var all []auditv1.Event
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all[min(position, len(all)):] // a line that is being written is left out
		}
		var event auditv1.Event
		if err == nil {
			err = json.Unmarshal(line, &event)
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(event.User.Username, "system:serviceaccount:") {
			all = append(all, event)
		}
	}
}

// writes are the requests for a change, refused ones included, but for questions in the form of one and the lease that is renewed for as
// long as there is a control plane.
func writes(events []auditv1.Event) []string {
	var all []string
	for _, e := range events {
		if e.ObjectRef == nil || !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb) {
			continue
		}
		if strings.HasSuffix(e.ObjectRef.Resource, "reviews") || e.ObjectRef.Subresource == "token" || e.ObjectRef.Resource == "leases" {
			continue
		}
		code := int32(0)
		if e.ResponseStatus != nil {
			code = e.ResponseStatus.Code
		}
		all = append(all, fmt.Sprintf("%s %s (%d, %s, %s)", e.Verb, e.RequestURI, code, e.User.Username, e.RequestReceivedTimestamp.Format(metav1.RFC3339Micro)))
	}
	return all
}

// schemas counts how often the index of schemas was read.
func schemas(events []auditv1.Event) int {
	n := 0
	for _, e := range events {
		if path, _, _ := strings.Cut(e.RequestURI, "?"); path == "/openapi/v3" {
			n++
		}
	}
	return n
}
