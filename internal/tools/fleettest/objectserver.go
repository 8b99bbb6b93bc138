package fleettest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ObjectServer answers as an API server does, from memory, for tests of code that takes a client configuration and needs no more than
// discovery, create, read, list, update, merge patch and delete with JSON. It validates nothing and has no watches.
type ObjectServer struct {
	// Config leads to the server.
	Config *rest.Config

	mu       sync.Mutex
	kinds    []ServedKind
	objects  map[string]*unstructured.Unstructured // by their paths
	handlers map[string]http.HandlerFunc
	writes   []string
	version  int
}

// ServedKind is a kind that an ObjectServer has in discovery.
type ServedKind struct {
	schema.GroupVersionKind
	// Resource is plural.
	Resource   string
	Namespaced bool
}

// StartObjectServer starts a server that serves the kinds, until the test ends.
func StartObjectServer(t testing.TB, kinds ...ServedKind) *ObjectServer {
	t.Helper()
	s := &ObjectServer{kinds: kinds, objects: map[string]*unstructured.Unstructured{}, handlers: map[string]http.HandlerFunc{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.Config = &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
	return s
}

// Handle has a handler answer requests instead, such as "GET /healthz". Nil ends that.
func (s *ObjectServer) Handle(request string, handler http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[request] = handler
}

// Add stores an object under the path of its collection, such as "/api/v1/namespaces/default/configmaps".
func (s *ObjectServer) Add(t testing.TB, collection string, kind schema.GroupVersionKind, obj client.Object) {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(kind)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(collection+"/"+obj.GetName(), object)
}

// Object is what is stored under a path, nil if there is nothing.
func (s *ObjectServer) Object(path string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object, ok := s.objects[path]; ok {
		return object.DeepCopy()
	}
	return nil
}

// Writes are the requests that were not reads, such as "PUT /api/v1/namespaces/default", in their order. Those that a handler answers
// and those that fail are included.
func (s *ObjectServer) Writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// ServeHTTP implements http.Handler.
func (s *ObjectServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if r.Method != http.MethodGet {
		s.writes = append(s.writes, r.Method+" "+r.URL.Path)
	}
	handler := s.handlers[r.Method+" "+r.URL.Path]
	s.mu.Unlock()
	if handler != nil {
		handler(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		var answer any
		if answer, err = s.answer(r.Method, r.URL.Path, body); err == nil {
			WriteJSON(w, http.StatusOK, answer)
			return
		}
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		status = apierrors.NewBadRequest(err.Error())
	}
	WriteJSON(w, int(status.ErrStatus.Code), status.ErrStatus)
}

// WriteJSON answers a request with a value.
func WriteJSON(w http.ResponseWriter, code int, value any) {
	if status, ok := value.(metav1.Status); ok {
		status.Kind, status.APIVersion = "Status", "v1"
		value = status
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // a client that has gone needs no answer
}

func (s *ObjectServer) answer(method, path string, body []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if method == http.MethodGet {
		if answer := s.discovery(path); answer != nil {
			return answer, nil
		}
	}
	stored := strings.TrimSuffix(path, "/status") // one object; what a subresource may not write is not checked
	found, exists := s.objects[stored]
	switch {
	case method == http.MethodPost:
		return s.create(path, body)
	case exists && method == http.MethodGet:
		return found.DeepCopy(), nil
	case exists && method == http.MethodDelete:
		delete(s.objects, stored)
		return metav1.Status{Status: metav1.StatusSuccess}, nil
	case exists && (method == http.MethodPut || method == http.MethodPatch):
		return s.change(method, stored, found, body)
	case !exists && method == http.MethodGet && s.collects(path):
		return s.list(path), nil
	case !exists:
		return nil, apierrors.NewNotFound(resourceOf(path), path[strings.LastIndex(path, "/")+1:])
	}
	return nil, apierrors.NewMethodNotSupported(resourceOf(path), strings.ToLower(method))
}

func (s *ObjectServer) create(path string, body []byte) (any, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(body); err != nil {
		return nil, err
	}
	path += "/" + object.GetName()
	if _, exists := s.objects[path]; exists {
		return nil, apierrors.NewAlreadyExists(resourceOf(path), object.GetName())
	}
	return s.store(path, object), nil
}

// change replaces or patches an object, unless the client has an older version of it.
func (s *ObjectServer) change(method, path string, found *unstructured.Unstructured, body []byte) (any, error) {
	if method == http.MethodPatch {
		before, err := found.MarshalJSON()
		if err != nil {
			return nil, err
		}
		if body, err = jsonpatch.MergePatch(before, body); err != nil {
			return nil, err
		}
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(body); err != nil {
		return nil, err
	}
	if version := object.GetResourceVersion(); version != "" && version != found.GetResourceVersion() {
		return nil, apierrors.NewConflict(resourceOf(path), found.GetName(), errors.New("the object has been modified"))
	}
	return s.store(path, object), nil
}

func (s *ObjectServer) store(path string, object *unstructured.Unstructured) *unstructured.Unstructured {
	s.version++
	object.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[path] = object
	return object.DeepCopy()
}

func (s *ObjectServer) list(path string) any {
	items := []any{}
	for _, at := range slices.Sorted(maps.Keys(s.objects)) {
		if name, ok := strings.CutPrefix(at, path+"/"); ok && !strings.Contains(name, "/") {
			items = append(items, s.objects[at].DeepCopy().Object)
		}
	}
	kind := s.kinds[slices.IndexFunc(s.kinds, func(k ServedKind) bool { return strings.HasSuffix(path, "/"+k.Resource) })]
	return map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	}
}

// collects returns whether the path is that of a collection.
func (s *ObjectServer) collects(path string) bool {
	return slices.ContainsFunc(s.kinds, func(k ServedKind) bool {
		root := "/apis/" + k.GroupVersion().String()
		if k.Group == "" {
			root = "/api/" + k.Version
		}
		return strings.HasPrefix(path, root+"/") && strings.HasSuffix(path, "/"+k.Resource)
	})
}

// discovery answers the paths that list groups and resources, nil for others.
func (s *ObjectServer) discovery(path string) any {
	groups := map[string]versions{}
	resources := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, kind := range s.kinds {
		if groups[kind.Group] == nil {
			groups[kind.Group] = versions{}
		}
		groups[kind.Group][kind.Version] = true
		if path == "/apis/"+kind.GroupVersion().String() || kind.Group == "" && path == "/api/"+kind.Version {
			resources.GroupVersion = kind.GroupVersion().String()
			resources.APIResources = append(resources.APIResources, metav1.APIResource{
				Name: kind.Resource, SingularName: strings.ToLower(kind.Kind), Kind: kind.Kind, Namespaced: kind.Namespaced,
				Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update"},
			})
		}
	}
	switch {
	case path == "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: slices.Sorted(maps.Keys(groups[""]))}
	case path == "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			if name != "" {
				list.Groups = append(list.Groups, groupOf(name, groups[name]))
			}
		}
		return list
	case resources.GroupVersion != "":
		return resources
	}
	if name, ok := strings.CutPrefix(path, "/apis/"); ok && groups[name] != nil {
		group := groupOf(name, groups[name])
		group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		return group
	}
	return nil
}

// versions are those of a group.
type versions map[string]bool

func groupOf(name string, served versions) metav1.APIGroup {
	group := metav1.APIGroup{Name: name}
	for _, version := range slices.Sorted(maps.Keys(served)) {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: fmt.Sprintf("%s/%s", name, version), Version: version})
	}
	group.PreferredVersion = group.Versions[0]
	return group
}

// resourceOf is the group and resource of the path of an object, for messages.
func resourceOf(path string) schema.GroupResource {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	out := schema.GroupResource{}
	if parts[0] == "apis" && len(parts) > 1 {
		out.Group = parts[1]
	}
	if len(parts) > 1 {
		out.Resource = parts[len(parts)-2]
	}
	return out
}
