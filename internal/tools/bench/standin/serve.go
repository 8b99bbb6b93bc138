package standin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/flagship-k8s/flagship/internal/tools/bench/standin/apistore"
)

// requestInfo reads what a path means, as the API server does.
var requestInfo = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// ServeHTTP implements http.Handler.
func (m *Member) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !m.fault.admit(w, req) {
		m.requests[Refused].Add(1)
		return
	}
	token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !m.authenticate(token) {
		fail(w, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	info, err := requestInfo.NewRequestInfo(req)
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	m.count(info)
	if !info.IsResourceRequest {
		m.document(w, req)
		return
	}
	if err := m.resource(w, req, info); err != nil {
		fail(w, err)
	}
}

func fail(w http.ResponseWriter, err error) {
	status := responsewriters.ErrorToAPIStatus(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	respond(w, int(status.Code), status)
}

func respond(w http.ResponseWriter, code int, answer any) {
	raw, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	respondRaw(w, code, "application/json", raw)
}

func respondRaw(w http.ResponseWriter, code int, contentType string, raw []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(code)
	_, _ = w.Write(raw) // a client that has gone needs no answer
}

// document serves what is no resource: health, version, discovery.
func (m *Member) document(w http.ResponseWriter, req *http.Request) {
	c := m.Catalog()
	path := strings.TrimSuffix(req.URL.Path, "/")
	switch path {
	case "/readyz", "/livez", "/healthz":
		respondRaw(w, http.StatusOK, "text/plain", []byte("ok"))
	case "/version":
		respond(w, http.StatusOK, map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.0-stand-in"})
	case "/api", "/apis":
		w.Header().Set("ETag", c.ETag)
		w.Header().Set("Vary", "Accept")
		if req.Header.Get("If-None-Match") == c.ETag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		raw := c.Groups
		if path == "/api" {
			raw = c.Core
		}
		respondRaw(w, http.StatusOK, aggregated, raw)
	case "/openapi/v3":
		respondRaw(w, http.StatusOK, "application/json", c.Schemas)
	default:
		m.groupDocument(w, strings.Split(strings.TrimPrefix(path, "/"), "/"), c)
	}
}

// groupDocument serves the resources of one group version, and the versions of one group.
func (m *Member) groupDocument(w http.ResponseWriter, path []string, c *apistore.Catalog) {
	var gv schema.GroupVersion
	switch {
	case path[0] == "api" && len(path) == 2:
		gv.Version = path[1]
	case path[0] == "apis" && len(path) == 3:
		gv.Group, gv.Version = path[1], path[2]
	case path[0] == "apis" && len(path) == 2:
		gv.Group = path[1]
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv.String()}
	group := metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: gv.Group}
	versions := sets.New[string]()
	for gvr, r := range c.Resources {
		if gvr.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: gvr.Resource, Kind: r.Kind, Namespaced: r.Namespaced})
		}
		if gvr.Group == gv.Group {
			versions.Insert(gvr.Version)
		}
	}
	for _, version := range sets.List(versions) {
		known := metav1.GroupVersionForDiscovery{GroupVersion: schema.GroupVersion{Group: gv.Group, Version: version}.String(), Version: version}
		group.Versions, group.PreferredVersion = append(group.Versions, known), known
	}
	switch {
	case gv.Version == "" && len(group.Versions) > 0:
		respond(w, http.StatusOK, group)
	case gv.Version != "" && len(list.APIResources) > 0:
		respond(w, http.StatusOK, list)
	default:
		http.Error(w, "404 page not found", http.StatusNotFound)
	}
}

