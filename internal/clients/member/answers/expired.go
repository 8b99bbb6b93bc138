package answers

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Expired is what an API server answers to a watch from a version that it no longer has.
func Expired(req *http.Request, message string) *http.Response {
	status := apierrors.NewResourceExpired(message).Status()
	status.APIVersion, status.Kind = "v1", "Status"
	body, _ := json.Marshal(status) // of plain fields: cannot fail
	return &http.Response{
		Status: http.StatusText(http.StatusGone), StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: req,
	}
}
