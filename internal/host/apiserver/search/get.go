package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
)

// names are the clusters, sorted.
func (c *call) names() []string { return slices.Sorted(maps.Keys(c.clusters)) }

// find reads an object in the one cluster that has it. Whether another one has it, too, is not known while a cluster does not answer: the
// client is warned of those.
func (c *call) find(ctx context.Context, path string, query url.Values, accept string) (cluster string, object map[string]any, err error) {
	names := c.names()
	var mu sync.Mutex
	found := map[string]map[string]any{}
	failed := c.each(names, func(cluster string) error {
		object, err := c.read(ctx, cluster, path, query, accept)
		if err == nil && c.info.Namespace == "" && c.clusters[cluster] != nil {
			err = apierrors.NewNotFound(c.resource().GroupResource(), c.info.Name) // of a namespace only, and it has none
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			found[cluster] = object
		}
		return err
	})
	have := slices.Sorted(maps.Keys(found))
	if len(have) > 1 {
		return "", nil, apierrors.NewConflict(c.resource().GroupResource(), c.info.Name,
			fmt.Errorf("it exists in the clusters %s: use the proxy of one of them", strings.Join(have, ", ")))
	}
	if len(have) == 0 {
		return "", nil, c.missing(ctx, names, failed)
	}
	relevant := slices.DeleteFunc(names, func(name string) bool { return apierrors.IsNotFound(failed[name]) })
	for name, err := range failed {
		if apierrors.IsNotFound(err) {
			delete(failed, name)
		}
	}
	return have[0], found[have[0]], c.missing(ctx, relevant, failed)
}

// get answers with the object of a name.
func (c *call) get(ctx context.Context) error {
	query := url.Values{}
	if include := c.request.URL.Query().Get("includeObject"); include != "" {
		query.Set("includeObject", include)
	}
	cluster, object, err := c.find(ctx, c.path, query, c.accept)
	if errors.Is(err, merge.ErrTooLarge) {
		err = apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	if err != nil {
		return err
	}
	c.complete(object, cluster)
	return c.respond(http.StatusOK, object)
}

// complete makes an object or Table of a cluster one of the answer.
func (c *call) complete(object map[string]any, cluster string) {
	if !merge.IsTable(object) {
		c.own(object, cluster, c.version(object, cluster))
		return
	}
	var lined merge.Table
	columns, _ := object["columnDefinitions"].([]any)
	rows, _ := object["rows"].([]any)
	lined.Begin(columns)
	for i := range rows {
		if inner := merge.RowObject(rows[i]); inner != nil {
			c.own(inner, cluster, c.version(inner, cluster))
		}
		rows[i] = lined.Row(rows[i], columns, cluster)
	}
	object["columnDefinitions"] = lined.Definitions()
	object["metadata"] = map[string]any{"resourceVersion": c.version(object, cluster)}
}

// version is the version that an object or Table of a cluster has in the answer, "" for its own.
func (c *call) version(object map[string]any, cluster string) string {
	if c.plain {
		return ""
	}
	return merge.Version{cluster: merge.VersionOf(object)}.String()
}

// own makes an object one of the answer.
func (c *call) own(object map[string]any, cluster, version string) {
	merge.Mark(object, cluster, version)
	if c.reduced {
		merge.Trim(object)
	}
}

// respond answers with an object.
func (c *call) respond(code int, object map[string]any) error {
	c.writer.Header().Set("Content-Type", "application/json")
	c.writer.WriteHeader(code)
	_ = json.NewEncoder(c.writer).Encode(object) // the client is gone if this fails
	return nil
}
