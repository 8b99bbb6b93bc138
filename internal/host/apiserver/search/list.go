package search

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// pageSize is how many objects of a member are held in memory at a time.
const pageSize = 500

// selectors are the parameters that select objects, and those that every page of a list has.
func (c *call) selectors() url.Values {
	query := url.Values{}
	for _, name := range []string{"labelSelector", "fieldSelector", "includeObject"} {
		if value := c.request.URL.Query().Get(name); value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// page reads up to limit objects of a cluster. If they are too large together it reads fewer, and so do further pages with the same most.
func (c *call) page(ctx context.Context, cluster, accept string, limit int, most *int, token string) (merge.Page, error) {
	for {
		limit = min(limit, *most)
		query := c.selectors()
		query.Set("limit", strconv.Itoa(limit))
		if token != "" {
			query.Set("continue", token)
		}
		list, err := c.read(ctx, cluster, c.path, query, accept)
		if errors.Is(err, merge.ErrTooLarge) && limit > 1 {
			*most = limit / 2
			continue
		}
		if err != nil {
			return merge.Page{}, err
		}
		return c.pageOf(list, cluster), nil
	}
}

// first reads the metadata of one object of a cluster at most, and with it the version of the list.
func (c *call) first(ctx context.Context, cluster string) (merge.Page, error) {
	one := 1
	return c.page(ctx, cluster, fmt.Sprintf(metadataOnly, "List"), 1, &one, "")
}

// pageOf takes the objects of the selected namespaces of a list.
func (c *call) pageOf(list map[string]any, cluster string) merge.Page {
	return merge.PageOf(list, func(object map[string]any) bool {
		if !merge.InNamespaces(object, c.clusters[cluster]) {
			return false
		}
		if object != nil {
			c.own(object, cluster, c.version(object, cluster))
		}
		return true
	})
}

// versions reads the version of the list in each cluster, and so which clusters answer, and the errors of those that do not.
func (c *call) versions(ctx context.Context) (found merge.Version, failed map[string]error) {
	var mu sync.Mutex
	found = merge.Version{}
	failed = c.each(c.names(), func(cluster string) error {
		if err := c.waits.Broken(c.caller.GetName(), cluster); err != nil && len(c.clusters) > 1 {
			return err
		}
		first, err := c.first(ctx, cluster)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		found[cluster] = first.At
		return nil
	})
	return found, failed
}

// list answers with the objects of all clusters, in the order of the clusters.
func (c *call) list(ctx context.Context) error {
	query := c.request.URL.Query()
	if query.Get("resourceVersionMatch") == "Exact" {
		return apierrors.NewBadRequest("resourceVersionMatch=Exact is not supported for the objects of several clusters")
	}
	had, err := merge.ParseVersion(query.Get("resourceVersion"))
	if err != nil {
		return expired(err.Error())
	}
	if query.Get("includeObject") == "None" {
		for _, namespaces := range c.clusters {
			if namespaces != nil {
				return apierrors.NewBadRequest("includeObject=None is not supported where registries select namespaces")
			}
		}
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	if c.plain {
		return c.listPlain(ctx, query.Get("continue"), limit)
	}
	if token := query.Get("continue"); token != "" {
		from, of, err := merge.ParsePosition(token)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		return c.listFrom(ctx, from, of, limit)
	}
	at, failed := c.versions(ctx)
	has := func(cluster string) bool { _, has := had[cluster]; return has }
	if err := c.waits.Refusal(c.caller.GetName(), failed, has, func(cluster string) bool { return c.connecting(ctx, cluster, failed) }); err != nil {
		return err
	}
	if err := c.missing(ctx, c.names(), failed); err != nil {
		return err
	}
	if limit > 0 {
		return c.listFrom(ctx, merge.Position{Version: at.String(), Cluster: slices.Min(at.Clusters())}, at, limit)
	}
	return c.listAll(ctx, at, nil, 0)
}

// listFrom answers with one page, of as many clusters as it takes.
func (c *call) listFrom(ctx context.Context, from merge.Position, of merge.Version, limit int) error {
	out := &merge.List{Writer: c.writer}
	if limit <= 0 {
		limit = pageSize
	}
	for _, cluster := range of.Clusters() {
		if cluster < from.Cluster {
			continue
		}
		if _, still := c.clusters[cluster]; !still {
			return expired(fmt.Sprintf("cluster %s is not read any more", cluster))
		}
		token, most := "", pageSize
		if cluster == from.Cluster {
			token = from.Continue
		}
		for {
			if limit <= 0 {
				return out.End(from.Version, merge.Position{Version: from.Version, Cluster: cluster, Continue: token}.String())
			}
			next, err := c.page(ctx, cluster, c.accept, limit, &most, token)
			if err != nil {
				c.waits.Broke(ctx, c.caller.GetName(), cluster, token)
			} else {
				limit, token = limit-len(next.Items), next.Next
				err = out.Add(next, cluster)
			}
			if err != nil {
				return out.Fail(fmt.Errorf("cluster %s: %w", cluster, err))
			}
			if token == "" {
				break
			}
		}
	}
	return out.End(from.Version, "")
}

// listPlain answers clusters/*/proxy, as Karmada does: a limit is one of each cluster. The token of the next page has those of the clusters that
// have more, in the encoding of a version.
func (c *call) listPlain(ctx context.Context, token string, limit int) error {
	var tokens merge.Version
	if token != "" {
		var err error
		if tokens, err = merge.ParseVersion(token); err != nil || len(tokens) == 0 {
			return apierrors.NewBadRequest("the token in continue is not one of this list")
		}
		maps.DeleteFunc(c.clusters, func(cluster string, _ []string) bool { return tokens[cluster] == "" })
		if len(c.clusters) == 0 {
			return expired("none of the clusters that have more is read any more")
		}
	}
	at, failed := c.versions(ctx)
	if err := c.missing(ctx, c.names(), failed); err != nil {
		return err
	}
	return c.listAll(ctx, at, tokens, max(limit, 0))
}

// listAll answers with the objects of all clusters, of each from its token on, if there is one, and up to limit of each, 0 for all. Several
// clusters are read ahead, a page each, so that memory is bounded.
func (c *call) listAll(ctx context.Context, at, tokens merge.Version, limit int) error {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	names := at.Clusters()
	parts := make([]chan part, len(names))
	for i := range parts {
		parts[i] = make(chan part)
	}
	free := make(chan struct{}, c.share.Size())
	reading.Go(func() {
		for i, cluster := range names {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				for _, unread := range parts[i:] {
					close(unread)
				}
				return
			}
			reading.Go(func() {
				defer func() { <-free }()
				defer close(parts[i])
				c.readPages(ctx, cluster, tokens[cluster], limit, parts[i])
			})
		}
	})
	out, more := &merge.List{Writer: c.writer}, merge.Version{}
	for i, cluster := range names {
		first := true
		for next := range parts[i] {
			err := next.err
			if err != nil {
				c.waits.Broke(ctx, c.caller.GetName(), cluster, tokens[cluster])
			} else {
				err = out.Add(next.Page, cluster)
			}
			if err != nil {
				return out.Fail(fmt.Errorf("cluster %s: %w", cluster, err))
			}
			if first {
				at[cluster], first = next.At, false
			}
			if more[cluster] = next.Next; next.Next == "" {
				delete(more, cluster)
			}
		}
	}
	if ctx.Err() != nil {
		return out.Fail(ctx.Err())
	}
	switch {
	case !c.plain:
		return out.End(at.String(), "")
	case len(more) > 0:
		return out.End("", more.String())
	}
	return out.End("", "")
}

// part is a page of a cluster, or why there is none.
type part struct {
	merge.Page
	err error
}

// readPages sends the pages of a cluster, from a token on, until there are limit objects, 0 for all.
func (c *call) readPages(ctx context.Context, cluster, token string, limit int, to chan<- part) {
	most := pageSize
	for left := limit; ; {
		size := most
		if limit > 0 {
			size = left
		}
		var next merge.Page
		err := controlloop.CatchPanic(func() (err error) {
			next, err = c.page(ctx, cluster, c.accept, size, &most, token)
			return err
		})
		select {
		case to <- part{next, err}:
		case <-ctx.Done():
			return
		}
		left, token = left-len(next.Items), next.Next
		if err != nil || token == "" || limit > 0 && left <= 0 {
			return
		}
	}
}
