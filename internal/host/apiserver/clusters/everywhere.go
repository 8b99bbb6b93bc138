package clusters

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const (
	// everywhereName stands for all clusters in clusters/NAME/proxy.
	everywhereName = "*"
	// memberPatience is how long a member may take to answer a request to all.
	memberPatience = 10 * time.Second
	// memberConcurrency is how many members are read at a time.
	memberConcurrency = 16
	// memberBytes and totalBytes bound what is held in memory of the answers of one member and of all.
	memberBytes, totalBytes = 8 << 20, 64 << 20
)

// everywhere reads from all members at once.
type everywhere struct {
	proxy     *proxyREST
	path      string
	caller    user.Info
	responder rest.Responder
}

// found is what one member has.
type found struct {
	cluster string
	objects []unstructured.Unstructured
	next    string // the token of the next page
	list    *unstructured.UnstructuredList
	err     error
}

// ServeHTTP lists the objects of all members in one list, or returns the one object of a name.
func (e *everywhere) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	result, err := e.read(r)
	if err != nil {
		e.responder.Error(err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(result) // the client is gone if this fails
}

func (e *everywhere) read(r *http.Request) (any, error) {
	info, err := e.parse(r)
	if err != nil {
		return nil, err
	}
	tokens, err := tokensOf(r.URL.Query().Get("continue"))
	if err != nil {
		return nil, err
	}
	clusters, err := e.clusters(r.Context(), tokens)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	results := make([]found, len(clusters))
	var budget atomic.Int64
	budget.Store(totalBytes)
	var group errgroup.Group
	group.SetLimit(memberConcurrency)
	for i, cluster := range clusters {
		group.Go(func() error {
			own := url.Values{}
			for key, values := range query {
				own[key] = values
			}
			if own.Del("continue"); tokens != nil {
				own.Set("continue", tokens[cluster])
			}
			results[i] = e.one(r, cluster, own, info.Name == "", &budget)
			return nil
		})
	}
	_ = group.Wait() // each result has its error
	answered := slices.DeleteFunc(slices.Clone(results), func(f found) bool { return f.err != nil })
	resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	for _, f := range results {
		if f.err != nil && (info.Name == "" || !apierrors.IsNotFound(f.err)) {
			warning.AddWarning(r.Context(), "", fmt.Sprintf("cluster %s is missing: %v", f.cluster, f.err))
		}
	}
	switch {
	case len(answered) == 0:
		return nil, noneAnswered(resource, info.Name, results)
	case info.Name == "":
		return merge(answered)
	case len(answered) > 1:
		names := make([]string, 0, len(answered))
		for _, f := range answered {
			names = append(names, f.cluster)
		}
		return nil, apierrors.NewConflict(resource, info.Name, fmt.Errorf("it exists in the clusters %s: name one of them", strings.Join(names, ", ")))
	}
	return &answered[0].objects[0], nil
}

// parse refuses what cannot be read from several members.
func (e *everywhere) parse(r *http.Request) (*request.RequestInfo, error) {
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	location := *r.URL
	location.Path = "/" + strings.TrimPrefix(e.path, "/")
	info, err := resolver.NewRequestInfo(&http.Request{Method: r.Method, URL: &location})
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if !info.IsResourceRequest || info.Verb != "get" && info.Verb != "list" || info.Subresource != "" && info.Subresource != "status" && info.Subresource != "scale" {
		return nil, apierrors.NewMethodNotSupported(clusterv1alpha1.Resource(clusterv1alpha1.ResourcePluralCluster+"/proxy"),
			fmt.Sprintf("%s %s in all clusters (only objects can be read there, name a cluster)", r.Method, location.Path))
	}
	return info, nil
}

// clusters are those that the caller may reach through the proxy, and that a page still has.
func (e *everywhere) clusters(ctx context.Context, tokens map[string]string) ([]string, error) {
	all, err := e.proxy.names(ctx)
	if err != nil {
		return nil, err
	}
	allowed := []string{}
	for _, name := range all {
		if _, left := tokens[name]; tokens != nil && !left {
			continue
		}
		decision, _, err := e.proxy.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: e.caller, Verb: "get", APIGroup: clusterv1alpha1.GroupName, APIVersion: clusterv1alpha1.GroupVersion.Version,
			Resource: clusterv1alpha1.ResourcePluralCluster, Subresource: "proxy", Name: name, ResourceRequest: true,
		})
		if err != nil && decision != authorizer.DecisionAllow {
			return nil, apierrors.NewInternalError(err)
		}
		if decision != authorizer.DecisionAllow {
			continue
		}
		if _, err := e.proxy.identity(name, e.caller); err == nil {
			allowed = append(allowed, name)
		} else if !apierrors.IsForbidden(err) {
			return nil, err
		}
	}
	if len(allowed) == 0 {
		return nil, apierrors.NewForbidden(clusterv1alpha1.Resource(clusterv1alpha1.ResourcePluralCluster+"/proxy"), everywhereName,
			errors.New("there is no cluster whose proxy you may use"))
	}
	return allowed, nil
}

