package member

import (
	"net/http"

	"github.com/flagship-k8s/flagship/internal/clients/member/answers"
)

// afresh keeps a watch from going on where it was after the member was away. The member may have been restored from a
// backup, and then counts its versions from an earlier one: a watch from a version that it has not reached yet begins without
// an error, and shows nothing until it has. So the watch is
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
			return nil, answers.Expired(req, "the cluster was out of reach, and may not be what it was")
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
