package clusterstatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// discoveryTimeout is how long a member may take to list what it serves.
const discoveryTimeout = 30 * time.Second

// apiList is which kinds a member serves, and how sure we are.
type apiList struct {
	version   string
	enabled   []clusterv1alpha1.APIEnablement
	condition metav1.Condition
}

// apiListOf is what a status lists already, so that a restart of the hub does not forget what a silent member served.
func apiListOf(status *clusterv1alpha1.ClusterStatus) apiList {
	l := apiList{version: status.KubernetesVersion, enabled: status.APIEnablements}
	if c := meta.FindStatusCondition(status.Conditions, clusterv1alpha1.ClusterConditionCompleteAPIEnablements); c != nil {
		l.condition = *c
	}
	return l
}

func (l apiList) empty() bool { return len(l.enabled) == 0 }

func (l apiList) serves(groupVersion, kind string) bool {
	i := slices.IndexFunc(l.enabled, func(e clusterv1alpha1.APIEnablement) bool { return e.GroupVersion == groupVersion })
	return i >= 0 && slices.ContainsFunc(l.enabled[i].Resources, func(r clusterv1alpha1.APIResource) bool { return r.Kind == kind })
}

func (l apiList) writeTo(status *clusterv1alpha1.ClusterStatus) {
	if l.condition.Type == "" {
		return
	}
	status.KubernetesVersion, status.APIEnablements = l.version, l.enabled
	meta.SetStatusCondition(&status.Conditions, l.condition)
}

// servesSame returns whether the groups of a member have not changed since servesSame was called last: a request with the ETag of
// aggregated discovery, which the member answers without a body. It returns false if that is not known, as of a member without
// aggregated discovery, or one that cannot be reached. The group without a name is not read: it changes with the API server only.
func (s *clusterState) servesSame(ctx context.Context) bool {
	config := s.conn.RESTConfig()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/apis", nil)
	if err != nil {
		return false
	}
	req.Header.Set("User-Agent", config.UserAgent)
	req.Header.Set("Accept", discovery.AcceptV2)
	if s.etag != "" {
		req.Header.Set("If-None-Match", s.etag)
	}
	resp, err := s.conn.HTTPClient().Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close() // unread: the whole list is read if it changed
	if resp.StatusCode == http.StatusNotModified {
		return true
	}
	s.etag = resp.Header.Get("ETag")
	return false
}

// refresh reads from the member. What it cannot say stays as it was. A member that answers slowly is not probed meanwhile, so that the
// time is bounded.
func (l apiList) refresh(ctx context.Context, conn *member.Conn) apiList {
	ctx, cancel := context.WithTimeoutCause(ctx, discoveryTimeout, fmt.Errorf("no complete answer within %s", discoveryTimeout))
	defer cancel()
	version, err := conn.Discovery().ServerVersionWithContext(ctx)
	if err != nil {
		return l.failed(err)
	}
	version.GitVersion = bounds.Cut(version.GitVersion, bounds.NameBytes)
	_, lists, err := conn.Discovery().ServerGroupsAndResourcesWithContext(ctx)
	enabled := enablements(lists)
	if tooMuch := checkKinds(enabled); tooMuch != nil {
		return l.failed(tooMuch)
	}
	if failed, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		return apiList{version.GitVersion, enabled, clusterv1alpha1.APIEnablementsPartial(failedGroups(failed))}
	}
	if err != nil {
		return l.failed(err)
	}
	return apiList{version.GitVersion, enabled, clusterv1alpha1.APIEnablementsComplete()}
}

func (l apiList) failed(err error) apiList {
	message := bounds.Message(err.Error())
	if l.empty() {
		l.condition = clusterv1alpha1.APIEnablementsEmpty(message)
	} else {
		l.condition = clusterv1alpha1.APIEnablementsPartial("the list is the last one known: " + message)
	}
	return l
}

func failedGroups(err *discovery.ErrGroupDiscoveryFailed) string {
	var groups []string
	for gv := range maps.Keys(err.Groups) {
		groups = append(groups, gv.String())
	}
	slices.Sort(groups)
	return bounds.Message("groups that did not answer: " + strings.Join(groups, ", "))
}

// checkKinds returns an error for more kinds than the status of a Cluster has.
func checkKinds(enabled []clusterv1alpha1.APIEnablement) error {
	var kinds bounds.Amount
	for _, e := range enabled {
		kinds = kinds.Plus(bounds.Amount{Objects: int64(1 + len(e.Resources)), Bytes: int64(len(e.GroupVersion))})
		for _, r := range e.Resources {
			const fields = 24 // their names
			kinds.Bytes += int64(len(r.Name) + len(r.Kind) + fields)
		}
	}
	return bounds.Kinds.Check(kinds)
}

// enablements turns discovery lists into the form of the API: sorted, without subresources.
func enablements(lists []*metav1.APIResourceList) []clusterv1alpha1.APIEnablement {
	out := make([]clusterv1alpha1.APIEnablement, 0, len(lists))
	for _, list := range lists {
		e := clusterv1alpha1.APIEnablement{GroupVersion: list.GroupVersion}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				e.Resources = append(e.Resources, clusterv1alpha1.APIResource{Name: r.Name, Kind: r.Kind})
			}
		}
		slices.SortFunc(e.Resources, func(a, b clusterv1alpha1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b clusterv1alpha1.APIEnablement) int { return cmp.Compare(a.GroupVersion, b.GroupVersion) })
	return out
}
