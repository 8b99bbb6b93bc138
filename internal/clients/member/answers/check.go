package answers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// headBytes are enough of a list for its kind, or for its items, which come before the kind in lists of custom resources.
const headBytes = 1 << 10

// protobufPrefix begins every answer in protobuf.
var protobufPrefix = []byte("k8s\x00")

// Check returns an error for an answer of success that no API server gives to the request, which is not a watch. The body can be read
// afterwards as before.
func Check(req *http.Request, resp *http.Response) error {
	if resp.StatusCode/100 == 3 && resp.StatusCode != http.StatusNotModified {
		return fmt.Errorf("the answer is no API server's: a redirection to %q", bounds.Cut(resp.Header.Get("Location"), bounds.NameBytes))
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return cutFailure(resp)
	}
	t := targetOf(req.URL.Path)
	if resp.StatusCode/100 != 2 || t.raw {
		return nil
	}
	body, err := begin(resp, t.collection && req.Method == http.MethodGet)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == runtime.ContentTypeProtobuf && bytes.HasPrefix(body, protobufPrefix) {
		return nil // a decoder of protobuf takes nothing else
	}
	if err := t.check(req, body); err != nil {
		return fmt.Errorf("the answer %q is no API server's: %w", resp.Status, err)
	}
	return nil
}

// LimitOf is the bound of the answer to a request, and whether it may be compressed.
func LimitOf(req *http.Request) (limit bounds.Limit, compressed bool) {
	switch t := targetOf(req.URL.Path); {
	case t.raw:
		return bounds.Document.Piece, false
	case t.groupVersion == "":
		return bounds.Discovery.Piece, true
	case t.collection && req.Method == http.MethodGet:
		return bounds.Page.Piece, true
	default:
		return bounds.Object.Piece, false
	}
}

// begin reads the body, of a list only the beginning, and puts it back.
func begin(resp *http.Response, list bool) ([]byte, error) {
	type body struct {
		io.Reader
		io.Closer
	}
	if list {
		buffered := bufio.NewReaderSize(resp.Body, headBytes)
		head, err := buffered.Peek(headBytes)
		resp.Body = body{buffered, resp.Body}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return head, err
	}
	whole, err := io.ReadAll(resp.Body)
	resp.Body = body{bytes.NewReader(whole), resp.Body}
	return whole, err
}

// target is what the path of a request names.
type target struct {
	// raw: something else than objects.
	raw bool
	// groupVersion is empty for a document of discovery.
	groupVersion string
	// kinds are those of a document of discovery.
	kinds []string
	// collection: the objects of a resource, without a name.
	collection      bool
	namespace, name string
	subresource     bool
}

func targetOf(path string) target {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var t target
	switch {
	case parts[0] == "api" && len(parts) == 1:
		return target{kinds: []string{"APIVersions", "APIGroupDiscoveryList"}}
	case parts[0] == "apis" && len(parts) == 1:
		return target{kinds: []string{"APIGroupList", "APIGroupDiscoveryList"}}
	case parts[0] == "apis" && len(parts) == 2:
		return target{kinds: []string{"APIGroup"}}
	case parts[0] == "api" && len(parts) == 2, parts[0] == "apis" && len(parts) == 3:
		return target{kinds: []string{"APIResourceList"}}
	case parts[0] == "api":
		t.groupVersion, parts = parts[1], parts[2:]
	case parts[0] == "apis":
		t.groupVersion, parts = parts[1]+"/"+parts[2], parts[3:]
	default:
		return target{raw: true}
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		t.namespace, parts = parts[1], parts[2:]
	}
	t.collection, t.subresource = len(parts) == 1, len(parts) > 2
	if len(parts) > 1 {
		t.name = parts[1]
	}
	return t
}

// answer is what all answers have in common.
type answer struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	// Status is that of a Status; an object has something else there.
	Status json.RawMessage `json:"status"`
}

func (t target) check(req *http.Request, body []byte) error {
	if t.collection && req.Method == http.MethodGet {
		return checkList(body)
	}
	if t.subresource && req.Method == http.MethodGet {
		return nil // a log is text
	}
	var got answer
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Errorf("it is no object: %w", err)
	}
	succeeded := got.Kind == "Status" && got.APIVersion == "v1" && string(got.Status) == strconv.Quote(metav1.StatusSuccess)
	switch {
	case t.groupVersion == "":
		if !slices.Contains(t.kinds, got.Kind) {
			return fmt.Errorf("it is of kind %q, not one of %q", got.Kind, t.kinds)
		}
		return checkGroups(body)
	case succeeded && (req.Method == http.MethodDelete || t.subresource):
		return nil
	case got.Kind == "" || got.Kind == "Status" || got.APIVersion == "":
		return fmt.Errorf("it is of apiVersion %q and kind %q", got.APIVersion, got.Kind)
	case t.subresource:
		return nil // of a kind of its own
	}
	return t.checkObject(req, got)
}

// checkGroups returns an error for a document of discovery with too many versions of groups: a client requests each.
func checkGroups(body []byte) error {
	type versions []json.RawMessage
	var document struct {
		Versions      versions
		Groups, Items []struct{ Versions versions }
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return fmt.Errorf("it has no versions: %w", err)
	}
	served := len(document.Versions)
	for _, group := range append(document.Groups, document.Items...) {
		served += len(group.Versions)
	}
	return bounds.CheckGroupVersions(served)
}

// checkObject compares an object with the request for it.
func (t target) checkObject(req *http.Request, got answer) error {
	sent := typeOf(req)
	switch {
	case got.APIVersion != t.groupVersion && got.APIVersion != metav1.SchemeGroupVersion.String(): // of PartialObjectMetadata
		return fmt.Errorf("it is of apiVersion %q, not %q", got.APIVersion, t.groupVersion)
	case sent.Kind != "" && got.Kind != sent.Kind:
		return fmt.Errorf("it is a %s, not a %s", got.Kind, sent.Kind)
	case t.name != "" && (got.Metadata.Name != t.name || got.Metadata.Namespace != t.namespace):
		return fmt.Errorf("it is %q in namespace %q, not %q in namespace %q", got.Metadata.Name, got.Metadata.Namespace, t.name, t.namespace)
	}
	return nil
}

// typeOf is the type of the object that a request sends; empty if it sends something else.
func typeOf(req *http.Request) (sent metav1.TypeMeta) {
	if req.Method == http.MethodGet || req.Method == http.MethodDelete || req.GetBody == nil {
		return sent
	}
	body, err := req.GetBody()
	if err != nil {
		return sent
	}
	defer body.Close()
	_ = json.NewDecoder(body).Decode(&sent) // a JSON patch is no object
	return sent
}

// checkList reads the beginning of a list up to its kind or its items.
func checkList(head []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(head))
	begin, err := decoder.Token()
	if err != nil || begin != json.Delim('{') {
		return errors.New("it is no object")
	}
	for decoder.More() {
		key, err := decoder.Token()
		var value json.RawMessage
		if err == nil && key != "items" {
			err = decoder.Decode(&value)
		}
		switch {
		case key == "items":
			return nil
		case err != nil && len(head) == headBytes:
			return nil // more than the beginning is before its kind
		case err != nil:
			return fmt.Errorf("it is no object: %w", err)
		case key == "kind" && bytes.HasSuffix(value, []byte(`List"`)):
			return nil
		case key == "kind":
			return fmt.Errorf("it is a %s, not a list", value)
		}
	}
	return errors.New("it has no kind and no items")
}