// one reads from one member.
func (e *everywhere) one(r *http.Request, cluster string, query url.Values, isList bool, budget *atomic.Int64) found {
	result := found{cluster: cluster}
	ctx, cancel := context.WithTimeout(r.Context(), memberPatience)
	defer cancel()
	body, err := e.request(ctx, r, cluster, query)
	if err == nil && budget.Add(-int64(len(body))) < 0 {
		err = errors.New("the answers are too large together: use limit, or a selector")
	}
	if err != nil {
		result.err = err
		return result
	}
	if isList {
		result.list = &unstructured.UnstructuredList{}
		if result.err = result.list.UnmarshalJSON(body); result.err != nil {
			return result
		}
		result.objects, result.next = result.list.Items, result.list.GetContinue()
	} else {
		result.objects = make([]unstructured.Unstructured, 1)
		if result.err = result.objects[0].UnmarshalJSON(body); result.err != nil {
			return result
		}
	}
	for i := range result.objects {
		annotations := result.objects[i].GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[clusterv1alpha1.CachedFromClusterAnnotation] = cluster
		result.objects[i].SetAnnotations(annotations)
	}
	return result
}

// request sends the request to one member, as the caller, and reads its answer.
func (e *everywhere) request(ctx context.Context, r *http.Request, cluster string, query url.Values) ([]byte, error) {
	who, err := e.proxy.identity(cluster, e.caller)
	if err != nil {
		return nil, err
	}
	endpoint, err := e.proxy.dial.Dial(ctx, cluster)
	if err != nil {
		return nil, err
	}
	location := *endpoint.URL
	location.Path, location.RawQuery = utilnet.JoinPreservingTrailingSlash(location.Path, e.path), query.Encode()
	forwarded, err := http.NewRequestWithContext(ctx, http.MethodGet, location.String(), nil)
	if err != nil {
		return nil, err
	}
	forwarded.Header.Set("Accept", "application/json")
	forwarded.Header.Set("User-Agent", r.UserAgent())
	actAs(forwarded.Header, who, endpoint.Token)
	response, err := endpoint.Transport.RoundTrip(forwarded)
	if err != nil {
		return nil, fmt.Errorf("it is not reachable: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, memberBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading its answer: %w", err)
	case len(body) > memberBytes:
		return nil, fmt.Errorf("its answer has more than %d MiB: use limit, or a selector", memberBytes>>20)
	case response.StatusCode != http.StatusOK:
		var status metav1.Status
		if json.Unmarshal(body, &status) != nil || status.Message == "" {
			status.Message = "it answers " + response.Status
		}
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: int32(response.StatusCode), Reason: status.Reason, Message: status.Message,
		}}
	}
	return body, nil
}

// noneAnswered is the answer if no member has a result.
func noneAnswered(resource schema.GroupResource, name string, results []found) error {
	missing := true
	messages := make([]string, 0, len(results))
	for _, f := range results {
		missing = missing && apierrors.IsNotFound(f.err)
		messages = append(messages, fmt.Sprintf("%s: %v", f.cluster, f.err))
	}
	if missing {
		return apierrors.NewNotFound(resource, name)
	}
	return apierrors.NewServiceUnavailable("no cluster has an answer: " + strings.Join(messages, "; "))
}

// merge makes one list. It has no resourceVersion, since that of one member has no meaning in another.
func merge(answered []found) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{}}
	list.SetAPIVersion(answered[0].list.GetAPIVersion())
	list.SetKind(answered[0].list.GetKind())
	next := map[string]string{}
	for _, f := range answered {
		list.Items = append(list.Items, f.objects...)
		if f.next != "" {
			next[f.cluster] = f.next
		}
	}
	if len(next) > 0 {
		token, err := json.Marshal(next)
		if err != nil {
			return nil, err
		}
		list.SetContinue(base64.RawURLEncoding.EncodeToString(token))
	}
	return list, nil
}

// tokensOf reads which members have a next page, nil for all.
func tokensOf(token string) (tokens map[string]string, err error) {
	if token == "" {
		return nil, nil
	}
	content, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(content, &tokens)
	}
	if err != nil || len(tokens) == 0 {
		return nil, apierrors.NewBadRequest("the token in continue is not one of this list")
	}
	return tokens, nil
}