// resource serves a request for objects.
func (m *Member) resource(w http.ResponseWriter, req *http.Request, info *request.RequestInfo) error {
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	r, ok := m.Catalog().Resources[gvr]
	if !ok {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return nil
	}
	query := req.URL.Query()
	c := apistore.Change{
		Served: r, Key: types.NamespacedName{Namespace: info.Namespace, Name: info.Name}, Subresource: info.Subresource,
		Manager: query.Get("fieldManager"), Force: query.Get("force") == "true", DryRun: query.Has("dryRun"),
	}
	if !r.Namespaced {
		c.Key.Namespace = ""
	}
	if c.Manager == "" && req.Header.Get("Content-Type") != string(types.ApplyPatchType) {
		c.Manager, _, _ = strings.Cut(req.UserAgent(), "/")
	}
	switch info.Verb {
	case "list", "watch":
		return m.listOrWatch(w, req, r, c.Key.Namespace, info.Name)
	case "get":
		found := m.Get(gvr, c.Key)
		if found == nil {
			return apierrors.NewNotFound(gvr.GroupResource(), info.Name)
		}
		raw, err := formOf(req)(found.Raw)
		if err == nil {
			respondRaw(w, http.StatusOK, "application/json", raw)
		}
		return err
	}
	body, err := readJSON(req)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	code, answer, err := m.change(req, info.Verb, c, body)
	if err == nil {
		respond(w, code, answer)
	}
	return err
}

// readJSON reads a body, which typed clients send as protobuf.
func readJSON(req *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 4<<20))
	if err != nil || req.Header.Get("Content-Type") != runtime.ContentTypeProtobuf {
		return body, err
	}
	object, kind, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding the body: %w", err)
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	return json.Marshal(object)
}

// change serves a request that writes.
func (m *Member) change(req *http.Request, verb string, c apistore.Change, body []byte) (int, any, error) {
	object := &unstructured.Unstructured{}
	if verb == "create" || verb == "update" {
		if err := utiljson.Unmarshal(body, &object.Object); err != nil { // whole numbers stay such
			return 0, nil, apierrors.NewBadRequest(err.Error())
		}
	}
	switch {
	case verb == "create" && c.Subresource == "token":
		return m.requestToken(c, object)
	case verb == "create" && c.Group == "authorization.k8s.io":
		object.Object["status"] = map[string]any{"allowed": true}
		return http.StatusCreated, object.Object, nil
	case verb == "create":
		made, err := m.Create(req.Context(), c, object)
		return http.StatusCreated, contentOf(made), err
	case verb == "update":
		changed, err := m.Update(req.Context(), c, object)
		return http.StatusOK, contentOf(changed), err
	case verb == "patch" && strings.HasPrefix(req.Header.Get("Content-Type"), "application/apply-patch"):
		applied, err := m.Apply(req.Context(), c, body)
		return http.StatusOK, contentOf(applied), err
	case verb == "patch" && req.Header.Get("Content-Type") == string(types.MergePatchType):
		patched, err := m.MergePatch(req.Context(), c, body)
		return http.StatusOK, contentOf(patched), err
	case verb == "delete":
		options := &metav1.DeleteOptions{}
		if len(body) > 0 {
			if err := json.Unmarshal(body, options); err != nil {
				return 0, nil, apierrors.NewBadRequest(err.Error())
			}
		}
		gone, err := m.Delete(c, options)
		return http.StatusOK, contentOf(gone), err
	}
	return 0, nil, apierrors.NewMethodNotSupported(c.GroupResource(), verb)
}

func contentOf(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return nil
	}
	return object.Object
}

// requestToken is a TokenRequest.
func (m *Member) requestToken(c apistore.Change, object *unstructured.Unstructured) (int, any, error) {
	if m.Get(c.GroupVersionResource, c.Key) == nil {
		return 0, nil, apierrors.NewNotFound(c.GroupResource(), c.Key.Name)
	}
	seconds, found, _ := unstructured.NestedInt64(object.Object, "spec", "expirationSeconds")
	if !found || seconds <= 0 {
		seconds = 3600
	}
	token, ends := m.token(c.Key, time.Duration(seconds)*time.Second)
	object.Object["status"] = map[string]any{"token": token, "expirationTimestamp": ends.UTC().Format(time.RFC3339)}
	return http.StatusCreated, object.Object, nil
}

// formOf returns the form in which a client requests objects: whole, or their metadata only.
func formOf(req *http.Request) func([]byte) ([]byte, error) {
	if !strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata;") {
		return func(raw []byte) ([]byte, error) { return raw, nil }
	}
	return func(raw []byte) ([]byte, error) {
		partial := metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(raw, &partial); err != nil {
			return nil, fmt.Errorf("reading metadata: %w", err)
		}
		partial.TypeMeta = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadata"}
		return json.Marshal(partial)
	}
}
