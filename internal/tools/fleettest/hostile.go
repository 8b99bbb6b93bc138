package fleettest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
)

// Hostile answers for a member as one that means harm: it lies about kinds, names, versions and sizes, floods, compresses, redirects, answers
// slowly and hangs up. The seed decides what it does; some requests go through, so that the control plane goes on.
type Hostile struct {
	mu     sync.Mutex
	random *rand.Rand
	given  map[string]int
}

// NewHostile returns what answers by a seed.
func NewHostile(seed uint64) *Hostile {
	return &Hostile{random: rand.New(rand.NewPCG(seed, 0)), given: map[string]int{}} //nolint:gosec // a seed repeats a run
}

// Lies are how often each answer was given.
func (h *Hostile) Lies() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.given)
}

// lie is one answer. It returns once the client has gone or the answer ends.
type lie func(w http.ResponseWriter, r *http.Request, seed uint64)

// Answer is the Misbehaviour.
func (h *Hostile) Answer(w http.ResponseWriter, r *http.Request) bool {
	lies := answerLies
	if IsWatch(r) {
		lies = watchLies
	}
	vital := r.URL.Path == "/readyz" || r.URL.Path == "/api/v1/namespaces/kube-system" // without these nothing else would be requested
	h.mu.Lock()
	share := h.random.IntN(100)
	seed, name := h.random.Uint64(), slices.Sorted(maps.Keys(lies))[h.random.IntN(len(lies))]
	if share < 40 || vital && share < 90 {
		h.mu.Unlock()
		return false
	}
	h.given[name]++
	h.mu.Unlock()
	defer func() {
		if failure := recover(); failure != nil {
			panic(http.ErrAbortHandler) // of a connection that is gone
		}
	}()
	lies[name](w, r, seed)
	return true
}

// FloodPods is the Misbehaviour of a member that sends pods without end to each watch of them, and else answers as it should.
func FloodPods(w http.ResponseWriter, r *http.Request) bool {
	if !IsWatch(r) || path.Base(r.URL.Path) != "pods" {
		return false
	}
	stream(w, r, func(i int) string { return event("MODIFIED", object(r, fmt.Sprintf("flood-%d", i), i+1, "{}")) })
	return true
}

// noise is text that does not compress.
func noise(seed uint64, n int) string {
	source := rand.NewPCG(seed, 1)
	random := rand.New(source) //nolint:gosec // a seed repeats a run
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('a' + random.IntN(26))
	}
	return string(text)
}

// groupVersionOf is that of a request.
func groupVersionOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "apis" && len(parts) > 2:
		return parts[1] + "/" + parts[2]
	case len(parts) > 1:
		return parts[1]
	}
	return "v1"
}

// kindOf is about the kind of a request.
func kindOf(r *http.Request) string {
	kinds := map[string]string{
		"configmaps": "ConfigMap", "pods": "Pod", "nodes": "Node", "events": "Event", "namespaces": "Namespace", "services": "Service",
		"endpointslices": "EndpointSlice", "serviceexports": "ServiceExport", "customresourcedefinitions": "CustomResourceDefinition",
		"deployments": "Deployment", "secrets": "Secret", "resourcequotas": "ResourceQuota",
	}
	for part := range strings.SplitSeq(r.URL.Path, "/") {
		if kind := kinds[part]; kind != "" && part != "namespaces" {
			return kind
		}
	}
	return "Namespace"
}

// object is a managed object of a Work that does not exist, with data.
func object(r *http.Request, name string, version int, data string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"shop","uid":%q,"resourceVersion":"%d","labels":{"karmada.io/managed":"true"},`+
		`"annotations":{"work.karmada.io/namespace":"karmada-es-hostile","work.karmada.io/name":%q}},"data":%s}`, groupVersionOf(r), kindOf(r), name, name, version, name, data)
}

func event(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
}

// stream sends events until the client has gone.
func stream(w http.ResponseWriter, r *http.Request, next func(i int) string) {
	w.Header().Set("Content-Type", "application/json")
	for i := 0; r.Context().Err() == nil; i++ {
		if _, err := io.WriteString(w, next(i)); err != nil {
			return
		}
	}
}

// quoted is a text of JSON.
func quoted(text string) string { return fmt.Sprintf(`{"a":%q}`, text) }

var watchLies = map[string]lie{
	"large objects without end": func(w http.ResponseWriter, r *http.Request, seed uint64) {
		text := noise(seed, 600_000)
		stream(w, r, func(i int) string { return event("ADDED", object(r, fmt.Sprintf("%d-%d", seed, i), i+1, quoted(text))) })
	},
	"small objects without end": func(w http.ResponseWriter, r *http.Request, seed uint64) {
		stream(w, r, func(i int) string { return event("MODIFIED", object(r, fmt.Sprintf("%d-%d", seed, i), i+1, "{}")) })
	},
	"one object without end": func(w http.ResponseWriter, r *http.Request, _ uint64) {
		stream(w, r, func(i int) string { return event("MODIFIED", object(r, "one", i+1, quoted(fmt.Sprint(i)))) })
	},
	"objects that go and never came": func(w http.ResponseWriter, r *http.Request, seed uint64) {
		stream(w, r, func(i int) string { return event("DELETED", object(r, fmt.Sprintf("%d-%d", seed, i), i+1, "{}")) })
	},
	"bookmarks without end": func(w http.ResponseWriter, r *http.Request, _ uint64) {
		stream(w, r, func(i int) string { return event("BOOKMARK", object(r, "", i+1, "{}")) })
	},
	"an event without end": func(w http.ResponseWriter, r *http.Request, _ uint64) {
		stream(w, r, func(i int) string {
			if i == 0 {
				return `{"type":"ADDED","object":{"metadata":{"name":"`
			}
			return strings.Repeat("x", 1<<16)
		})
	},
	"values without end": func(w http.ResponseWriter, r *http.Request, _ uint64) {
		stream(w, r, func(i int) string {
			return event("ADDED", object(r, "values", i+1, "["+strings.Repeat("{},", 1_000_000)+"{}]"))
		})
	},
	"long names": func(w http.ResponseWriter, r *http.Request, seed uint64) {
		stream(w, r, func(i int) string { return event("ADDED", object(r, noise(seed, 1<<20), i+1, "{}")) })
	},
	"protobuf without end": func(w http.ResponseWriter, r *http.Request, _ uint64) {
		frame := append([]byte("k8s\x00"), bytes.Repeat([]byte{0x12, 0}, 1<<20)...)
		stream(w, r, func(int) string {
			return string(binary.BigEndian.AppendUint32(nil, uint32(len(frame)))) + string(frame)
		}) //nolint:gosec // a small number
	},
	"an error of a megabyte": func(w http.ResponseWriter, _ *http.Request, seed uint64) {
		_, _ = io.WriteString(w, event("ERROR", statusOf(noise(seed, 1<<20), http.StatusInternalServerError)))
	},
	"versions that are gone": func(w http.ResponseWriter, _ *http.Request, _ uint64) {
		_, _ = io.WriteString(w, event("ERROR", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`))
	},
	"a list that is complete too early": func(w http.ResponseWriter, r *http.Request, _ uint64) {
		stream(w, r, func(i int) string {
			return event("BOOKMARK", fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}`, groupVersionOf(r), kindOf(r), i+1))
		})
	},
	"nothing":     sendNothing,
	"a slow byte": trickle,
	"a hang-up":   hangUp,
	"no streams": func(w http.ResponseWriter, _ *http.Request, _ uint64) {
		refuse(w, http.StatusUnprocessableEntity, "Invalid")
	},
	"a redirect":   redirect,
	"large header": largeHeaders,
}

