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
	}{
		"Write":       {"a user's write is recorded", request(alice, "create", "", "secrets", ""), true},
		"Delete":      {"so is a deletion", request(alice, "deletecollection", "work.karmada.io", "works", ""), true},
		"Token":       {"and a token of an account", request(alice, "create", "", "serviceaccounts", "token"), true},
		"Approval":    {"and a subresource that is no status", request(alice, "update", "certificates.k8s.io", "certificatesigningrequests", "approval"), true},
		"Proxy":       {"whatever goes into a member is recorded, reads too", request(alice, "get", "cluster.karmada.io", "clusters", "proxy"), true},
		"Page":        {"a write to a path outside the API is recorded", authorizer.AttributesRecord{User: alice, Verb: "post", Path: "/x"}, true},
		"Read":        {"reads are not", request(alice, "list", "", "secrets", ""), false},
		"Watch":       {"nor watches", request(alice, "watch", "", "configmaps", ""), false},
		"Self":        {"nor what the control plane does", request(self, "update", "work.karmada.io", "works", ""), false},
		"SelfThrough": {"not even through a proxy", request(self, "get", "cluster.karmada.io", "clusters", "proxy"), false},
		"Lease":       {"nor leases", request(alice, "update", "coordination.k8s.io", "leases", ""), false},
		"Event":       {"nor events", request(alice, "create", "", "events", ""), false},
		"Status":      {"nor statuses, of any group", request(alice, "patch", "work.karmada.io", "works", "status"), false},
		"CoreStatus":  {"of the core group, too", request(alice, "patch", "", "pods", "status"), false},
		"Question":    {"nor questions about rights", request(alice, "create", "authorization.k8s.io", "selfsubjectaccessreviews", ""), false},
		"Health":      {"nor reads of the health", authorizer.AttributesRecord{User: alice, Verb: "get", Path: "/readyz"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			level := evaluator.EvaluatePolicyRule(tc.request).Level
			want := "None"
			if tc.recorded {
				want = "Metadata"
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
