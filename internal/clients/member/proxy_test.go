package member_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// TestEveryClientUsesTheProxyOfTheCluster: with the header of spec.proxyHeader, whose commas separate values.
func TestEveryClientUsesTheProxyOfTheCluster(t *testing.T) {
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	get := func(web func(*member.Conn) *http.Client, method, path string) func(context.Context, *member.Conn) error {
		return func(ctx context.Context, c *member.Conn) error {
			req, err := http.NewRequestWithContext(ctx, method, c.RESTConfig().Host+path, nil)
			if err != nil {
				return err
			}
			resp, err := web(c).Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
	}
	for name, use := range map[string]func(context.Context, *member.Conn) error{
		"probe": func(ctx context.Context, c *member.Conn) error {
			_, _, err := c.Probe(ctx)
			return err
		},
		"object": func(ctx context.Context, c *member.Conn) error {
			_, err := c.Dynamic().Resource(configMaps).Namespace("a").Get(ctx, "b", metav1.GetOptions{})
			return err
		},
		"object as a tenant": func(ctx context.Context, c *member.Conn) error {
			tenant, err := c.DynamicAs("tenant")
			if err != nil {
				return err
			}
			_, err = tenant.Resource(configMaps).Namespace("a").Get(ctx, "b", metav1.GetOptions{})
			return err
		},
		"metadata": func(ctx context.Context, c *member.Conn) error {
			_, err := c.Metadata().Resource(configMaps).Namespace("a").Get(ctx, "b", metav1.GetOptions{})
			return err
		},
		"discovery": func(ctx context.Context, c *member.Conn) error {
			_, err := c.NamespacedKinds(ctx)
			return err
		},
		"watch":         get((*member.Conn).PatientHTTPClient, http.MethodGet, "/api/v1/pods?watch=true"),
		"request":       get((*member.Conn).HTTPClient, http.MethodGet, "/version"),
		"token renewal": get((*member.Conn).RenewalHTTPClient, http.MethodPost, "/api/v1/namespaces/n/serviceaccounts/s/token"),
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan []string, 100)
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen <- append(r.Header.Values("X-Team"), r.Method, r.Host)
				w.WriteHeader(http.StatusForbidden)
			}))
			t.Cleanup(proxy.Close)
			fleet, err := member.NewFleet(member.Config{AllowLoopback: true, Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
				return member.Credential{Token: "token", Renewal: "renewal"}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(fleet.Close)
			behind := cluster("https://10.0.0.1")
			behind.Spec.ProxyURL, behind.Spec.ProxyHeader = proxy.URL, map[string]string{"X-Team": "a, b"}
			if err := fleet.Upsert(t.Context(), behind); err != nil {
				t.Fatal(err)
			}
			conn, _ := fleet.Get("member1")
			if err := use(t.Context(), conn); err == nil {
				t.Error("the request passed a proxy that refuses")
			}
			select {
			case got := <-seen:
				if want := "a|b|CONNECT|10.0.0.1:443"; strings.Join(got, "|") != want {
					t.Errorf("the proxy received %q, want %s", got, want)
				}
			default:
				t.Error("the request did not use the proxy")
			}
		})
	}
}