var answerLies = map[string]lie{
	"a bomb of gzip": func(w http.ResponseWriter, r *http.Request, _ uint64) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		compressed := gzip.NewWriter(w)
		defer compressed.Close()
		_, _ = fmt.Fprintf(compressed, `{"apiVersion":%q,"kind":%q,"items":[`, groupVersionOf(r), kindOf(r)+"List")
		for range 1 << 10 {
			_, _ = io.WriteString(compressed, strings.Repeat("{},", 40_000))
		}
	},
	"an object of many values": func(w http.ResponseWriter, r *http.Request, _ uint64) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, object(r, path.Base(r.URL.Path), 1, "["+strings.Repeat("{},", 2_000_000)+"{}]"))
	},
	"a large object": func(w http.ResponseWriter, r *http.Request, seed uint64) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, object(r, path.Base(r.URL.Path), 1, quoted(noise(seed, 3<<20))))
	},
	"an object without end": func(w http.ResponseWriter, r *http.Request, _ uint64) {
		stream(w, r, func(i int) string {
			if i == 0 {
				return `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"`
			}
			return strings.Repeat("x", 1<<16)
		})
	},
	"another object": func(w http.ResponseWriter, _ *http.Request, seed uint64) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"other-%d"}}`, seed)
	},
	"pages without end": func(w http.ResponseWriter, r *http.Request, seed uint64) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":"%sList","metadata":{"resourceVersion":"1","continue":"%d"},"items":[%s]}`, groupVersionOf(r), kindOf(r), seed, object(r, fmt.Sprint(seed), 1, "{}"))
	},
	"groups without end": func(w http.ResponseWriter, _ *http.Request, seed uint64) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[`)
		for i := range 20_000 {
			_, _ = fmt.Fprintf(w, `{"name":"g%d-%d","versions":[{"groupVersion":"g%d-%d/v1","version":"v1"}]},`, seed, i, seed, i)
		}
		_, _ = io.WriteString(w, `{"name":"last"}]}`)
	},
	"an error of a megabyte": func(w http.ResponseWriter, _ *http.Request, seed uint64) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, statusOf(noise(seed, 1<<20), http.StatusUnprocessableEntity))
	},
	"a long error": func(w http.ResponseWriter, _ *http.Request, seed uint64) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, statusOf(noise(seed, 100<<10), http.StatusConflict))
	},
	"gone": func(w http.ResponseWriter, _ *http.Request, _ uint64) { refuse(w, http.StatusGone, "Expired") },
	"text": func(w http.ResponseWriter, _ *http.Request, seed uint64) {
		_, _ = io.WriteString(w, "\x1b[2J"+noise(seed, 1<<20))
	},
	"nothing":      sendNothing,
	"a slow byte":  trickle,
	"a hang-up":    hangUp,
	"a redirect":   redirect,
	"large header": largeHeaders,
}

func statusOf(message string, code int) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":"Invalid","code":%d}`, message, code)
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}

func sendNothing(_ http.ResponseWriter, r *http.Request, _ uint64) { <-r.Context().Done() }

func hangUp(http.ResponseWriter, *http.Request, uint64) { panic(http.ErrAbortHandler) }

func redirect(w http.ResponseWriter, r *http.Request, seed uint64) {
	http.Redirect(w, r, "https://127.0.0.1:1/"+noise(seed, 1<<10), http.StatusTemporaryRedirect)
}

func largeHeaders(w http.ResponseWriter, _ *http.Request, seed uint64) {
	for i := range 512 {
		w.Header().Add("Warning", fmt.Sprintf(`299 - "%s"`, noise(seed+uint64(i), 1<<10))) //nolint:gosec // small numbers
	}
}

// trickle sends a byte of an answer that never comes.
func trickle(w http.ResponseWriter, r *http.Request, _ uint64) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, " ")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}
