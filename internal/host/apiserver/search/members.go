package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/waits"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

const (
	// memberPatience is how long a member may take to answer.
	memberPatience = 5 * time.Second
	// memberConcurrency is how many members are read at a time for one request, if the budget allows it.
	memberConcurrency = 8
	// requestPatience is how long a request but a watch may take, as long as one to an API server.
	requestPatience = time.Minute
	// shortSeconds is when a client sends a request again that was refused because memory is short.
	shortSeconds = 10
	// metadataOnly is how a member is asked for as little as possible.
	metadataOnly = "application/json;as=PartialObjectMetadata%s;g=meta.k8s.io;v=v1"
)

// send sends a request to a member and returns its answer if that is a success. The caller closes its body.
func (c *call) send(ctx context.Context, method, cluster, path string, query url.Values, header http.Header, body io.Reader) (*http.Response, error) {
	target := url.URL{Scheme: "https", Host: "localhost", Path: clusterv1alpha1.ProxyPath(cluster) + path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("User-Agent", c.request.UserAgent())
	response, err := c.process().As(c.caller).RoundTrip(r)
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("cluster %s: %v", cluster, err))
	}
	if response.StatusCode < http.StatusBadRequest {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	var status metav1.Status
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status = metav1.Status{Message: "the member answers " + response.Status}
	}
	status.Status, status.Code = metav1.StatusFailure, int32(response.StatusCode)
	return nil, &apierrors.StatusError{ErrStatus: status}
}

// read returns the object or list that a member answers with, within the time that a member may take.
func (c *call) read(ctx context.Context, cluster, path string, query url.Values, accept string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	response, err := c.send(ctx, http.MethodGet, cluster, path, query, http.Header{"Accept": {accept}}, nil) //nolint:bodyclose // Decode closes it
	if err != nil {
		return nil, err
	}
	return merge.Decode(response)
}

// each calls read for every cluster, several at a time, and returns the errors by cluster.
func (c *call) each(clusters []string, read func(cluster string) error) map[string]error {
	var mu sync.Mutex
	failed := map[string]error{}
	var group errgroup.Group
	group.SetLimit(c.share.Size())
	for _, cluster := range clusters {
		group.Go(func() error {
			if err := controlloop.CatchPanic(func() error { return read(cluster) }); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[cluster] = err
			}
			return nil
		})
	}
	_ = group.Wait() // each cluster has its error
	return failed
}

// missing warns the client of clusters that are not in the answer, or returns the error of an answer that nothing is in.
func (c *call) missing(ctx context.Context, clusters []string, failed map[string]error) error {
	if len(failed) < len(clusters) {
		for _, cluster := range clusters {
			if err := failed[cluster]; err != nil {
				warning.AddWarning(ctx, "", fmt.Sprintf("cluster %s is missing: %v", cluster, err))
			}
		}
		return nil
	}
	messages := make([]string, 0, len(clusters))
	var first error
	for _, cluster := range clusters {
		err := failed[cluster]
		messages = append(messages, fmt.Sprintf("%s: %v", cluster, err))
		// Whether another cluster has it is not known while one does not answer; a refusal is the more helpful of two answers.
		if first == nil || rank(err) > rank(first) {
			first = err
		}
	}
	group := c.resource().GroupResource()
	switch {
	case rank(first) == 0:
		return apierrors.NewNotFound(group, c.info.Name)
	case apierrors.IsForbidden(first):
		return apierrors.NewForbidden(group, c.info.Name, errors.New(strings.Join(messages, "; ")))
	case len(clusters) == 1 && !apierrors.IsServiceUnavailable(first):
		return first
	}
	message := "no cluster has an answer: " + strings.Join(messages, "; ")
	if slices.ContainsFunc(clusters, func(cluster string) bool { return c.connecting(ctx, cluster, failed) }) {
		return waits.Later(message)
	}
	return apierrors.NewServiceUnavailable(message)
}

// connecting returns whether a cluster that failed is expected to connect, after a start of this server: one that was ready before.
func (c *call) connecting(ctx context.Context, cluster string, failed map[string]error) bool {
	registries := c.registries()
	return !c.plain && c.waits.Connecting(failed[cluster]) && registries != nil && registries.Ready(ctx, cluster)
}

// rank orders errors by how much they determine the answer.
func rank(err error) int {
	switch {
	case apierrors.IsNotFound(err):
		return 0
	case apierrors.IsForbidden(err):
		return 1
	}
	return 2
}

// forward answers with what another path of this server answers to the caller, upgraded connections included.
func (c *call) forward(path string) {
	c.process().ServeAs(c.writer, c.request, c.caller, path)
}
