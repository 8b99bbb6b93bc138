package documents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// root is where documents of version 3 are served.
const root = "/openapi/v3"

// keepFor is how long a client may keep a document whose address has its tag: a year, as upstream has it.
const keepFor = 365 * 24 * time.Hour

// shelf has the documents of version 3 of one server, by paths such as apis/apps/v1. The index has the address of each, with a tag, and a
// document is built when it is requested for the first time. Upstream's tags are hashes of the documents, so that its index, which is read
// at each start and once a second, needs all of them.
type shelf struct {
	mu        sync.Mutex
	documents map[string]*published
}

func newShelf() *shelf { return &shelf{documents: map[string]*published{}} }

// published is one document. It has a tag, which is another one for other content.
type published struct {
	path, tag string
	build     func() (*spec3.OpenAPI, error)

	mu sync.Mutex
	// encoded is nil until the document is requested.
	encoded *handler3.OpenAPIService
}

// set publishes a document. With the tag that it has already, it stays as it is.
func (s *shelf) set(path, tag string, build func() (*spec3.OpenAPI, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.documents[path]; !ok || before.tag != tag {
		s.documents[path] = &published{path: path, tag: tag, build: build}
	}
}

func (s *shelf) drop(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.documents, path)
}

// ServeHTTP answers with the index, or with a document.
func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == root {
		s.index(w, r)
		return
	}
	s.mu.Lock()
	document, ok := s.documents[strings.TrimPrefix(r.URL.Path, root+"/")]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	document.ServeHTTP(w, r)
}

func (s *shelf) index(w http.ResponseWriter, r *http.Request) {
	index := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	s.mu.Lock()
	for path, document := range s.documents {
		address := url.URL{Path: root + "/" + path, RawQuery: url.Values{"hash": {document.tag}}.Encode()}
		index.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: address.String()}
	}
	s.mu.Unlock()
	text, err := json.Marshal(index)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	http.ServeContent(w, r, root, time.Time{}, bytes.NewReader(text))
}

// ServeHTTP answers with the document in the form that the client accepts. A client that has the address of other content, such as that of
// another server of the control plane, gets this one, without headers that let it be kept.
func (p *published) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	encoded, err := p.get()
	if err != nil {
		log.FromContext(r.Context()).Error(err, "An OpenAPI document is not served", "path", p.path)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if r.URL.Query().Get("hash") == p.tag {
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().Add(keepFor).UTC().Format(http.TimeFormat))
	}
	plain := *r
	plain.URL = &url.URL{Path: r.URL.Path} // upstream would compare the tag with its own
	encoded.HandleGroupVersion(w, &plain)
}

// get returns what sends the document. It has the document as bytes and not as the tree, which is many times as large.
func (p *published) get() (*handler3.OpenAPIService, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.encoded != nil {
		return p.encoded, nil
	}
	tree, err := p.build()
	if err != nil {
		return nil, err
	}
	service := handler3.NewOpenAPIService()
	service.UpdateGroupVersion(p.path, tree)
	if _, err := indexOf(service); err != nil {
		return nil, fmt.Errorf("encoding the OpenAPI document of %s: %w", p.path, err)
	}
	*tree = spec3.OpenAPI{}
	p.encoded = service
	return service, nil
}

// indexOf returns the index of upstream. It has the hash of each document, so all are encoded then.
func indexOf(service *handler3.OpenAPIService) (index handler3.OpenAPIV3Discovery, err error) {
	answer := responsewriter.NewInMemoryResponseWriter()
	service.HandleDiscovery(answer, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: root}})
	if answer.RespCode() != http.StatusOK {
		return index, fmt.Errorf("the index is answered with %d", answer.RespCode())
	}
	err = json.Unmarshal(answer.Data(), &index)
	return index, err
}

// adopt publishes the documents of upstream, with the tags that they have there.
func (s *shelf) adopt(service *handler3.OpenAPIService) error {
	index, err := indexOf(service)
	if err != nil {
		return fmt.Errorf("reading the OpenAPI documents of version 3: %w", err)
	}
	for path, document := range index.Paths {
		address, err := url.Parse(document.ServerRelativeURL)
		if err != nil {
			return fmt.Errorf("reading the address of the OpenAPI document of %s: %w", path, err)
		}
		s.documents[path] = &published{path: path, tag: address.Query().Get("hash"), encoded: service}
	}
	return nil
}

// register adds the handler of all documents of version 3.
func register(paths *mux.PathRecorderMux, handler http.Handler) {
	paths.Handle(root, handler)
	paths.HandlePrefix(root+"/", handler)
}

// filling is a shelf that is filled with the first request.
type filling struct {
	*shelf
	fill func()
	once sync.Once
}

func (f *filling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.once.Do(f.fill)
	f.shelf.ServeHTTP(w, r)
}
