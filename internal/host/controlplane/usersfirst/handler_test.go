package usersfirst

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func TestChangesForUser(t *testing.T) {
	resource := func(verb, subresource string) *request.RequestInfo {
		return &request.RequestInfo{IsResourceRequest: true, Verb: verb, Subresource: subresource}
	}
	alice := &user.DefaultInfo{Name: "alice"}
	agent := &user.DefaultInfo{Name: clusterv1alpha1.AgentUserPrefix + "member1", Groups: []string{clusterv1alpha1.AgentsGroup}}
	for name, tc := range map[string]struct {
		info *request.RequestInfo
		by   user.Info
		want bool
	}{
		"a creation":            {resource("create", ""), alice, true},
		"a patch of the scale":  {resource("patch", "scale"), alice, true},
		"a deletion":            {resource("delete", ""), alice, true},
		"a list":                {resource("list", ""), alice, false},
		"a watch":               {resource("watch", ""), alice, false},
		"a request to a member": {resource("create", "proxy"), alice, false},
		"no resource":           {&request.RequestInfo{Verb: "create"}, alice, false},
		"of an agent":           {resource("update", "status"), agent, false},
		"of this process":       {resource("update", ""), &user.DefaultInfo{Name: user.APIServerUser}, false},
		"of no client":          {resource("create", ""), nil, false},
		"not parsed":            {nil, alice, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.info != nil {
				ctx = request.WithRequestInfo(ctx, tc.info)
			}
			if tc.by != nil {
				ctx = request.WithUser(ctx, tc.by)
			}
			if got := changesForUser(httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)); got != tc.want {
				t.Errorf("changesForUser is %t, want %t", got, tc.want)
			}
		})
	}
}
