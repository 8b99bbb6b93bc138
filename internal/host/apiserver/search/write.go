package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
)

// bodyBytes bounds the body of a write, as an API server does.
const bodyBytes = 3 << 20

// toOwner carries a request about one object to the cluster that has it.
func (c *call) toOwner(ctx context.Context) error {
	whole := strings.TrimSuffix(c.path, "/")
	if c.info.Subresource != "" {
		whole = strings.TrimSuffix(whole, "/"+strings.Join(c.info.Parts[2:], "/")) // the first two are resource and name
	}
	cluster, _, err := c.find(ctx, whole, nil, fmt.Sprintf(metadataOnly, ""))
	if err != nil {
		return err
	}
	if !c.isObject() {
		c.share.End() // it may last
		c.forward(clusterv1alpha1.ProxyPath(cluster) + c.path)
		return nil
	}
	return c.write(ctx, cluster)
}

// write sends a request with an object to a cluster, with the versions of this cluster, and answers with the object in the
// form that a list has it.
func (c *call) write(ctx context.Context, cluster string) error {
	body, err := io.ReadAll(io.LimitReader(c.request.Body, bodyBytes+1))
	if err != nil {
		return apierrors.NewBadRequest("reading the body: " + err.Error())
	}
	if len(body) > bodyBytes {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", bodyBytes))
	}
	header := http.Header{"Accept": {c.accept}}
	if kind := c.request.Header.Get("Content-Type"); kind != "" {
		header.Set("Content-Type", kind)
	}
	if body, err = c.translate(body, header, cluster); err != nil {
		return err
	}
	response, err := c.send(ctx, c.request.Method, cluster, c.path, c.request.URL.Query(), header, bytes.NewReader(body)) //nolint:bodyclose // Decode closes it
	if err != nil {
		return err
	}
	for _, text := range response.Header.Values("Warning") {
		c.writer.Header().Add("Warning", text)
	}
	object, err := merge.Decode(response)
	if errors.Is(err, merge.ErrTooLarge) {
		return apierrors.NewInternalError(err)
	}
	if err != nil {
		return err
	}
	if object["kind"] != "Status" {
		c.complete(object, cluster)
	}
	return c.respond(response.StatusCode, object)
}

// translate makes the body of a write one for a cluster: its own resource version instead of that of several clusters, and without the
// annotation that a read object has.
func (c *call) translate(body []byte, header http.Header, cluster string) ([]byte, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return body, nil
	}
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		kind = runtime.ContentTypeJSON
	}
	if kind == runtime.ContentTypeProtobuf {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return nil, apierrors.NewBadRequest("the body is no object of a built-in kind: " + err.Error())
		}
		if body, err = json.Marshal(object); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		kind = runtime.ContentTypeJSON
		header.Set("Content-Type", kind)
	}
	if !strings.Contains(kind, "json") && !strings.Contains(kind, "yaml") {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, c.info.Verb, c.resource().GroupResource(), c.info.Name,
			"objects of members are written as JSON, YAML or protobuf here", 0, false)
	}
	if strings.Contains(kind, "yaml") {
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return nil, apierrors.NewBadRequest("the body is no YAML: " + err.Error())
		}
		if kind == runtime.ContentTypeYAML {
			header.Set("Content-Type", runtime.ContentTypeJSON)
		}
	}
	var content any
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return nil, apierrors.NewBadRequest("the body is no JSON: " + err.Error())
	}
	if err := merge.Translate(content, cluster); err != nil {
		return nil, apierrors.NewConflict(c.resource().GroupResource(), c.info.Name, err)
	}
	return json.Marshal(content)
}
