package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/tunnel"
)

// TestTunnel: requests of users reach a member in pull mode through the tunnel of its agent, without what authenticated them.
func TestTunnel(t *testing.T) {
	uids := map[string]types.UID{}
	for _, name := range []string{"behind", "beside"} {
		createCluster(t, name, `{syncMode: Pull}`)
		object, err := objects.Resource(clusterResource).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		uids[name] = object.GetUID()
	}
	token := powerful(t, "tunneller")
	// Others than agents have the right by RBAC, too.
	if _, err := clients.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "tunnel"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters/tunnel"}, Verbs: []string{"create"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := clients.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tunnel"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tunnel"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	as := func(user string, groups ...string) *rest.Config {
		return &rest.Config{
			Host: hub.URL(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: hub.CA()},
			Impersonate: rest.ImpersonationConfig{UserName: user, Groups: groups},
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	a := tunnel.NewAgent(as(clusterv1alpha1.AgentUser("behind"), clusterv1alpha1.AgentGroups(uids["behind"])...), "behind", http.HandlerFunc(answerSeen), clock.RealClock{}, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	defer func() { stop(); <-done }()
	eventually(t, func() string {
		if err := a.Check(); err != nil {
			return err.Error()
		}
		return ""
	})

	code, body := ask(t, unauthenticated(t), fmt.Sprintf(proxyPath, "behind")+"/api/v1/pods?limit=5",
		http.Header{"Authorization": {"Bearer " + token}, "Cookie": {"a=b"}, "Proxy-Authorization": {"Basic x"}, "X-Remote-User": {"root"}})
	if code != http.StatusOK {
		t.Fatalf("got %d: %s", code, body)
	}
	var got seen
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(seen{Path: "/api/v1/pods", Query: "limit=5", User: "system:serviceaccount:default:tunneller"}, got); diff != "" {
		t.Errorf("what the agent received (-want +got):\n%s", diff)
	}
	expectUpgrade(t, "behind", "upgrader-behind")

	t.Run("TheOtherHasNone", func(t *testing.T) {
		code, body := ask(t, unauthenticated(t), fmt.Sprintf(proxyPath, "beside")+"/api", http.Header{"Authorization": {"Bearer " + token}})
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "its agent has no tunnel") {
			t.Errorf("got %d: %s", code, body)
		}
	})
	agent := clusterv1alpha1.AgentUser("behind")
	for name, tc := range map[string]struct {
		config  *rest.Config
		cluster string
		code    int
	}{
		"NoAgent":      {as("eve"), "behind", http.StatusForbidden},
		"Master":       {as("admin", "system:masters"), "behind", http.StatusForbidden},
		"OtherCluster": {as(agent, clusterv1alpha1.AgentGroups(uids["behind"])...), "beside", http.StatusForbidden},
		"NameAlone":    {as(agent), "behind", http.StatusForbidden},
		"OtherUID":     {as(agent, clusterv1alpha1.AgentGroups(uids["beside"])...), "behind", http.StatusForbidden},
		"Anonymous":    {&rest.Config{Host: hub.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: hub.CA()}}, "behind", http.StatusUnauthorized},
		"NoUpgrade":    {as(agent, clusterv1alpha1.AgentGroups(uids["behind"])...), "behind", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := rest.HTTPClientFor(tc.config)
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hub.URL()+"/apis/cluster.karmada.io/v1alpha1/clusters/"+tc.cluster+"/tunnel", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != tc.code {
				t.Errorf("got %s, want %d", response.Status, tc.code)
			}
		})
	}
	if err := a.Check(); err != nil {
		t.Errorf("after the attempts of others: %v", err)
	}
}

// unauthenticated is a client of the hub without a credential.
func unauthenticated(t *testing.T) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: hub.CA()}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
