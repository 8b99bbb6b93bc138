package member

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// afresh keeps a watch from going on where it was after the member was away. Who was away may have been restored from a
// backup, and then counts its versions from an earlier one: a watch from a version that lies in the future begins without
// complaint, and shows nothing until the versions have caught up. So the watch is
// refused as one from a version that is too old, and the list that follows has no version.
//
// It returns the request to send, or the answer to it.
func (g *gate) afresh(req *http.Request) (*http.Request, *http.Response) {
	query := req.URL.Query()
	if req.Method != http.MethodGet || query.Get("continue") != "" {
		return req, nil
	}
	what := req.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector")
	lost := g.breaker.lost()
	g.mu.Lock()
	defer g.mu.Unlock()
	before, known := g.listed[what]
	away := known && before != lost
	if isWatch(req) && query.Get("sendInitialEvents") != "true" {
		if away {
			return nil, tooOld(req)
		}
		return req, nil
	}
	if g.listed == nil {
		g.listed = map[string]uint64{}
	}
	g.listed[what] = lost
	if away && query.Has("resourceVersion") {
		query.Del("resourceVersion")
		req = req.Clone(req.Context())
		req.URL.RawQuery = query.Encode()
	}
	return req, nil
}

// tooOld is what an API server answers to a watch from a version that it has forgotten.
func tooOld(req *http.Request) *http.Response {
	status := apierrors.NewResourceExpired("the cluster was out of reach, and may not be what it was").Status()
	status.APIVersion, status.Kind = "v1", "Status"
	body, _ := json.Marshal(status) // of plain fields: cannot fail
	return &http.Response{
		Status: http.StatusText(http.StatusGone), StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: req,
	}
}
