package access

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestAuditPolicy(t *testing.T) {
	loaded, err := policy.LoadPolicyFromBytes([]byte(auditPolicy))
	if err != nil {
		t.Fatal(err)
	}
	evaluator := policy.NewPolicyRuleEvaluator(loaded)
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"system:authenticated"}}
	self := &user.DefaultInfo{Name: "system:apiserver", Groups: []string{"system:masters"}}
	request := func(who user.Info, verb, group, resource, subresource string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{User: who, Verb: verb, APIGroup: group, Resource: resource, Subresource: subresource, ResourceRequest: true}
	}
	tests := map[string]struct {
		reason   string
		request  authorizer.AttributesRecord
		recorded bool
		spec     bool
	}{
		"Write":       {reason: "a user's write is recorded", request: request(alice, "create", "", "secrets", ""), recorded: true},
		"Delete":      {reason: "so is a deletion", request: request(alice, "deletecollection", "work.karmada.io", "works", ""), recorded: true},
		"Token":       {reason: "and a token of an account", request: request(alice, "create", "", "serviceaccounts", "token"), recorded: true},
		"Approval":    {reason: "and a subresource that is no status", request: request(alice, "update", "certificates.k8s.io", "certificatesigningrequests", "approval"), recorded: true},
		"Proxy":       {reason: "whatever goes into a member is recorded, reads too", request: request(alice, "get", "cluster.karmada.io", "clusters", "proxy"), recorded: true},
		"Search":      {reason: "so is what the search API reads", request: request(alice, "get", "search.karmada.io", "proxying", "proxy"), recorded: true},
		"Cache":       {reason: "with its cache", request: request(alice, "list", "search.karmada.io", "search", "api"), recorded: true},
		"Registry":    {reason: "a registry has nothing of members", request: request(alice, "list", "search.karmada.io", "resourceregistries", "")},
		"Drift":       {reason: "a question is recorded with what it is about", request: request(alice, "create", "fleet.flagship.io", "driftreports", ""), recorded: true, spec: true},
		"Explanation": {reason: "so is an Explanation", request: request(alice, "create", "fleet.flagship.io", "explanations", ""), recorded: true, spec: true},
		"Timeline":    {reason: "so is a Timeline", request: request(alice, "create", "fleet.flagship.io", "timelines", ""), recorded: true, spec: true},
		"Preview":     {reason: "a Preview without its objects", request: request(alice, "create", "fleet.flagship.io", "previews", ""), recorded: true},
		"Orphans":     {reason: "a page about objects in members is recorded", request: authorizer.AttributesRecord{User: alice, Verb: "get", Path: "/flagship/orphans"}, recorded: true},
		"Page":        {reason: "a write to a path outside the API is recorded", request: authorizer.AttributesRecord{User: alice, Verb: "post", Path: "/x"}, recorded: true},
		"Read":        {reason: "reads are not", request: request(alice, "list", "", "secrets", ""), recorded: false},
		"Watch":       {reason: "nor watches", request: request(alice, "watch", "", "configmaps", ""), recorded: false},
		"Self":        {reason: "nor what the control plane does", request: request(self, "update", "work.karmada.io", "works", ""), recorded: false},
		"SelfThrough": {reason: "not even through a proxy", request: request(self, "get", "cluster.karmada.io", "clusters", "proxy"), recorded: false},
		"Lease":       {reason: "nor leases", request: request(alice, "update", "coordination.k8s.io", "leases", ""), recorded: false},
		"Event":       {reason: "nor events", request: request(alice, "create", "", "events", ""), recorded: false},
		"Status":      {reason: "nor statuses, of any group", request: request(alice, "patch", "work.karmada.io", "works", "status"), recorded: false},
		"CoreStatus":  {reason: "of the core group, too", request: request(alice, "patch", "", "pods", "status"), recorded: false},
		"Question":    {reason: "nor questions about rights", request: request(alice, "create", "authorization.k8s.io", "selfsubjectaccessreviews", ""), recorded: false},
		"Health":      {reason: "nor reads of the health", request: authorizer.AttributesRecord{User: alice, Verb: "get", Path: "/readyz"}, recorded: false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			level := evaluator.EvaluatePolicyRule(tc.request).Level
			want := "None"
			if tc.recorded {
				want = "Metadata"
			}
			if tc.spec {
				want = "Request"
			}
			if string(level) != want {
				t.Errorf("%s: level %s, want %s", tc.reason, level, want)
			}
		})
	}
}

func TestAuthenticationConfig(t *testing.T) {
	const issuers = "jwt:\n- issuer: {url: https://issuer, audiences: [hub]}\n  claimMappings: {username: {claim: sub, prefix: \"oidc:\"}}\n"
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	const health = "anonymous:\n  conditions:\n  - path: /livez\n  - path: /readyz\n  - path: /healthz\n  enabled: true\napiVersion: apiserver.config.k8s.io/v1\n"
	tests := map[string]struct {
		reason, given, want string
		fails               bool
	}{
		"None": {"without one, anonymous users see the health", "", health + "kind: AuthenticationConfiguration\n", false},
		"Tokens": {"karmadactl reads cluster-info, if there are bootstrap tokens", "",
			strings.Replace(health, "  enabled", "  - path: /api/v1/namespaces/kube-public/configmaps/cluster-info\n  enabled", 1) + "kind: AuthenticationConfiguration\n", false},
		"Issuers":   {"issuers are added to that", head + issuers, health + "jwt:\n- claimMappings:\n    username:\n      claim: sub\n      prefix: 'oidc:'\n  issuer:\n    audiences:\n    - hub\n    url: https://issuer\nkind: AuthenticationConfiguration\n", false},
		"Anonymous": {"what it says of anonymous users counts", head + "anonymous: {enabled: false}\n", "anonymous:\n  enabled: false\napiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n", false},
		"OtherKind": {"another kind is refused", "apiVersion: v1\nkind: ConfigMap\n", "", true},
		"Twice":     {"a field that is there twice is refused", head + "kind: AuthenticationConfiguration\n", "", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := authenticationConfig([]byte(tc.given), name == "Tokens")
			if (err != nil) != tc.fails || string(got) != tc.want {
				t.Errorf("%s: %v, got\n%s\nwant\n%s", tc.reason, err, got, tc.want)
			}
		})
	}
}
